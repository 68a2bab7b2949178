"""What measuring models came to, as data."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..measure.metrics import Latency, ModelMetrics, RatioInterval


@dataclass(frozen=True, slots=True)
class ModelBenchmark:
    """One model: its `bytes` on disk, what was measured, and its latency as a share of the first's, by batch size.

    `accuracy`: what the metric gives, None where there is none; `accuracy_failure` says why, if it was asked for.
    `own_inputs`: whether it does not take those of the first, and was measured with others.
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
    """All models, in the order given, and what they were measured with.

    `threads` as asked for: 0 stands for all cores. `sizes` of symbolic dims, batch aside. `metric`: what accuracy is,
    "" for none. `note` says why a batch size that was asked for is not there.
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
        """Those that could not be measured."""
        return [m for m in self.models if m.measured.failure]

    def to_data(self) -> dict[str, Any]:
        """All of it but the single rounds, as JSON has it; times in seconds."""
        told = asdict(replace(self, models=[]))
        return told | {"models": [_model_data(m) for m in self.models]}

    def to_json(self) -> str:
        """The figures as JSON text."""
        return json.dumps(self.to_data(), indent=1, allow_nan=False)


def _model_data(model: ModelBenchmark) -> dict[str, Any]:
    latencies = {batch: _latency_data(found) for batch, found in model.measured.latencies.items()}
    told = asdict(replace(model, measured=replace(model.measured, latencies={})))
    told["measured"]["latencies"] = latencies
    for batch, interval in model.ratios.items():
        told["ratios"][batch]["is_significant"] = interval.is_significant
    return told


def _latency_data(latency: Latency) -> dict[str, Any]:
    told = asdict(latency)
    told["rounds"] = sum(map(len, latency.rounds))
    return told | {"sets": sum(map(bool, latency.rounds)), "throughput": latency.throughput}
