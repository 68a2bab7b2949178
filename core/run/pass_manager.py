"""Replayable runs of a pipeline, each on a fresh model, and checks of their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ..errors import FailureKind, GraphError, InterfaceError, ModelError, PassFailed, format_error
from ..io.model import Model, serialize
from ..ir.graph import ValueInfo
from ..rewriting.changes import ChangeObserver, SizeAccounting
from ..rewriting.ledger import NO_LIMIT, BisectLimit, DetailReporter, Exclusions, Ledger
from ..support.watchdog import NoProgress, progress_watchdog
from ..verify.comparison_options import USUAL, ComparisonOptions
from ..verify.verdict import Mismatch
from .interface import Interface
from .name_map import NameTracker
from .pipeline import Pass, run_pass

NO_PROGRESS_TIMEOUT = 300.0  # seconds; constant folding may be busy that long with one large op


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of an attempt: its kind, a one-line message, and the mismatch if outputs differ."""

    kind: FailureKind
    message: str
    mismatch: Mismatch | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run of the pipeline: the resulting model, its ledger, the interface before, and the error, if any.

    A check adds the `failure` that it finds; `exact`: whether outputs had to be bit-identical.
    """

    model: Model
    ledger: Ledger
    interface: Interface
    tracker: NameTracker | None = None
    error: PassFailed | None = None
    failure: Failure | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class PassManager:
    """Runs `pipeline` on the model that `load` returns; passes are deterministic, so runs can be replayed.

    `exclusions` are omitted from all runs; the set grows as wrong changes are found. A pass that changes nothing for
    `no_progress_timeout` seconds, and does not return, is interrupted. `value_info`: that of the resulting models.
    `report`: see Ledger.
    """

    load: Callable[[], Model]
    pipeline: Pass
    exact_only: bool = False
    exclusions: Exclusions = field(default_factory=Exclusions)
    no_progress_timeout: float = NO_PROGRESS_TIMEOUT
    value_info: ValueInfo = "keep"
    report: DetailReporter | None = None

    def run(
        self,
        model: Model | None = None,
        *,
        limit: BisectLimit = NO_LIMIT,
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
        ledger = Ledger(self.exact_only, record, self.exclusions, limit, validate_graphs, report=self.report)
        if account_sizes:
            ledger.accounting = SizeAccounting(observer=observer)
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
        model.graph.context.value_info = self.value_info  # passes that hand the model to other tools kept it
        return Attempt(model, ledger, interface, tracker, failed)


Comparer = Callable[[Attempt, ComparisonOptions], Mismatch | None]
"""Compares the model of an attempt with the original."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Options of the check of attempts: the comparer and the comparison, further static checks.

    Without a comparer, only failures that show without running the model are found. `validates_graphs`: after each
    pass. `tries_export`: the model is serialized too.
    """

    compare: Comparer | None = None
    comparison: ComparisonOptions = USUAL
    validates_graphs: bool = False
    tries_export: bool = False

    def to_reproduce(self, failed: Attempt) -> CheckOptions:
        """The options that suffice to reproduce the failure of `failed`."""
        assert failed.failure is not None
        if failed.failure.kind not in {FailureKind.WRONG, FailureKind.REFUSED}:
            return replace(self, compare=None, tries_export=True)
        mismatch = failed.failure.mismatch
        shown_by = (mismatch.input_set,) if mismatch is not None and mismatch.input_set is not None else ()
        return replace(self, comparison=replace(self.comparison, input_sets=shown_by, exact=failed.exact))

    def check(self, attempt: Attempt) -> Attempt:
        """The attempt with its failure, if any."""
        failure = static_failure(attempt, try_export=self.tries_export)
        if failure is None and self.compare is not None:
            try:
                failure = mismatch_failure(self.compare(attempt, self.comparison))
            except GraphError as e:  # it cannot be written
                failure = Failure(FailureKind.INVALID, str(e))
        return replace(attempt, failure=failure, exact=self.comparison.exact)


def static_failure(attempt: Attempt, *, try_export: bool = False) -> Failure | None:
    """The failure of an attempt that shows without running its model, with `try_export` in export too. O(V + E)."""
    if attempt.error is not None:
        return Failure(attempt.error.kind, str(attempt.error))
    try:
        attempt.model.graph.validate()
        attempt.interface.require(attempt.model)
        if try_export:
            serialize(attempt.model)
    except InterfaceError as e:
        return Failure(FailureKind.INTERFACE, str(e))
    except (ModelError, MemoryError, OSError):
        raise
    except Exception as e:  # noqa: BLE001 - a pass may leave anything
        return Failure(FailureKind.INVALID, format_error(e))
    return None


def mismatch_failure(mismatch: Mismatch | None) -> Failure | None:
    """The failure that a mismatch with the original is."""
    if mismatch is None:
        return None
    return Failure(FailureKind.REFUSED if mismatch.input_set is None else FailureKind.WRONG, str(mismatch), mismatch)
