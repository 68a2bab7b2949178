"""Runs a pipeline over a model, from a fresh start each time, so that a run can be repeated with changes left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..errors import FailureKind, PassFailed
from ..io.model import Model
from ..rewriting.ledger import NO_LIMIT, Exclusions, Ledger, ReplayLimit
from ..rewriting.observer import ChangeObserver, ObserverDispatcher
from ..rewriting.size_accounting import SizeAccounting
from ..support.watchdog import NoProgress, progress_watchdog
from .interface import Interface
from .name_map import NameTracker
from .pipeline import Pass, run_pass

NO_PROGRESS_TIMEOUT = 300.0  # seconds; constant folding may be busy that long with one large op


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run of the pipeline: the model as it left it, what it did, what was promised before, and what went wrong."""

    model: Model
    ledger: Ledger
    interface: Interface
    tracker: NameTracker | None = None
    error: PassFailed | None = None


@dataclass(frozen=True, slots=True)
class PassManager:
    """`load` gives the unchanged model anew each time; passes are deterministic, so runs can be replayed.

    `exclusions` says what no run is to do; it grows while mistakes are found. A pass that changes nothing for
    `no_progress_timeout` seconds, and does not return, is ended.
    """

    load: Callable[[], Model]
    pipeline: Pass
    exact_only: bool = False
    exclusions: Exclusions = field(default_factory=Exclusions)
    no_progress_timeout: float = NO_PROGRESS_TIMEOUT

    def run(
        self,
        model: Model | None = None,
        *,
        limit: ReplayLimit = NO_LIMIT,
        record: bool = False,
        validate_graphs: bool = False,
        track_names: bool = False,
        account_sizes: bool = False,
        observer: ChangeObserver | None = None,
    ) -> Attempt:
        """Run the pipeline, to its end or as far as `limit` says.

        `model`, if given, must be as `load` gives it; it is rewritten in place. `validate_graphs`: a graph that a pass
        leaves invalid is found out after that pass. `track_names`: what becomes of each name is noted.
        `account_sizes`: so is what each change that is recorded saves; a `observer` then looks on.
        """
        model = self.load() if model is None else model
        interface = Interface.of(model)
        tracker = NameTracker.of(model) if track_names else None
        ledger = Ledger(self.exact_only, record, self.exclusions, limit, validate_graphs)
        if account_sizes:
            ledger.accounting = SizeAccounting(
                dispatcher=ObserverDispatcher(observer) if observer is not None else None
            )
            model.graph.context.mutation_log = ledger.accounting.log
        failed = None
        try:
            with progress_watchdog(
                lambda: (model.graph.context.mutation_count, ledger.change_count, len(ledger.passes_run)),
                self.no_progress_timeout,
            ):
                run_pass(self.pipeline, model.graph, ledger)
        except PassFailed as e:
            failed = e
        except NoProgress as e:  # it came between two passes
            failed = PassFailed(self.pipeline.name, FailureKind.ENDLESS, "nothing changes, and it does not return")
            failed.__cause__ = e
        ledger.finish()
        return Attempt(model, ledger, interface, tracker, failed)
