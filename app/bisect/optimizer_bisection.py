"""Bisection of onnxruntime's optimizers: a smallest set to disable for a model to load and be right."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from ...core.ort.sessions import LEVELS, Loadable, SessionConfig
from ...core.ort.worker_process import WorkerProcess
from ...core.pass_manager.pass_selection import UsageError
from ...core.support.binary_search import first_bad
from ...core.verify.oracle import Oracle
from .ort_optimizers import RULE_BASED_TRANSFORMERS, known_optimizers, logged_optimizers, merge_in_order
from .probe_process import PROBE_TIMEOUT, ProbeFailure, probe, probe_log, probe_process, write_case


def minimal_subset(items: Sequence[str], is_sufficient: Callable[[tuple[str, ...]], bool]) -> tuple[str, ...]:
    """Items with which it happens, none of which can be left out; log2(len(items)) probes each, and one more.

    It must be known to happen with all of `items`. The first one found is the first, going through `items`,
    at which it starts to happen.
    """
    found: tuple[str, ...] = ()
    rest = tuple(items)
    while not is_sufficient(found):
        last = _shortest_prefix(found, rest, is_sufficient)
        found = (*found, rest[last - 1])
        rest = rest[: last - 1]
    for item in found:  # a later one may have made an earlier one superfluous
        fewer = tuple(i for i in found if i != item)
        if len(found) > 1 and is_sufficient(fewer):
            found = fewer
    return found


def _shortest_prefix(
    required: tuple[str, ...], rest: tuple[str, ...], is_sufficient: Callable[[tuple[str, ...]], bool]
) -> int:
    """How many of `rest` it takes, with `required`, for it to happen."""
    return first_bad(0, len(rest), lambda n: is_sufficient((*required, *rest[:n])))


OPTIMIZATION_OFF = SessionConfig(prepack_weights=True)


@dataclass(frozen=True, slots=True)
class Culprit:
    """An optimizer and the failure that it causes, the other culprits being disabled.

    `partners` are optimizers without which it does no harm; disabling those would do as well.
    """

    optimizer: str
    failure: str
    input_set: str | None
    partners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OptimizerBisection:
    """Why onnxruntime fails at `level`: with all `culprits` disabled, and nothing else, it is right.

    With none, `remark` says why nobody can be named. `failure` is the first one seen, with nothing disabled, and
    `input_set` the inputs it was seen on; `runs` counts probes: a session each, and one more where a crash is asked
    about again.
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


def bisect_optimizers(
    oracle: Oracle,
    model: Loadable,
    level: str,
    progress: Callable[[str], None] = lambda _: None,
    *,
    timeout: float = PROBE_TIMEOUT,
) -> OptimizerBisection | None:
    """The optimizers to disable at `level` for onnxruntime to agree with `oracle` about `model`; None if it agrees.

    Sessions are as users have them, apart from `level`, and in a process of their own; one that takes longer than
    `timeout` seconds has failed. Raises UsageError for a level that does not exist, UnverifiableError for answers that
    cannot be given to that process.
    """
    if level not in LEVELS:
        raise UsageError(f"--ort {level}: there is no such level (there are {', '.join(LEVELS)})")
    with TemporaryDirectory() as folder:
        write_case(oracle, model, Path(folder))
        with probe_process(Path(folder), timeout) as process:
            return _Bisection(process, probe_log(Path(folder)), level, progress).run()


@dataclass(slots=True)
class _Bisection:
    """The probes of one level; none is made twice."""

    process: WorkerProcess
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
        self.names = self._optimizer_names()
        left = self.failure_without(self.names)
        if left is not None:
            return OptimizerBisection(self.level, str(failure), failure.input_set, (), self._remark(left), self.runs)
        guilty = minimal_subset(self.names[::-1], lambda off: self.failure_without(off) is None)
        ordered = sorted(guilty, key=self.names.index)
        culprits = tuple(self._culprit(name, guilty) for name in ordered)
        return OptimizerBisection(self.level, str(failure), failure.input_set, culprits, "", self.runs)

    def failure_without(self, disabled: Iterable[str]) -> ProbeFailure | None:
        """How onnxruntime fails with these disabled."""
        key = frozenset(disabled)
        if key not in self.outcomes:
            few, most = sorted(key, key=self.names.index), len(self.names)
            self.progress(f"onnxruntime at {self.level}" + (f" without {len(key)} of {most} optimizers" if key else ""))
            self.outcomes[key] = self._probe(SessionConfig(LEVELS[self.level], tuple(few), prepack_weights=True))
        return self.outcomes[key]

    def _probe(self, config: SessionConfig) -> ProbeFailure | None:
        self.runs += 1
        return probe(self.process, config)

    def _optimizer_names(self) -> list[str]:
        """All that can be disabled: what is known of, and what onnxruntime says that it runs."""
        self.progress(f"onnxruntime's optimizers at {self.level}")
        self._probe(SessionConfig(LEVELS[self.level], prepack_weights=True, verbose=True))
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            return merge_in_order(known_optimizers(self.level), logged_optimizers(lines))

    def _culprit(self, name: str, guilty: Collection[str]) -> Culprit:
        failure = self.failure_without(n for n in guilty if n != name)
        assert failure is not None  # no culprit is superfluous
        others = [n for n in self.names if n not in guilty and n not in RULE_BASED_TRANSFORMERS]
        rest = {
            name,
            *(h for h in RULE_BASED_TRANSFORMERS if h not in guilty),
        }  # a holder is no optimizer, but its rules need it

        def fails_with(chosen: Collection[str]) -> bool:
            return self.failure_without(n for n in self.names if n not in rest and n not in chosen) is not None

        return Culprit(name, str(failure), failure.input_set, minimal_subset(others, fails_with))

    def _remark(self, left: ProbeFailure) -> str:
        """What to say when it is none of the optimizers that can be disabled."""
        said = f"still wrong with every optimizer we know disabled: {left}"
        if self._probe(OPTIMIZATION_OFF) is None:
            return f"{said}; right with optimization off, so it is one that has no name here"
        return f"{said}; it fails with optimization off, too, so no optimizer is to blame"
