"""Races of configurations, side by side in fresh processes, with one of them against itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ...core.errors import PassesError, format_error
from ...core.support.confidence_intervals import RatioInterval
from ..measure import benchmark
from ..measure.metrics import ModelMetrics
from ..measure.tuned_settings import Configuration
from ..optimize.content_digests import content_digest
from ..quantize.journal import Journal
from .objective import LEAST_SETS, Objective, noise, widened
from .tuned_models import MadeModel, TunedModels
from .workloads import Workload


class Rung(Struct, frozen=True):
    """The effort of a race: so many sets of processes, and a share of the seconds of calls for each model."""

    sets: int
    share: float


RUNGS = (Rung(2, 0.25), Rung(LEAST_SETS, 0.5), Rung(5, 1.0))
"""Of successive halving: each has about half of the configurations of the one before."""
LAST = Rung(11, 2.0)
"""Of the best finalists against the original."""


class RaceEntry(Struct, frozen=True):
    """A configuration in a race: its figure and its time, divided by those of the first, or the `failure`.

    `seconds` of a call, the median, by workload; `peak` memory and file in bytes; `threads` that compute an op.
    """

    failure: str = ""
    ratio: RatioInterval | None = None
    time: RatioInterval | None = None
    seconds: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    tails: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    peak: int = 0
    bytes: int = 0
    threads: int = 0

    @classmethod
    def of(cls, data: dict[str, Any]) -> RaceEntry:
        """Of the data in a journal."""
        ratio, time = (None if data[name] is None else RatioInterval(**data[name]) for name in ("ratio", "time"))
        return replace(cls(**data), ratio=ratio, time=time)


class RaceResult(Struct, frozen=True):
    """The configurations of a race in order, and the first one against itself, if the race has enough sets."""

    raced: tuple[RaceEntry, ...]
    control: RatioInterval | None
    sets: int

    @property
    def noise(self) -> float:
        """The factor by which intervals are widened; 1 on a quiet machine."""
        return noise(self.control, self.sets)


@dataclass
class Racing:
    """Races on common workloads; `results` are those of all so far, `journal` keeps them."""

    models: TunedModels
    workloads: Sequence[Workload]
    objective: Objective
    min_time: float
    seed: int
    journal: Journal = field(default_factory=Journal)
    progress: Callable[[str], None] = lambda _: None
    results: list[RaceResult] = field(default_factory=list[RaceResult], init=False)

    def identity(self, configuration: Configuration) -> str:
        """A digest of model and session. Raises PassesError if the model cannot be made."""
        made = self.models.get(configuration.recipe)
        return content_digest([made.digest, to_builtins(configuration.session), configuration.callers])

    def __call__(self, configurations: Sequence[Configuration], rung: Rung) -> RaceResult:
        """Race configurations with the first one; models that cannot be made have a failure."""
        identities = [self._identity_or_failure(c) for c in configurations]
        key = f"race {len(self.results)} {rung.sets} {rung.share} {' '.join(identities)}"  # each is a race of its own
        data = self.journal.result(key, lambda: self._data(configurations, rung))
        control = None if data["control"] is None else RatioInterval(**data["control"])
        result = RaceResult(tuple(map(RaceEntry.of, data["raced"])), control, rung.sets)
        self.results.append(result)
        return result

    def _identity_or_failure(self, configuration: Configuration) -> str:
        try:
            return self.identity(configuration)
        except PassesError as e:
            return content_digest([configuration.key, str(e)])

    def _data(self, configurations: Sequence[Configuration], rung: Rung) -> dict[str, Any]:
        made = [self._made(c) for c in configurations]
        if isinstance(made[0], str):
            return {"control": None, "raced": [to_builtins(RaceEntry(failure=made[0]))] * len(made)}
        entries = [(c, m) for c, m in zip(configurations, made, strict=True) if isinstance(m, MadeModel)]
        has_control = rung.sets >= LEAST_SETS
        raced = [*entries, *entries[:1]] if has_control else entries
        targets = [benchmark.BenchmarkTarget(m.path, c.session, callers=c.callers) for c, m in raced]
        feeds = {i: w.feeds for i, w in enumerate(self.workloads)}
        effort = benchmark.BenchmarkConfig(self.min_time * rung.share, rung.sets, self.seed, finds_providers=False)
        metrics = benchmark.run_benchmark(targets, feeds, effort, self.progress)
        control = self.objective.time_ratio(metrics[-1], metrics[0]) if has_control else None
        base, measured = (metrics[0], entries[0][1].bytes), iter(metrics)
        of_figure = self.objective.ratio((metrics[-1], base[1]), base) if has_control else None
        factors = (noise(of_figure, rung.sets), noise(control, rung.sets))
        found = [
            RaceEntry(failure=m) if isinstance(m, str) else self._raced((next(measured), m.bytes), base, factors)
            for m in made
        ]
        return {"control": None if control is None else to_builtins(control), "raced": list(map(to_builtins, found))}

    def _made(self, configuration: Configuration) -> MadeModel | str:
        try:
            return self.models.get(configuration.recipe)
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
        if ratio is None or time is None:
            return RaceEntry(failure="it was not measured beside the first one")
        named = {w.name: metrics.latencies[i] for i, w in enumerate(self.workloads) if i in metrics.latencies}
        return RaceEntry(
            "",
            widened(ratio, factors[0]),
            widened(time, factors[1]),
            {name: latency.median for name, latency in named.items()},
            {name: latency.p99 for name, latency in named.items()},
            metrics.peak_bytes,
            size,
            metrics.threads,
        )
