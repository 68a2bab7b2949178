"""Reports of benchmarks."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..measure.metrics import ModelMetrics, RatioInterval


@dataclass(frozen=True, slots=True)
class ModelBenchmark:
    """One model: its `bytes` on disk, its metrics, and its latency divided by that of the first, by batch size.

    `accuracy` is None without a metric, or with `accuracy_failure`. `own_inputs`: whether it does not accept the inputs
    of the first, and was measured with others.
    """

    model: str
    bytes: int
    measured: ModelMetrics
    ratios: dict[int, RatioInterval] = field(default_factory=dict[int, RatioInterval])
    accuracy: float | None = None
    accuracy_failure: str = ""
    own_inputs: bool = False


@dataclass(slots=True)
class BenchReport:
    """All models, in the order given, and the conditions of the measurement.

    `threads` as requested: 0 for one on each core. `sizes` of symbolic dims except the batch. `metric` is the name of
    the accuracy, "" without one. `note` says why a requested batch size is missing.
    """

    models: list[ModelBenchmark]
    level: str
    provider: str
    threads: int
    batches: list[int]
    sizes: dict[str, int]
    metric: str = ""
    samples: int = 0
    note: str = ""
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    versions: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def failed(self) -> list[ModelBenchmark]:
        """The models that could not be measured."""
        return [m for m in self.models if m.measured.failure]

    def to_data(self) -> dict[str, Any]:
        """The report as data for JSON, without the single rounds; times in seconds."""
        return asdict(replace(self, models=[])) | {"models": [_model_data(m) for m in self.models]}

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.to_data(), indent=1, allow_nan=False)


def _model_data(model: ModelBenchmark) -> dict[str, Any]:
    data = asdict(model)
    for batch, latency in model.measured.latencies.items():
        rounds = {"rounds": sum(map(len, latency.rounds)), "sets": sum(map(bool, latency.rounds))}
        data["measured"]["latencies"][batch] |= rounds | {"throughput": latency.throughput}
    for batch, interval in model.ratios.items():
        data["ratios"][batch]["is_significant"] = interval.is_significant
    return data
