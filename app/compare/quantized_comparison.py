"""Reports of comparisons of quantized models."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct, field, to_builtins

from ...core.support.confidence_intervals import RatioInterval
from ...core.support.printable_text import json_text
from ..measure.metrics import ModelMetrics
from ..quantize.criterion import Score

FAILS, INVALID, OVER_BUDGET, SLOWER, FASTER, AS_FAST = (
    "fails",
    "invalid",
    "over the budget",
    "slower",
    "faster",
    "as fast",
)


class QuantizedRow(Struct, frozen=True):
    """A model: how it was made, in how many seconds, and its `bytes` with weights.

    `failure`: why there is none, or why it is not valid. `score` is that on the samples for report. `ratios`: the
    latency divided by that of the original, by batch size, all under ORT ALL.
    """

    label: str
    description: str
    seconds: float | None = None
    failure: str = ""
    bytes: int = 0
    score: Score | None = None
    measured: ModelMetrics | None = None
    ratios: dict[int, RatioInterval] = field(default_factory=dict[int, RatioInterval])
    outcome: str = ""


@dataclass(slots=True)
class QuantizedComparison:
    """All rows, the original first; `figure` names the figure of the scores, `skipped` says why tools did not run."""

    source: str
    budget: str
    figure: str
    samples: dict[str, int]
    rows: list[QuantizedRow]
    threads: int
    skipped: dict[str, str]
    notes: list[str]
    seconds: dict[str, float]
    versions: dict[str, str]
    machine: str

    @property
    def batches(self) -> list[int]:
        """The sizes of batches that the original was measured with."""
        measured = self.rows[0].measured
        return [] if measured is None else list(measured.latencies)

    def to_json(self) -> str:
        """The report as JSON text; times in seconds; figures that are infinite or no numbers are null."""
        data = to_builtins(self)
        for row, entry in zip(self.rows, data["rows"], strict=True):
            entry["measured"] = None if row.measured is None else row.measured.to_data()
        return json_text(data)
