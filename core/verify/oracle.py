"""Whether the rewritten model still computes what the original computes.

The original runs under onnxruntime with every optimization off, on inputs that it accepts; whatever is
derived from it is held to those answers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ..errors import EvaluationError, ModelError, Unverifiable
from ..ort.sessions import Loadable
from .empty_tensor_support import NOT_RIGHT, loadable_bears_emptiness
from .input_generation import Draw
from .input_search import Answer, Search
from .input_specs import SEQUENCE, Input
from .output_comparison import compare
from .seeded_session import BACKENDS, Backend, Performer, original_performer, performer
from .sensitivity import Movement
from .verdict import Difference, Mismatch, Mismatched, Verdict

NOT_OURS = "comes from a random operator that the original does not have, so nothing can be said of it"


class Oracle:
    """The answers of the original, and the comparison with them.

    `given` inputs are used as they are; otherwise draws are made from `inputs`, with `fixed` sizes for
    some symbols, around `boundaries` too. Where outputs are `random`, random ops run with seeds of ours, and
    outputs of those that take none are compared by type and rank only. `fresh`: runs leave traces, so each gets a
    session of its own. Raises Unverifiable when none of `backends` can load the original or no draw runs on it, and
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
        random: Collection[str] = (),
        boundaries: Collection[float] = (),
        fresh: bool = False,
        backends: Sequence[Backend] = BACKENDS,
    ) -> None:
        self.names = list(dict.fromkeys(outputs))
        self.random = frozenset(random)
        self._fresh = fresh
        self._never_empty = [i for i in inputs if i.never_empty and i.form != SEQUENCE]
        self._original = original_performer(original, random=bool(random), fresh=fresh, backends=backends)
        self.backend = self._original.session.name
        self.notes: list[str] = []
        self.answers: list[Answer] = []
        self._is_given = bool(given)
        if given:
            self.answers = [Answer(d, self._must(d)) for d in given]
        else:
            search = Search(self._run, inputs, dict(fixed or {}), seed, self.notes, boundaries)
            self.answers = list(search.answers())
        self._note_emptiness()
        self._movement = Movement(original, self._original, self.names, self.answers[0])

    def check(self, model: Loadable, *, exact: bool = False) -> Verdict:
        """Compare `model` with the original, bit for bit if `exact`. Raises VerificationError."""
        verdict = self.judge(model, exact=exact)
        if verdict.failure is not None:
            raise Mismatched(verdict.failure)
        return verdict

    def judge(
        self,
        model: Loadable,
        *,
        exact: bool = False,
        on: Collection[Draw] | None = None,
        backend: Backend | None = None,
    ) -> Verdict:
        """Compare `model` with the original up to the first draw on which it fails, finite ones first.

        `on` limits to some of the draws; those left out count as known to agree. `backend` runs `model`, where that is
        to be another than the one that ran the original; as it lives in a process of its own, which may crash, it is
        put sizes of 0 whatever the operators.
        """
        try:
            original = self._original
            runs = backend or original.backend
            derived = performer(model, runs, random=bool(self.random), like=original.seeds, fresh=self._fresh)
        except EvaluationError as e:
            return Verdict(self.backend, exact, (), {}, (), tuple(self.notes), Mismatch("", str(e), None, None))
        derived.limit = original.limit
        loose = tuple(n for n in self.names if n in self.random and n in self._original.loose)
        case = _Case(self.names, loose, self._movement, exact=exact)
        foreign = next((n for n in self.names if n in derived.loose - self._original.loose), None)
        if foreign is not None:
            case.failure = Mismatch(foreign, NOT_OURS, self.answers[0].draw, None)
            return case.verdict(self.backend, self.notes)
        chosen = [a for a in self.answers if on is None or any(a.draw is d for d in on)]
        spares = backend is None and not self._is_given and any(map(_has_zero, chosen))
        if spares and not loadable_bears_emptiness(model):
            chosen = [a for a in chosen if not _has_zero(a) or a is self.answers[0]]
        for answer in sorted(chosen, key=lambda a: not a.draw.is_finite):
            case.hear(derived, answer)
            if case.failure is not None:
                break
        return case.verdict(self.backend, self.notes)

    def _must(self, draw: Draw) -> dict[str, Any]:
        try:
            return self._run(draw)
        except EvaluationError as e:
            raise ModelError(f"the original does not run on the {draw}: {e}") from e

    def _run(self, draw: Draw) -> dict[str, Any]:
        emptied = (i.name for i in self._never_empty if i.is_emptied_by(draw.feeds.get(i.name, 0)))
        if (name := next(emptied, None)) is not None:
            raise EvaluationError(f"with nothing in {name} a convolution may be one that {NOT_RIGHT}")
        return dict(zip(self.names, self._original.run(self.names, draw.feeds), strict=True))

    def _note_emptiness(self) -> None:
        """Say which outputs have no elements at all. Raises Unverifiable if that is so because of a size of 0."""
        empty = [n for n in self.names if all(_is_empty(a.outputs[n]) for a in self.answers)]
        if all(map(_has_zero, self.answers)) and len(empty) == len(self.names):
            zeros = {s for a in self.answers for s, size in a.draw.sizes.items() if size == 0}
            raise Unverifiable(f"with {', '.join(sorted(zeros))} of 0 every output of the original is empty")
        self.notes.extend(f"{n} is empty on all inputs, so only its type and shape were compared" for n in empty)
        others = (n for n in self.names if n not in empty)
        mute = [n for n in others if not any(_is_partly_finite(a.outputs[n]) for a in self.answers)]
        self.notes.extend(f"{n} is finite on no inputs, so only where it is not was compared" for n in mute)


class _Case:
    """What was found out about one model so far."""

    def __init__(self, names: list[str], loose: tuple[str, ...], movement: Movement, *, exact: bool) -> None:
        self.names, self.loose, self.movement, self.exact = names, loose, movement, exact
        self.draws: dict[bool, list[str]] = {True: [], False: []}  # finite ones, and the others
        self.worst: dict[bool, dict[str, Difference]] = {True: {}, False: {}}
        self.notes: list[str] = []
        self.failure: Mismatch | None = None

    def hear(self, derived: Performer, answer: Answer) -> None:
        """Hold what `derived` gives to an answer of the original."""
        draw, finite = answer.draw, answer.draw.is_finite
        self.draws[finite].append(str(draw))
        try:
            results = derived.run(self.names, draw.feeds)
        except EvaluationError as e:
            self.failure = Mismatch("", str(e), draw, None)
            return
        worst = self.worst[finite]
        for name, got in zip(self.names, results, strict=True):
            noise = self.movement.noise(answer, name)
            want = answer.outputs[name]
            found = compare(want, got, exact=self.exact, values=name not in self.loose, noise=noise)
            worst[name] = max(worst.get(name, found), found, key=lambda d: (bool(d.reason), d.share))
            if found.excused:
                self.notes.append(
                    f"{found.excused} elements of {name} differ on {draw} where the original's own jump at one ulp"
                )
            if found.reason:
                self.failure = Mismatch(name, found.reason, draw, found)
                return

    def verdict(self, backend: str, notes: list[str]) -> Verdict:
        """What it comes to."""
        return Verdict(
            backend,
            self.exact,
            tuple(self.draws[True]),
            self.worst[True],
            self.loose,
            (*notes, *self.notes),
            self.failure,
            tuple(self.draws[False]),
            self.worst[False],
        )


def _has_zero(answer: Answer) -> bool:
    return 0 in answer.draw.sizes.values()


def _is_empty(result: Any) -> bool:
    if isinstance(result, list | dict):
        return not result
    return isinstance(result, np.ndarray) and result.size == 0


def _is_partly_finite(result: Any) -> bool:
    """Whether there is something else in it than NaN and infinities."""
    if isinstance(result, list):
        return any(map(_is_partly_finite, cast("list[Any]", result)))
    if not isinstance(result, np.ndarray):
        return True
    array = cast("np.ndarray[Any, Any]", result)
    return array.dtype.kind not in "fcV" or bool(np.isfinite(array).any())
