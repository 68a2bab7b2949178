"""Verified runs: wrong changes are found, named and excluded until the result is correct."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ..errors import FailureKind, GraphError, VerificationError
from ..io.files import in_memory, weight_bytes
from ..io.model import MAX_MESSAGE_BYTES, Model, SerializedModel, serialize
from ..io.model_source import ModelSource
from ..io.publishing import Publication
from ..io.split_models import Loadable, SplitModel
from ..ir.tensor import SMALL_TENSOR_BYTES
from ..rewriting.changes import ChangeObserver
from ..support.gc_pause import gc_paused
from ..verify.comparison_options import ComparisonOptions
from ..verify.oracle_process import OracleProcess
from ..verify.verdict import Mismatch, Verdict
from .name_map import name_map
from .pass_manager import Attempt, CheckOptions, Comparer, Failure, mismatch_failure
from .phase_timer import BISECTING, COMPARING, DRAWING, EXPORTING, REWRITING, RUNNING_ORIGINAL, WRITING, PhaseTimer
from .quarantine import Quarantine

MAX_WRITTEN_FIRST_BYTES = 1 << 30  # bytes of weights up to which a model is written to be compared as it is in its file


def attempt_comparer(oracle: OracleProcess, keeps_names: Callable[[], bool], may_round: Callable[[], bool]) -> Comparer:
    """The comparison of attempts with the original, as a function.

    `keeps_names`: whether regions are compared. `may_round`: whether a change of the full run may round.
    """

    def compare(attempt: Attempt, options: ComparisonOptions) -> Mismatch | None:
        changed = replace(options, compare_regions=keeps_names(), may_round=may_round())
        return oracle.compare(in_memory(attempt.model), changed).failure

    return compare


Accept = Callable[[Path], bool]
"""Whether to write a model, which is in that file."""


@dataclass(frozen=True, slots=True)
class ExternalData:
    """Whether weights are written to a file of their own: as in the original if None, and beyond 2 GB unless False.

    `above`: the size in bytes above which a tensor is written there.
    """

    choice: bool | None = None
    above: int = SMALL_TENSOR_BYTES


@dataclass(frozen=True)
class Candidate:
    """A model ready to be written; `is_external`: whether the weights of the original are external."""

    model: Model
    exported: SerializedModel
    is_external: bool
    external_data: ExternalData = field(default_factory=ExternalData)

    def stage(self, publication: Publication) -> Path:
        """Add the model to the files of `publication`; returns the staged file."""
        choice = self.external_data.choice
        if choice is None:
            choice = self.is_external or weight_bytes(self.model) > MAX_MESSAGE_BYTES
        model = self.model if choice else self.exported
        return publication.add_model(model, external=choice, external_above=self.external_data.above)

    def stage_if(self, accept: Accept, publication: Publication | None) -> None:
        """Write the model to a staged file, which stays in `publication`, if given, if it is accepted."""
        with ExitStack() as exits:
            files = publication or exits.enter_context(Publication())
            if not accept(self.stage(files)):
                files.discard_model()

    def verify_and_stage(
        self,
        compare: Callable[[Loadable | SplitModel], Verdict],
        publication: Publication | None,
        timer: PhaseTimer,
        accept: Accept | None = None,
    ) -> Verdict:
        """Compare the serialized model with the original; add it to `publication`, if given, if it is correct.

        With more than 1 GB of weights it is written only then, as these are copied from file to file. `accept` decides
        about correct ones.
        """
        is_written = publication is not None or accept is not None
        if not is_written or weight_bytes(self.model) > MAX_WRITTEN_FIRST_BYTES:
            verdict = compare(in_memory(self.model, self.exported))
            if is_written and verdict.failure is None:
                with timer.phase(WRITING):
                    self.stage_if(accept or (lambda _: True), publication)
            return verdict
        verdicts: list[Verdict] = []

        def is_accepted(stage: Path) -> bool:
            verdicts.append(compare(stage))
            return verdicts[0].failure is None and (accept is None or accept(stage))

        with timer.phase(WRITING):
            self.stage_if(is_accepted, publication)
        return verdicts[0]


@dataclass(slots=True)
class VerifiedRun:
    """Runs a pipeline repeatedly, each time without the changes that were found to be wrong.

    `strict`: raise VerificationError for the first wrong change, naming it, as in any case for one of the passes in
    `required`, which are not left out. `track_names`: for a name map. `record_changes`: the ledger records each change
    and its savings. With `new_observer`, `observer` has observed the changes of the last run, which gives the result.
    """

    source: ModelSource
    quarantine: Quarantine
    timer: PhaseTimer
    strict: bool = False
    required: Collection[str] = ()
    track_names: bool = False
    record_changes: bool = False
    new_observer: Callable[[], ChangeObserver] | None = None
    external_data: ExternalData = field(default_factory=ExternalData)
    attempt: Attempt = field(init=False)
    observer: ChangeObserver | None = field(init=False, default=None)

    def start(self, original: Model) -> Model:
        """Run the pipeline without changes that raise, do not end or break the graph; `original` is rewritten."""
        self._run(original)
        return self._quarantine_failures()

    def verify(
        self,
        oracle: OracleProcess,
        publication: Publication | None,
        *,
        exact: bool,
        uses_half: bool,
        accept: Accept | None = None,
    ) -> tuple[Candidate, Verdict]:
        """The first candidate that `oracle` finds correct, and its verdict. If accepted, it is in `publication`.

        Changes that are right under the condition of their rule, as everything else is right without them, are in it.
        """
        compare = partial(self._compare, oracle, exact=exact, uses_half=uses_half)
        while True:
            if not self.quarantine.conditional:
                candidate, verdict = compare(publication, accept)
                if verdict.failure is None:
                    return candidate, verdict
            else:
                candidate, verdict = compare(None, None)
                if verdict.failure is None and (found := self._verify_conditional(compare, publication, accept)):
                    return found
            if self.attempt.failure is not None:
                self._quarantine_failures()

    def _compare(
        self,
        oracle: OracleProcess,
        publication: Publication | None,
        accept: Accept | None,
        *,
        exact: bool,
        uses_half: bool,
        finite_only: bool = False,
        conditions: Sequence[Loadable | SplitModel] = (),
    ) -> tuple[Candidate, Verdict]:
        """The current candidate and its verdict, which is in the attempt if it is a failure."""
        candidate = self.candidate()
        bits = exact or (self.attempt.ledger.is_exact and not uses_half)
        options = ComparisonOptions(
            exact=bits,
            compare_regions=self.quarantine.keeps_names,
            finite_only=finite_only,
            may_round=self.may_round(),
            conditions=conditions,
        )

        def compare(model: Loadable | SplitModel) -> Verdict:
            if not oracle.is_open:
                with self.timer.phase(RUNNING_ORIGINAL):
                    oracle.wait()
            with self.timer.phase(COMPARING):
                return oracle.compare(model, options)

        verdict = candidate.verify_and_stage(compare, publication, self.timer, accept)
        if verdict.failure is not None:
            self.attempt = replace(self.attempt, failure=mismatch_failure(verdict.failure), exact=bits)
        return candidate, verdict

    def may_round(self) -> bool:
        """Whether a change of the last full run may round."""
        return not self.attempt.ledger.is_exact

    def _verify_conditional(
        self, compare: Callable[..., tuple[Candidate, Verdict]], publication: Publication | None, accept: Accept | None
    ) -> tuple[Candidate, Verdict] | None:
        """The candidate with the changes that are right under a condition; None if it is wrong under it.

        Input sets with NaN and infinities are left out, and those on which an expression of a condition is false.
        """
        kept, conditions = self.quarantine.readmit_conditional()
        self._run()
        if self.attempt.failure is None:
            candidate, verdict = compare(publication, accept, finite_only=True, conditions=conditions)
            if verdict.failure is None and verdict.input_sets:
                notes = (f"{q.label} holds on condition that {q.condition}; else {q.message}" for q in kept)
                return candidate, replace(verdict, notes=(*verdict.notes, *notes))
        self.quarantine.distrust_conditions()
        return None

    def candidate(self) -> Candidate:
        """The current model, serialized; changes that cannot be written are excluded."""
        while True:
            model = self.attempt.model
            try:
                with gc_paused(), self.timer.phase(EXPORTING):
                    return Candidate(model, serialize(model), self.source.is_external, self.external_data)
            except GraphError as e:
                self.attempt = replace(self.attempt, failure=Failure(FailureKind.INVALID, str(e)), exact=False)
                self._quarantine_failures()

    def name_map(self) -> dict[str, object]:
        """The name map, after export, if names were tracked."""
        assert self.attempt.tracker is not None
        return name_map(self.attempt.tracker, self.attempt.model, self.attempt.ledger.changes)

    def _run(self, model: Model | None = None) -> None:
        with gc_paused(), self.timer.phase(REWRITING):
            self.observer = self.new_observer() if self.new_observer is not None else None
            weigh = self.record_changes or self.observer is not None
            attempt = self.quarantine.manager.run(
                model,
                record=weigh or self.track_names,
                track_names=self.track_names,
                account_sizes=weigh,
                observer=self.observer,
            )
            self.attempt = CheckOptions().check(attempt)
        self.timer.transfer(REWRITING, DRAWING, attempt.ledger.observer_seconds)

    def _quarantine_failures(self) -> Model:
        """Exclude wrong changes until the attempt passes the checks that do not run the model."""
        while self.attempt.failure is not None:
            with gc_paused(), self.timer.phase(BISECTING):
                found = self.quarantine.quarantine_next(self.attempt)
            if (self.strict or found.by in self.required) and not found.condition:
                raise VerificationError(f"{found.message}; first broken by {found.label}")
            self._run()
        return self.attempt.model
