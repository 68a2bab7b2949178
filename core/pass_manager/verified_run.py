"""A run that goes on until its result is right: what breaks it is found, named and left out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import GraphError, VerificationError, Why
from ..io.files import loadable, publish, staged, weight_bytes
from ..io.model import Model
from ..io.model_source import Source
from ..io.serialized_model import ONE_MESSAGE, Exported, export
from ..rewriting.observer import Witness
from ..support.gc_pause import no_collection
from ..verify.input_generation import Draw
from ..verify.oracle import Oracle
from ..verify.verdict import Mismatch, Verdict
from .attempt_check import Failure, Judge, Look, Trial, difference
from .name_map import name_map
from .pass_manager import Attempt
from .phase_timer import Stopwatch
from .quarantine import Quarantine

SEARCHING, DRAWING = "finding what broke it", "drawing"


def judge_by(oracle: Oracle) -> Judge:
    """A judge that holds attempts to the answers of the original."""

    def judge(attempt: Attempt, bits: bool, on: Collection[Draw] | None) -> Mismatch | None:
        with loadable(attempt.model) as model:
            return oracle.judge(model, exact=bits, on=on).failure

    return judge


@dataclass(frozen=True)
class Candidate:
    """A model as it would be written; its large weights in a file of their own if those of the original are."""

    model: Model
    exported: Exported
    is_external: bool

    def staged(self, destination: Path) -> AbstractContextManager[Path]:
        """The model in a staging folder beside `destination`."""
        external = self.is_external or weight_bytes(self.model) > ONE_MESSAGE
        return staged(self.model if external else self.exported, destination, external=external)

    def judged(self, oracle: Oracle, destination: Path | None, *, bits: bool) -> Verdict:
        """Hold what would be written to the original, bit for bit if asked; if it is right, write it, if anywhere."""
        if destination is None:
            with loadable(self.model, self.exported) as model:
                return oracle.judge(model, exact=bits)
        with self.staged(destination) as stage:
            verdict = oracle.judge(stage, exact=bits)
            if verdict.failure is None:
                publish(stage, destination)
            return verdict


@dataclass(slots=True)
class Proof:
    """Runs a pipeline again and again, each time without what was found to be wrong.

    `strict`: the first wrong change ends it with a VerificationError that names it. `track`: for a map of names.
    `record`: each change is kept in the ledger, and weighed. With `new_album`, the changes of the
    last run, which is the one that stands, are drawn in `album`.
    """

    source: Source
    quarantine: Quarantine
    watch: Stopwatch
    strict: bool = False
    track: bool = False
    record: bool = False
    new_album: Callable[[], Witness] | None = None
    trial: Trial = field(init=False)
    album: Witness | None = field(init=False, default=None)

    def start(self, original: Model) -> Model:
        """The model after the pipeline, less what raised, did not end or broke the graph. `original` is rewritten."""
        self._run(original)
        return self._settled()

    def verdict(
        self, oracle: Oracle, destination: Path | None, *, exact: bool, half: bool
    ) -> tuple[Candidate, Verdict]:
        """The candidate that `oracle` finds right, written to `destination`, and what it says of it."""
        while True:
            candidate = self.candidate()
            bits = exact or (self.trial.attempt.ledger.is_exact and not half)
            with self.watch.phase("comparing" if destination is None else "comparing and writing"):
                verdict = candidate.judged(oracle, destination, bits=bits)
            if verdict.failure is None:
                return candidate, verdict
            self.trial = Trial(self.trial.attempt, difference(verdict.failure), bits)
            self._settled()

    def candidate(self) -> Candidate:
        """The model as it stands, exported; less what cannot be written."""
        while True:
            attempt = self.trial.attempt
            try:
                with no_collection(), self.watch.phase("exporting"):
                    return Candidate(attempt.model, export(attempt.model), self.source.is_external)
            except GraphError as e:
                self.trial = Trial(attempt, Failure(Why.INVALID, str(e)))
                self._settled()

    def name_map(self) -> dict[str, object]:
        """What became of each name; to be asked for after export, if it was tracked."""
        attempt = self.trial.attempt
        assert attempt.tracker is not None
        return name_map(attempt.tracker, attempt.model, attempt.ledger.changes)

    def _run(self, model: Model | None = None) -> None:
        with no_collection(), self.watch.phase("rewriting"):
            self.album = self.new_album() if self.new_album is not None else None
            weigh = self.record or self.album is not None
            attempt = self.quarantine.manager.run(
                model, record=weigh or self.track, track=self.track, weigh=weigh, witness=self.album
            )
            self.trial = Look().at(attempt)
        self.watch.move("rewriting", DRAWING, attempt.ledger.looked_on)

    def _settled(self) -> Model:
        """Leave out what is wrong until nothing shows any more without running the model."""
        while self.trial.failure is not None:
            with no_collection(), self.watch.phase(SEARCHING):
                found = self.quarantine.leave_out_next(self.trial)
            if self.strict:
                raise VerificationError(f"{found.message}; first broken by {found.label}")
            self._run()
        return self.trial.attempt.model
