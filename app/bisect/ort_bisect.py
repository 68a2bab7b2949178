"""`bisect_ort`: search for a smallest set of onnxruntime's optimizers to disable for a correct result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...core.errors import UsageError
from ...core.io.model_source import ModelLike, model_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_text
from ...core.io.split_models import Loadable
from ...core.ort.backends import session_memory
from ...core.ort.sessions import LEVELS, SessionConfig
from ...core.processes.worker_process import WorkerProcess
from ...core.run.phase_timer import LOADING, RUNNING_ORIGINAL, PhaseTimer
from ...core.support.binary_search import first_bad
from ...core.support.gc_pause import gc_paused
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.oracle import Oracle
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.oracle_start import start_oracle_worker
from ...core.verify.verification_spec import VerificationSpec
from ..options import with_process_options
from ..registry.environment import versions
from ..registry.python_data import data_files, read_given
from ..report.notebook import report_card, report_json, report_line
from ..report.progress import phase_callback, with_keywords
from .bisect_options import OrtBisectOptions
from .ort_optimizers import known_optimizers, logged_optimizers, merge_in_order
from .probe_process import LOG_FILE, PROBE_TIMEOUT, ProbeFailure, ProbeWorker, probe, probe_process, write_case


class Culprit(Struct, frozen=True):
    """An optimizer and the failure that it causes while the other culprits are disabled."""

    optimizer: str
    failure: str
    input_set: str | None


class OptimizerBisection(Struct, frozen=True):
    """The failure of onnxruntime at `level`, and a smallest set of optimizers (`culprits`) whose disabling corrects it.

    Without culprits, `remark` gives the reason. `failure` is the failure with nothing disabled, and `input_set` names
    the inputs that caused it. `runs` is the number of probes: one session each, or two after some crashes.
    """

    level: str
    failure: str
    input_set: str | None
    culprits: tuple[Culprit, ...]
    remark: str
    runs: int

    @property
    def optimizers(self) -> tuple[str, ...]:
        """The names for `disabled_optimizers`, in the order in which they run."""
        return tuple(c.optimizer for c in self.culprits)


@dataclass(slots=True)
class OrtBisectReport:
    """The result of `bisect_ort`; `blame` is None if onnxruntime at `level` is correct on all inputs.

    Examples:
        >>> report = bisect_ort("model.onnx", "basic")
        >>> report.level, report.blame
        ('basic', None)
    """

    source: str
    level: str
    input_sets: tuple[str, ...]
    blame: OptimizerBisection | None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __bool__(self) -> bool:
        """Whether nothing is wrong."""
        return self.blame is None

    to_json, __repr__, _repr_html_ = report_json, report_line, report_card


@with_process_options
def bisect_ort_model(model: ModelLike, options: OrtBisectOptions) -> OrtBisectReport:
    """Compare onnxruntime at an optimization level (basic, extended, layout or all) with itself unoptimized.

    `inputs`, `seed` and `memory` mean the same as for `optimize`; `effort` is its `verify`. `shapes` of inputs and
    sizes of symbols (`dims`) apply to the generated inputs and do not change the model. Raises ModelError for an
    unusable model or input, UsageError for an unknown level or effort, and UnverifiableError if no inputs can be
    generated.

    Examples:
        >>> bisect_ort("model.onnx").blame is None
        True
    """
    timer = PhaseTimer(phase_callback(options.progress))
    start_oracle_worker()
    source = model_source(model, inline=False)
    paths = OutputPaths.of(report=options.json)
    paths.require_distinct((*source.files, *data_files(options.inputs)))
    with gc_paused(), timer.phase(LOADING):
        loaded, chosen = source.load(), options.verify
        given = read_given(options.inputs, loaded)
        spec = VerificationSpec.of(
            loaded, given, options.shape or {}, options.dim or {}, effort=chosen, memory=options.memory
        )
    with OracleProcess(source.loadable(), spec, options.seed, label=source.label, report=timer.report) as oracle:
        with timer.phase(RUNNING_ORIGINAL):
            oracle.wait()
        with timer.phase("bisecting onnxruntime"):
            blame = bisect_optimizers(oracle, source.loadable(), options.ort, timer.progress)
            input_sets = tuple(str(run.input_set) for run in oracle.runs)
    report = OrtBisectReport(
        source.label, options.ort, input_sets, blame, timer.seconds, versions(), options=options.chosen
    )
    publish_text(paths.report, report.to_json)
    return report


bisect_ort = with_keywords(OrtBisectOptions, "bisect_ort")(bisect_ort_model)


def bisect_optimizers(
    oracle: Oracle | OracleProcess,
    model: Loadable,
    level: str,
    progress: Callable[[str], None] = lambda _: None,
    *,
    timeout: float = PROBE_TIMEOUT,
) -> OptimizerBisection | None:
    """Find the optimizers to disable at `level` so that onnxruntime agrees with `oracle` on `model`; None if it agrees.

    Sessions have the defaults of onnxruntime, apart from `level`, and run in a worker process; one that takes longer
    than `timeout` seconds counts as failed. Raises UsageError for an unknown level, and UnverifiableError for outputs
    that cannot be sent to the worker.
    """
    if level not in LEVELS:
        raise UsageError(f"--ort {level}: unknown level; choose from {', '.join(LEVELS)}")
    with ScratchFolder() as folder:
        write_case(oracle, model, folder)
        with probe_process(folder, timeout, memory=session_memory(model)) as process:
            return _Bisection(process, folder / LOG_FILE, level, progress).run()


def minimal_subset(items: Sequence[str], is_sufficient: Callable[[tuple[str, ...]], bool]) -> tuple[str, ...]:
    """Find a sufficient subset without superfluous items, in log2(len(items)) probes for each of its items, plus one.

    All `items` together must be sufficient. The first item of the subset ends the shortest sufficient prefix.
    """
    found: tuple[str, ...] = ()
    rest = tuple(items)
    while not is_sufficient(found):
        required = found
        last = first_bad(0, len(rest), lambda n, rest=rest, required=required: is_sufficient((*required, *rest[:n])))
        found = (*found, rest[last - 1])
        rest = rest[: last - 1]
    for item in found:  # an item found later may make an earlier one superfluous
        fewer = tuple(i for i in found if i != item)
        if len(found) > 1 and is_sufficient(fewer):
            found = fewer
    return found


@dataclass(slots=True)
class _Bisection:
    """The probes at one level; results are cached."""

    process: WorkerProcess[ProbeWorker]
    log: Path
    level: str
    progress: Callable[[str], None]
    runs: int = 0
    names: list[str] = field(default_factory=list[str])
    outcomes: dict[frozenset[str], ProbeFailure | None] = field(
        default_factory=dict[frozenset[str], ProbeFailure | None]
    )

    def run(self) -> OptimizerBisection | None:
        failure = self.failure_without(())
        if failure is None:
            return None
        self.progress(f"bisecting onnxruntime: its optimizers at {self.level}")
        self._probe(SessionConfig(LEVELS[self.level], prepack_weights=True, verbose=True))
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            self.names = merge_in_order(known_optimizers(self.level), logged_optimizers(lines))
        culprits: tuple[Culprit, ...] = ()
        remark = ""
        left = self.failure_without(self.names)
        if left is None:
            guilty = minimal_subset(self.names[::-1], lambda off: self.failure_without(off) is None)
            culprits = tuple(self._culprit(name, guilty) for name in sorted(guilty, key=self.names.index))
        else:
            remark = f"still wrong with all known optimizers disabled: {left}"
            if self._probe(SessionConfig(prepack_weights=True)) is None:  # optimization off
                remark = f"{remark}; correct with optimization off, so the name of the wrong optimizer is unknown"
            else:
                remark = f"{remark}; it also fails with optimization off, so no optimizer is the cause"
        return OptimizerBisection(self.level, str(failure), failure.input_set, culprits, remark, self.runs)

    def failure_without(self, disabled: Iterable[str]) -> ProbeFailure | None:
        """The failure of onnxruntime when these optimizers are disabled."""
        key = frozenset(disabled)
        if key not in self.outcomes:
            names, count = sorted(key, key=self.names.index), len(self.names)
            which = f" without {len(key)} of {count} optimizers" if key else ""
            self.progress(f"bisecting onnxruntime: at {self.level}{which}")
            self.outcomes[key] = self._probe(SessionConfig(LEVELS[self.level], tuple(names), prepack_weights=True))
        return self.outcomes[key]

    def _probe(self, config: SessionConfig) -> ProbeFailure | None:
        self.runs += 1
        return probe(self.process, config)

    def _culprit(self, name: str, guilty: Collection[str]) -> Culprit:
        failure = self.failure_without(n for n in guilty if n != name)
        assert failure is not None  # no culprit is superfluous
        return Culprit(name, str(failure), failure.input_set)
