"""Races of configurations on common workloads, in fresh processes, including one of them against itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from math import inf
from time import monotonic
from typing import Any, cast

import msgspec
import numpy as np
from msgspec import Struct, to_builtins

from ...core.errors import PassesError, TimeLimitError, UsageError, format_error
from ...core.io.model_source import ModelSource
from ...core.processes.watchdog import ended_by
from ...core.support.confidence_intervals import RatioInterval
from ...core.verify.given_inputs import GivenSamples, with_given_shapes
from ...core.verify.input_specs import input_specs
from ...core.verify.sample_rows import batch_symbol
from ..measure import benchmark
from ..measure.benchmark_worker import LoadMetrics
from ..measure.feeds import make_feeds
from ..measure.metrics import ModelMetrics, waited_share
from ..measure.tuned_settings import Configuration
from ..optimize.content_digests import content_digest
from ..quantize.journal import Journal
from .loss_limit import LossLimit, has_own_loss
from .objective import LEAST_SETS, Objective, noise, widened
from .tuned_models import MadeModel, TunedModels

MAX_WORKLOADS = 16  # combinations of sizes
LIMITED = "not measured: time limit reached"


@dataclass(frozen=True, slots=True)
class Workload:
    """Inputs of one size: `name`, such as `batch=8,seq=64`, and the number of samples."""

    name: str
    samples: int
    feeds: Mapping[str, Any] = field(repr=False)

    @property
    def digest(self) -> str:
        """A digest of the inputs."""
        return content_digest([(name, _content(value)) for name, value in sorted(self.feeds.items())])


def _content(value: Any) -> Any:
    """The elements of an input as data that can be written as text."""
    if isinstance(value, list):
        return [_content(part) for part in cast("list[Any]", value)]
    array = np.asarray(value)
    elements = array.tolist() if array.dtype == np.object_ else sha256(array.tobytes()).hexdigest()
    return [str(array.dtype), list(array.shape), elements]


def make_workloads(
    source: ModelSource,
    given: GivenSamples | None,
    dims: Mapping[str, Sequence[int]],
    shapes: Mapping[str, Sequence[int]],
    seed: int,
) -> tuple[list[Workload], list[str]]:
    """The inputs at all combinations of `dims`, sizes by symbol, with notes about missing ones.

    Given inputs are repeated or cut for other batch sizes; their other sizes are fixed. Raises ModelError, the
    UnverifiableError of `make_feeds`, and UsageError for too many combinations or for other sizes of given inputs.
    """
    symbol = batch_symbol(with_given_shapes(shapes, input_specs(source.load())))
    batches = dims.get(symbol, ()) if symbol is not None else ()
    others = {name: sizes for name, sizes in dims.items() if name != symbol}
    if given is not None and others:
        raise UsageError(
            f"--dim {next(iter(others))}: given inputs have sizes of their own; leave out --inputs or --dim"
        )
    combinations = [dict(zip(others, sizes, strict=True)) for sizes in product(*others.values())]
    if len(combinations) * max(len(batches), 1) > MAX_WORKLOADS:
        raise UsageError(f"--dim: more than {MAX_WORKLOADS} combinations of sizes")
    found: list[Workload] = []
    notes: dict[str, None] = {}
    for sizes in combinations:
        wanted = batches or (() if given is not None else (1,))
        made = make_feeds(source, given, wanted, sizes, seed, shapes=shapes or None)
        notes |= dict.fromkeys([made.note] if made.note else [])
        for batch, feeds in made.by_batch.items():
            named = ({symbol: batch} if symbol is not None else {}) | made.sizes
            found.append(Workload(",".join(f"{n}={size}" for n, size in named.items()) or "fixed", batch, feeds))
    return found, list(notes)


class Rung(Struct, frozen=True):
    """The effort of a race: the number of process sets, and a share of the seconds of calls per model."""

    sets: int
    share: float


ALONE = Rung(1, 0.1)
"""For the original alone, to measure how long a process takes."""
RUNGS = (Rung(2, 0.25), Rung(LEAST_SETS, 0.5), Rung(5, 1.0))
"""For successive halving; each has about half of the previous configurations."""
LAST = Rung(11, 2.0)
"""For the best finalists against the original."""
SHORTEST = Rung(LEAST_SETS, LAST.share * LEAST_SETS / LAST.sets)
"""For the last race if there is no time for more."""


def has_control(rung: Rung) -> bool:
    """Whether the first model of a race also runs against itself."""
    return rung.sets >= LEAST_SETS


class RaceEntry(Struct, frozen=True):
    """A configuration in a race: its figure and time divided by the first one's, or the `failure`.

    The failure is LIMITED if the time limit ended the race before there were two sets of processes. `seconds` is the
    median time of a call by workload; `peak` memory and file size are in bytes; `threads` compute an op.
    """

    failure: str = ""
    ratio: RatioInterval | None = None
    time: RatioInterval | None = None
    seconds: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    tails: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    peak: int = 0
    bytes: int = 0
    threads: int = 0


class RaceResult(Struct, frozen=True):
    """The configurations of a race in order, and the first one against itself if there are enough sets.

    `sets` is the number of complete sets; `is_late`: the time limit ended the race with too few for a decision.
    `waited` is the largest share of the time that processes waited for a core. `process_seconds` is the time of one
    process.
    """

    raced: tuple[RaceEntry, ...]
    control: RatioInterval | None
    sets: int
    waited: float = 0.0
    process_seconds: float = 0.0
    is_late: bool = False

    @property
    def noise(self) -> float:
        """The factor by which intervals are widened; 1 on a quiet machine."""
        return noise(self.control, self.sets)


@dataclass
class Racing:
    """Races on common workloads; `results` are the results of all races so far, which `journal` keeps.

    With a `limit`, configurations whose loss exceeds it are not raced. Each configuration is measured alone once,
    before its first race.
    """

    models: TunedModels
    workloads: Sequence[Workload]
    objective: Objective
    min_time: float
    seed: int
    journal: Journal = field(default_factory=Journal)
    progress: Callable[[str], None] = lambda _: None
    limit: LossLimit | None = None
    results: list[RaceResult] = field(default_factory=list[RaceResult], init=False)
    _loaded: dict[str, LoadMetrics] = field(default_factory=dict[str, LoadMetrics], init=False)

    @property
    def process_seconds(self) -> float:
        """The time of one process of the last race; 0 before the first race."""
        return self.results[-1].process_seconds if self.results else 0.0

    def expected_seconds(self, count: int, rung: Rung) -> float:
        """The expected time of a race of `count` configurations; in a first round, they also run alone."""
        alone = count if rung == RUNGS[0] else 0
        return self.process_seconds * ((count + has_control(rung)) * rung.sets + alone)

    def identity(self, configuration: Configuration, until: float = inf) -> str:
        """A digest of model and session; see `model`."""
        made = self.model(configuration, until)
        return content_digest([made.digest, to_builtins(configuration.session), configuration.callers])

    def model(self, configuration: Configuration, until: float = inf) -> MadeModel:
        """The model of a configuration, within the budget in its session.

        Raises PassesError if it cannot be made or loses too much accuracy, and TimeLimitError if it was not made before
        `until`.
        """
        with ended_by(inf if configuration.recipe.is_original else until):
            made = self.models.get(configuration.recipe)
        if has_own_loss(configuration):
            assert self.limit is not None, "other precisions and schemes are tried with a budget"
            with ended_by(until):
                self.limit.require_within(made.path, made.digest, configuration.session)
        return made

    def __call__(self, configurations: Sequence[Configuration], rung: Rung, until: float = inf) -> RaceResult:
        """Race configurations against the first one; models that cannot be made have a failure.

        The race ends by `until`, with fewer sets.
        """
        made = [self._made(c, until) for c in configurations]
        found = zip(configurations, made, strict=True)
        identities = [self.identity(c) if isinstance(m, MadeModel) else content_digest([c.key, m]) for c, m in found]
        key = f"race {len(self.results)} {rung.sets} {rung.share} {' '.join(identities)}"  # makes each race distinct
        result = self.journal.result(
            key,
            RaceResult,
            lambda: self._race(configurations, made, identities, rung, until),
            lambda r: len(r.raced) == len(configurations) and not r.is_late,
        )
        self.results.append(result)
        return result

    def _race(
        self,
        configurations: Sequence[Configuration],
        made: Sequence[MadeModel | str],
        identities: Sequence[str],
        rung: Rung,
        until: float,
    ) -> RaceResult:
        began = monotonic()
        if isinstance(made[0], str):
            return RaceResult((RaceEntry(failure=made[0]),) * len(made), None, 0, is_late=made[0] == LIMITED)
        found = zip(configurations, made, identities, strict=True)
        entries = [(c, m, i) for c, m, i in found if isinstance(m, MadeModel)]
        raced = [*entries, *entries[: has_control(rung)]]
        targets = [
            benchmark.BenchmarkTarget(m.path, c.session, callers=c.callers, loaded=self._loaded.get(i))
            for c, m, i in raced
        ]
        feeds = {i: w.feeds for i, w in enumerate(self.workloads)}
        effort = benchmark.BenchmarkConfig(
            self.min_time * rung.share,
            process_sets=rung.sets,
            seed=self.seed,
            finds_providers=False,
            fewest_sets=LEAST_SETS,
            until=until,
            is_cut=True,
        )
        measured = benchmark.run_benchmark(targets, feeds, effort, self.progress)
        processes = sum(sum(map(bool, m.set_peaks)) for m in measured)
        alone = (m for t, m in zip(targets, measured, strict=True) if t.loaded is None)
        processes += sum(bool(m.peak_bytes or m.failure) for m in alone)
        process_seconds = (monotonic() - began) / max(processes, 1)
        self._loaded |= {
            i: m.loaded for (_, _, i), m in zip(raced, measured, strict=True) if m.peak_bytes and not m.failure
        }
        metrics = [m.in_precision(t.config) for m, t in zip(measured, targets, strict=True)]
        control = self.objective.time_ratio(metrics[-1], metrics[0]) if has_control(rung) else None
        sets = min((sum(map(bool, m.set_peaks)) for m in metrics if not m.failure), default=rung.sets)
        base, measured = (metrics[0], entries[0][1].bytes), iter(metrics)
        of_figure = self.objective.ratio((metrics[-1], base[1]), base) if has_control(rung) else None
        factors = (noise(of_figure, sets), noise(control, sets))
        found = (
            RaceEntry(failure=m) if isinstance(m, str) else self._raced((next(measured), m.bytes), base, factors)
            for m in made
        )
        is_late = sets < min(effort.process_sets, LEAST_SETS)
        return RaceResult(tuple(found), control, sets, waited_share(metrics), process_seconds, is_late)

    def _made(self, configuration: Configuration, until: float) -> MadeModel | str:
        try:
            return self.model(configuration, until)
        except TimeLimitError:
            return LIMITED
        except PassesError as e:
            return format_error(e)

    def _raced(
        self, own: tuple[ModelMetrics, int], base: tuple[ModelMetrics, int], factors: tuple[float, float]
    ) -> RaceEntry:
        """The figures of a configuration; `factors` are the noise of the objective and of the time."""
        metrics, size = own
        if metrics.failure or base[0].failure:
            return RaceEntry(failure=metrics.failure or f"the first one does not run: {base[0].failure}")
        ratio, time = self.objective.ratio(own, base), self.objective.time_ratio(metrics, base[0])
        named = {w.name: metrics.latencies[i] for i, w in enumerate(self.workloads) if i in metrics.latencies}
        figures = (
            {name: latency.median for name, latency in named.items()},
            {name: latency.p99 for name, latency in named.items()},
            metrics.peak_bytes,
            size,
            metrics.threads,
        )
        if ratio is None or time is None:
            return RaceEntry(LIMITED, None, None, *figures)
        return RaceEntry("", widened(ratio, factors[0]), widened(time, factors[1]), *figures)
