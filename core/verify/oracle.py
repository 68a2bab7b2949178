"""Whether the rewritten model still computes what the original computes.

The original runs under onnxruntime with every optimization off, on inputs that it accepts; whatever is
derived from it is held to those answers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import CannotLoad, EvaluationError, ModelError, Unverifiable, VerificationError
from ..runtime import Loadable, OnnxRuntime, Reference
from .answers import Answer, Search
from .compare import Difference, compare
from .draws import Draw
from .signature import Input


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
    some symbols. Of outputs that are `random` only type and rank are compared. Raises Unverifiable when no
    backend can load the original or no draw runs on it, and ModelError when inputs that were given do not.
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
    ) -> None:
        self.names = list(dict.fromkeys(outputs))
        self.random = tuple(n for n in self.names if n in random)
        self.backend: OnnxRuntime | Reference = _loaded(original)
        self.notes: list[str] = []
        self.answers: list[Answer] = []
        if given:
            self.answers = [Answer(d, self._must(d)) for d in given]
        else:
            search = Search(self._run, inputs, dict(fixed or {}), seed, self.notes)
            self.answers = list(search.answers())
        self._note_emptiness()

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

    def _must(self, draw: Draw) -> dict[str, Any]:
        try:
            return self._run(draw)
        except EvaluationError as e:
            raise ModelError(f"the original does not run on the {draw}: {e}") from e

    def _run(self, draw: Draw) -> dict[str, Any]:
        return dict(zip(self.names, self.backend.run(self.names, draw.feeds), strict=True))

    def _note_emptiness(self) -> None:
        """Say which outputs have no elements at all. Raises Unverifiable if that is so because of a size of 0."""
        empty = [n for n in self.names if all(_is_empty(a.outputs[n]) for a in self.answers)]
        zeros = {s for a in self.answers for s, size in a.draw.sizes.items() if size == 0}
        if zeros and len(empty) == len(self.names):
            raise Unverifiable(f"with {', '.join(sorted(zeros))} of 0 every output of the original is empty")
        self.notes.extend(f"{n} is empty on all inputs, so only its type and shape were compared" for n in empty)


def _is_empty(result: Any) -> bool:
    if isinstance(result, list | dict):
        return not result
    return isinstance(result, np.ndarray) and result.size == 0


def _loaded(original: Loadable) -> OnnxRuntime | Reference:
    reasons: list[str] = []
    backends: tuple[type[OnnxRuntime | Reference], ...] = (OnnxRuntime, Reference)
    for backend in backends:
        try:
            return backend(original)
        except CannotLoad as e:
            reasons.append(str(e))
    raise Unverifiable(f"the original cannot be run: {'; '.join(reasons)}")
