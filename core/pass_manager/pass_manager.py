"""Runs a pipeline over a model, from a fresh start each time, so that a run can be repeated with changes left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..errors import PassFailed, Why
from ..io.model import Model
from ..rewriting.ledger import TO_THE_END, Bans, Ledger, Stop
from ..rewriting.observer import Watch, Witness
from ..rewriting.size_accounting import Scales
from ..support.watchdog import Stuck, watched
from .interface import Interface
from .name_map import Tracker
from .pipeline import Pass, run_pass

PATIENCE = 300.0  # seconds; constant folding may be busy that long with one large op


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run of the pipeline: the model as it left it, what it did, what was promised before, and what went wrong."""

    model: Model
    ledger: Ledger
    interface: Interface
    tracker: Tracker | None = None
    failed: PassFailed | None = None


@dataclass(frozen=True, slots=True)
class Manager:
    """`load` gives the unchanged model anew each time; passes are deterministic, so runs can be replayed.

    `bans` says what no run is to do; it grows while mistakes are found. A pass that changes nothing for
    `patience` seconds, and does not return, is ended.
    """

    load: Callable[[], Model]
    pipeline: Pass
    exact_only: bool = False
    bans: Bans = field(default_factory=Bans)
    patience: float = PATIENCE

    def run(
        self,
        model: Model | None = None,
        *,
        stop: Stop = TO_THE_END,
        record: bool = False,
        careful: bool = False,
        track: bool = False,
        weigh: bool = False,
        witness: Witness | None = None,
    ) -> Attempt:
        """Run the pipeline, to its end or as far as `stop` says.

        `model`, if given, must be as `load` gives it; it is rewritten in place. `careful`: a graph that a pass
        leaves invalid is found out after that pass. `track`: what becomes of each name is noted.
        `weigh`: so is what each change that is recorded saves; a `witness` then looks on.
        """
        model = self.load() if model is None else model
        interface = Interface.of(model)
        tracker = Tracker.of(model) if track else None
        ledger = Ledger(self.exact_only, record, self.bans, stop, careful)
        if weigh:
            ledger.scales = Scales(watch=Watch(witness) if witness is not None else None)
            model.graph.shared.moves = ledger.scales.moves
        failed = None
        try:
            with watched(lambda: (model.graph.shared.version, ledger.made, len(ledger.ran)), self.patience):
                run_pass(self.pipeline, model.graph, ledger)
        except PassFailed as e:
            failed = e
        except Stuck as e:  # it came between two passes
            failed = PassFailed(self.pipeline.name, Why.ENDLESS, "nothing changes, and it does not return")
            failed.__cause__ = e
        ledger.close()
        return Attempt(model, ledger, interface, tracker, failed)
