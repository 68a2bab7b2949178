"""Replayable runs of a pipeline, each on a fresh model, with changes excluded if necessary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..errors import FailureKind, PassFailed
from ..io.model import Model
from ..rewriting.changes import ChangeObserver, ObserverDispatcher, SizeAccounting
from ..rewriting.ledger import NO_LIMIT, Exclusions, Ledger, ReplayLimit
from ..support.watchdog import NoProgress, progress_watchdog
from .interface import Interface
from .name_map import NameTracker
from .pipeline import Pass, run_pass

NO_PROGRESS_TIMEOUT = 300.0  # seconds; constant folding may be busy that long with one large op


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run of the pipeline: the resulting model, its ledger, the interface before, and the error, if any."""

    model: Model
    ledger: Ledger
    interface: Interface
    tracker: NameTracker | None = None
    error: PassFailed | None = None


@dataclass(frozen=True, slots=True)
class PassManager:
    """Runs `pipeline` on the model that `load` returns; passes are deterministic, so runs can be replayed.

    `exclusions` are omitted from all runs; the set grows as wrong changes are found. A pass that changes nothing for
    `no_progress_timeout` seconds, and does not return, is interrupted.
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
        """Run the pipeline, to its end or up to `limit`.

        `model`, if given, must be as returned by `load`; it is rewritten in place. `validate_graphs`: the graph is
        validated after each pass. `track_names`: replacements are logged for a name map. `account_sizes`: the savings
        of each recorded change are computed, and reported to `observer`.
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
