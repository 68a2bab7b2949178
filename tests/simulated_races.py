"""Simulated measurements of models, on a quiet or a busy machine, in place of those of `run_benchmark`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Any

import pytest
from passwright.app.measure import benchmark
from passwright.app.measure.benchmark import BenchmarkConfig, BenchmarkTarget
from passwright.app.measure.metrics import Latency, ModelMetrics, median_latency_interval
from passwright.core.ort.sessions import CPU

ROUNDS = 3
CALLS = 5  # of a round
Time = Callable[[BenchmarkTarget], float | str]
"""The true seconds of a call of a target; a text if it does not run."""


@dataclass
class SimulatedMachine:
    """A machine on which targets take their true times, times what processes and other work do to them.

    `spread` is the standard deviation of the logarithm of the time of a process, for as long as it lives, `jitter` that
    of a call. `races` are the targets that were measured.
    """

    time: Time
    seed: int = 0
    spread: float = 0.005
    jitter: float = 0.01
    peak: Callable[[BenchmarkTarget], int] = lambda _: 50_000_000
    precision: Callable[[BenchmarkTarget], str] = lambda target: target.config.precision
    races: list[list[BenchmarkTarget]] = field(default_factory=list[list[BenchmarkTarget]])

    def replace_real_one(self, monkeypatch: pytest.MonkeyPatch) -> SimulatedMachine:
        """Measure on this machine in all commands."""
        monkeypatch.setattr(benchmark, "run_benchmark", self.run_benchmark)
        return self

    def run_benchmark(
        self,
        targets: Sequence[BenchmarkTarget],
        feeds: Mapping[int, Mapping[str, Any]],
        config: BenchmarkConfig,
        *_: Any,
    ) -> list[ModelMetrics]:
        """The metrics of targets, as the real function gives them."""
        self.races.append(list(targets))
        random = Random(f"{self.seed} {len(self.races)}")
        return [self._metrics(t, feeds, config.process_sets, random) for t in targets]

    def _metrics(
        self, target: BenchmarkTarget, feeds: Mapping[int, Mapping[str, Any]], sets: int, random: Random
    ) -> ModelMetrics:
        true = self.time(target)
        if isinstance(true, str):
            return ModelMetrics(failure=true)
        latencies: dict[int, Latency] = {}
        for batch in feeds:
            calls = [[self._calls(true, random)] for _ in range(sets)]
            rounds = tuple(tuple(median(r) for r in blocks[0]) for blocks in calls)
            tails = tuple(max(max(r) for r in blocks[0]) for blocks in calls)
            low, high = median_latency_interval(rounds)
            middle = median(t for r in rounds for t in r)
            latencies[batch] = Latency(batch, CALLS, middle, low, high, middle, max(tails), rounds, tails)
        peaks = tuple(round(self.peak(target) * random.uniform(0.999, 1.001)) for _ in range(sets))
        memory = (9 * peaks[0] // 10, peaks[0], peaks[0] // 2)
        threads = target.config.intra_op_threads or 2
        precision = self.precision(target)
        return ModelMetrics("", 0.1, *memory, {CPU: 1}, latencies, threads, precision=precision, set_peaks=peaks)

    def _calls(self, true: float, random: Random) -> list[list[float]]:
        """The calls of a process, by round."""
        process = random.lognormvariate(0, self.spread)
        return [[true * process * random.lognormvariate(0, self.jitter) for _ in range(CALLS)] for _ in range(ROUNDS)]
