"""Comparison of models with the answers of the original.

The original runs in onnxruntime with all optimizations off, on input sets that it accepts; models derived from it must
give the same outputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ..errors import EvaluationError, ModelError, UnverifiableError
from ..ort.sessions import Loadable
from .empty_tensor_support import EMPTY_SUM_ERROR, serialized_supports_empty_tensors
from .input_generation import InputSet
from .input_search import Answer, InputSearch
from .input_specs import SEQUENCE, InputSpec
from .output_comparison import compare_outputs
from .seeded_session import BACKENDS, Backend, SeededSession, open_original_session, open_session
from .sensitivity import Sensitivity
from .verdict import Mismatch, MismatchError, OutputDifference, Verdict

UNMATCHED_RANDOM_OP = "comes from a random operator that the original does not have, so it cannot be verified"


class Oracle:
    """The answers of the original, and the comparison with them.

    `given` input sets are used unchanged; otherwise they are generated from `inputs`, with `fixed` sizes for some
    symbols, around `boundaries` too. If there are `random_outputs`, random ops get seeds, and outputs of those that
    take none are compared by type and rank only. `fresh_sessions`: each run gets a session of its own, as runs change
    state. Raises UnverifiableError if none of `backends` loads the original or it runs on no input set, and ModelError
    if it does not run on given inputs.
    """

    def __init__(
        self,
        original: Loadable,
        inputs: list[InputSpec],
        outputs: Sequence[str],
        *,
        given: Sequence[InputSet] = (),
        fixed: Mapping[str, int] | None = None,
        seed: int = 0,
        random_outputs: Collection[str] = (),
        boundaries: Collection[float] = (),
        fresh_sessions: bool = False,
        backends: Sequence[Backend] = BACKENDS,
    ) -> None:
        self.output_names = list(dict.fromkeys(outputs))
        self.random_outputs = frozenset(random_outputs)
        self._fresh_sessions = fresh_sessions
        self._nonempty_inputs = [i for i in inputs if i.must_be_nonempty and i.type_kind != SEQUENCE]
        self._original = open_original_session(
            original, random=bool(random_outputs), fresh_sessions=fresh_sessions, backends=backends
        )
        self.backend = self._original.session.name
        self.notes: list[str] = []
        self.answers: list[Answer] = []
        self._is_given = bool(given)
        if given:
            self.answers = [Answer(d, self._run_given(d)) for d in given]
        else:
            search = InputSearch(self._run, inputs, dict(fixed or {}), seed, self.notes, boundaries)
            self.answers = list(search.answers())
        self._note_empty_outputs()
        self._sensitivity = Sensitivity(original, self._original, self.output_names, self.answers[0])

    def check(self, model: Loadable, *, exact: bool = False) -> Verdict:
        """Compare `model` with the original, bit for bit if `exact`. Raises VerificationError."""
        verdict = self.compare(model, exact=exact)
        if verdict.failure is not None:
            raise MismatchError(verdict.failure)
        return verdict

    def compare(
        self,
        model: Loadable,
        *,
        exact: bool = False,
        input_sets: Collection[InputSet] | None = None,
        backend: Backend | None = None,
    ) -> Verdict:
        """Compare `model` with the original up to the first input set on which it fails, finite ones first.

        `input_sets` restricts the comparison; the others count as equal already. `backend` runs `model` instead of the
        backend of the original; as it has its own process, which may crash, sizes of 0 are tried for all operators.
        """
        try:
            original = self._original
            runs = backend or original.backend
            derived = open_session(
                model, runs, random=bool(self.random_outputs), seeds=original.seeds, fresh_sessions=self._fresh_sessions
            )
        except EvaluationError as e:
            return Verdict(self.backend, exact, (), {}, (), tuple(self.notes), Mismatch("", str(e), None, None))
        derived.timeout = original.timeout
        loose = tuple(n for n in self.output_names if n in self.random_outputs and n in self._original.unseeded_outputs)
        case = _ModelComparison(self.output_names, loose, self._sensitivity, exact=exact)
        foreign = next(
            (n for n in self.output_names if n in derived.unseeded_outputs - self._original.unseeded_outputs), None
        )
        if foreign is not None:
            case.failure = Mismatch(foreign, UNMATCHED_RANDOM_OP, self.answers[0].input_set, None)
            return case.verdict(self.backend, self.notes)
        chosen = [a for a in self.answers if input_sets is None or any(a.input_set is d for d in input_sets)]
        spares = backend is None and not self._is_given and any(map(_has_zero_size, chosen))
        if spares and not serialized_supports_empty_tensors(model):
            chosen = [a for a in chosen if not _has_zero_size(a) or a is self.answers[0]]
        for answer in sorted(chosen, key=lambda a: not a.input_set.is_finite):
            case.compare_on(derived, answer)
            if case.failure is not None:
                break
        return case.verdict(self.backend, self.notes)

    def _run_given(self, draw: InputSet) -> dict[str, Any]:
        try:
            return self._run(draw)
        except EvaluationError as e:
            raise ModelError(f"the original does not run on the {draw}: {e}") from e

    def _run(self, draw: InputSet) -> dict[str, Any]:
        emptied = (i.name for i in self._nonempty_inputs if i.is_emptied_by(draw.feeds.get(i.name, 0)))
        if (name := next(emptied, None)) is not None:
            raise EvaluationError(f"if {name} is empty, a convolution may be one that {EMPTY_SUM_ERROR}")
        return dict(zip(self.output_names, self._original.run(self.output_names, draw.feeds), strict=True))

    def _note_empty_outputs(self) -> None:
        """Note outputs that are always empty. Raises UnverifiableError if a size of 0 is the reason for all."""
        empty = [n for n in self.output_names if all(_is_empty(a.outputs[n]) for a in self.answers)]
        if all(map(_has_zero_size, self.answers)) and len(empty) == len(self.output_names):
            zeros = {s for a in self.answers for s, size in a.input_set.sizes.items() if size == 0}
            raise UnverifiableError(f"with {', '.join(sorted(zeros))} of 0 every output of the original is empty")
        self.notes.extend(f"{n} is empty on all inputs, so only its type and shape were compared" for n in empty)
        others = (n for n in self.output_names if n not in empty)
        mute = [n for n in others if not any(_is_partly_finite(a.outputs[n]) for a in self.answers)]
        self.notes.extend(f"{n} is finite on no inputs, so only where it is not was compared" for n in mute)


class _ModelComparison:
    """The comparison of one model so far."""

    def __init__(
        self, names: list[str], unseeded_outputs: tuple[str, ...], sensitivity: Sensitivity, *, exact: bool
    ) -> None:
        self.names, self.unseeded_outputs, self.sensitivity, self.exact = names, unseeded_outputs, sensitivity, exact
        self.input_sets: dict[bool, list[str]] = {True: [], False: []}  # by whether they are finite
        self.worst: dict[bool, dict[str, OutputDifference]] = {True: {}, False: {}}
        self.notes: list[str] = []
        self.failure: Mismatch | None = None

    def compare_on(self, session: SeededSession, answer: Answer) -> None:
        """Compare the outputs of `session` with an answer of the original."""
        draw, finite = answer.input_set, answer.input_set.is_finite
        self.input_sets[finite].append(str(draw))
        try:
            results = session.run(self.names, draw.feeds)
        except EvaluationError as e:
            self.failure = Mismatch("", str(e), draw, None)
            return
        worst = self.worst[finite]
        for name, got in zip(self.names, results, strict=True):
            noise, has_values = self.sensitivity.noise(answer, name), name not in self.unseeded_outputs
            found = compare_outputs(answer.outputs[name], got, exact=self.exact, compare_values=has_values, noise=noise)
            worst[name] = max(worst.get(name, found), found, key=lambda d: (bool(d.reason), d.share_of_allowed))
            if found.excused:
                self.notes.append(
                    f"{found.excused} elements of {name} differ on {draw} where the original's own jump at one ulp"
                )
            if found.reason:
                self.failure = Mismatch(name, found.reason, draw, found)
                return

    def verdict(self, backend: str, notes: list[str]) -> Verdict:
        """The verdict on the model."""
        return Verdict(
            backend,
            self.exact,
            tuple(self.input_sets[True]),
            self.worst[True],
            self.unseeded_outputs,
            (*notes, *self.notes),
            self.failure,
            tuple(self.input_sets[False]),
            self.worst[False],
        )


def _has_zero_size(answer: Answer) -> bool:
    return 0 in answer.input_set.sizes.values()


def _is_empty(result: Any) -> bool:
    if isinstance(result, list | dict):
        return not result
    return isinstance(result, np.ndarray) and result.size == 0


def _is_partly_finite(result: Any) -> bool:
    """Whether a result has elements other than NaN and infinities."""
    if isinstance(result, list):
        return any(map(_is_partly_finite, cast("list[Any]", result)))
    if not isinstance(result, np.ndarray):
        return True
    array = cast("np.ndarray[Any, Any]", result)
    return array.dtype.kind not in "fcV" or bool(np.isfinite(array).any())
