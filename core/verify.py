"""Whether the rewritten model still computes what the original computes.

The original runs under onnxruntime with every optimization off, on inputs that it accepts; whatever is
derived from it is held to those answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .compare import Difference, compare
from .draws import KINDS, Draw, candidates, size_plans, with_ones
from .errors import CannotLoad, EvaluationError, ModelError, Unverifiable, VerificationError
from .runtime import Loadable, OnnxRuntime, Reference
from .signature import Input, Sizes


@dataclass(frozen=True, slots=True)
class Answer:
    """What the original gives for a draw, by output name."""

    draw: Draw
    outputs: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A comparison that went well: the largest difference of each output, and what was compared with what."""

    backend: str
    exact: bool
    draws: tuple[str, ...]
    differences: dict[str, Difference]
    random: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Oracle:
    """The answers of the original, and the comparison with them.

    `given` inputs are used as they are; otherwise draws are made from `inputs`, with `fixed` sizes for
    some symbols. Raises Unverifiable when no backend can load the original or no draw runs on it, and
    ModelError when inputs that were given do not.
    """

    def __init__(
        self,
        original: Loadable,
        inputs: list[Input],
        outputs: Sequence[str],
        *,
        given: Sequence[Draw] = (),
        fixed: Mapping[str, int] | None = None,
        seed: int = 0,
        random: bool = False,
    ) -> None:
        self.names = list(dict.fromkeys(outputs))
        self.backend: OnnxRuntime | Reference = _loaded(original)
        self.notes: list[str] = []
        self.answers: list[Answer] = []
        if given:
            self.answers = [Answer(d, self._must(d)) for d in given]
        else:
            self.answers = list(self._drawn(inputs, dict(fixed or {}), seed))
        self.random = self._random_outputs() if random else ()

    def check(self, model: Loadable, *, exact: bool = False) -> Verdict:
        """Compare `model` with the original, bit for bit if `exact`. Raises VerificationError."""
        try:
            derived = type(self.backend)(model)
        except EvaluationError as e:
            raise VerificationError(f"the rewritten model is refused: {e}") from e
        worst: dict[str, Difference] = {}
        for answer in self.answers:
            try:
                results = derived.run(self.names, answer.draw.feeds)
            except EvaluationError as e:
                raise VerificationError(f"the rewritten model fails on {answer.draw}: {e}") from e
            for name, got in zip(self.names, results, strict=True):
                found = compare(answer.outputs[name], got, exact=exact, values=name not in self.random)
                if found.reason:
                    raise VerificationError(f"{name}: {found.reason}, on {answer.draw}")
                worst[name] = max(worst.get(name, found), found, key=lambda d: d.share)
        draws = tuple(str(a.draw) for a in self.answers)
        return Verdict(self.backend.name, exact, draws, worst, self.random, tuple(self.notes))

    # -- finding inputs --------------------------------------------------------------

    def _drawn(self, inputs: list[Input], fixed: Sizes, seed: int) -> Iterator[Answer]:
        """One answer for each kind of draw, at the model's usual sizes and with dims of 1 in turn."""
        base, why = None, ""
        for plan in size_plans(inputs, fixed):
            first, why = self._accepted(inputs, "normal", plan, (seed, 0))
            if first is not None:
                base = plan
                yield first
                break
        if base is None:
            raise Unverifiable(f"the original runs on none of the inputs tried: {why}")
        plans = [base]
        for plan in with_ones(inputs, base, fixed):
            answer, _ = self._accepted(inputs, "normal", plan, (seed, 1)) if plan not in plans else (None, "")
            if answer is not None:
                plans.append(plan)
                yield answer
                if all(size == 1 for s, size in plan.items() if s not in fixed):
                    break
        self._note_sizes(plans, fixed)
        for i, kind in enumerate(KINDS[1:], 1):
            for plan in dict.fromkeys(map(_frozen, (plans[i % len(plans)], base))):
                answer, _ = self._accepted(inputs, kind, dict(plan), (seed, i + 1))
                if answer is not None:
                    yield answer
                    break
            else:
                self.notes.append(f"the original accepts no {kind} inputs")

    def _note_sizes(self, plans: list[Sizes], fixed: Sizes) -> None:
        for symbol in plans[0]:
            if symbol not in fixed and len({p[symbol] for p in plans} | {1}) > len({p[symbol] for p in plans}):
                self.notes.append(f"the original accepts no {symbol}=1")

    def _accepted(
        self, inputs: list[Input], kind: str, plan: Sizes, seed: tuple[int, ...]
    ) -> tuple[Answer | None, str]:
        """The first draw of a kind that the original runs on, or None and what it said to the first."""
        why = ""
        for draw in candidates(inputs, kind, plan, seed):
            try:
                return Answer(draw, self._run(draw)), ""
            except EvaluationError as e:
                why = why or str(e)
        return None, why

    def _must(self, draw: Draw) -> dict[str, Any]:
        try:
            return self._run(draw)
        except EvaluationError as e:
            raise ModelError(f"the original does not run on the {draw}: {e}") from e

    def _run(self, draw: Draw) -> dict[str, Any]:
        return dict(zip(self.names, self.backend.run(self.names, draw.feeds), strict=True))

    def _random_outputs(self) -> tuple[str, ...]:
        """Outputs that differ between two runs of the original: of these only type and shape can be compared."""
        again = self._run(self.answers[0].draw)
        first = self.answers[0].outputs
        return tuple(n for n in self.names if compare(first[n], again[n], exact=True).reason)


def _frozen(sizes: Sizes) -> tuple[tuple[str, int], ...]:
    return tuple(sizes.items())


def _loaded(original: Loadable) -> OnnxRuntime | Reference:
    reasons: list[str] = []
    backends: tuple[type[OnnxRuntime | Reference], ...] = (OnnxRuntime, Reference)
    for backend in backends:
        try:
            return backend(original)
        except CannotLoad as e:
            reasons.append(str(e))
    raise Unverifiable(f"the original cannot be run: {'; '.join(reasons)}")
