"""Reports of quantizations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct, field, to_builtins

from ...core.ort.engines import ONNXRUNTIME, SINGLE
from ...core.support.confidence_intervals import RatioInterval
from ...core.support.printable_text import json_text
from ...passes.quantization.pruning import RemovedChannels
from ..measure.agreement import Score
from ..measure.metrics import ModelMetrics
from ..report.notebook import report_card, report_line
from ..report.result_row import COMPRESSED, KEPT, ResultRow, latency_columns
from .search import Goal, Trial


class Measured(Struct, frozen=True):
    """A model on disk and in its engine, onnxruntime with all optimizations; `score` is that on the report set."""

    bytes: int
    metrics: ModelMetrics
    score: Score | None = None
    ratios: dict[int, RatioInterval] = field(default_factory=dict[int, RatioInterval])


class QuantizedOp(Struct, frozen=True):
    """The outcome for a `value` of the float model, or of the `operator` that makes it ("" for a weight).

    `bits` is the width of the value and `weight_bits` the width of weights, None where they stay as wide as they were;
    `scale` is the value's, `weight_scale` the greatest of the weights, None without one number for it. `error` is the
    power of the value's noise on calibration data, divided by the power of the signal, and `own_error` that of
    the op with the operands of the original; None where they were not measured.
    """

    value: str
    operator: str
    rule: str
    bits: int | None = None
    scale: float | None = None
    weight_bits: int | None = None
    weight_scale: float | None = None
    error: float | None = None
    own_error: float | None = None


class FloatOp(Struct, frozen=True):
    """An op that computes in float: the value of its first output, its operator, and the reason."""

    value: str
    operator: str
    reason: str


class HighPrecisionWeight(Struct, frozen=True):
    """A constant of floats by its name: its bytes, the bits of an element, and why these are not 8."""

    name: str
    bytes: int
    bits: int
    reason: str


@dataclass(slots=True)
class QuantizationReport:
    """The outcome: `scheme` and `variant` made the result, "" if it is the original.

    `goal` is what was to be small; `ended_by` names the limit, time or trials, that kept the search from trying more.
    `figure` names the figure of the scores; `reference` is the original's on the samples of the search, on which trials
    are scored. `samples` are the numbers of those for calibration, search and report.
    `quantized` are the changed ops, `float_ops` all others that compute in float, with reasons;
    `kept_high_precision` the constants of floats. `multiplications` is the share that pruning left of those in
    convolutions and products with weights, `removed` are the channels without which that is. The original ran in the
    `engine`, in f32, and the result in it and in the `precision`.

    Examples:
        >>> report = quantize("model.onnx", trials=1, min_time=0.01, threads=1).report
        >>> report.variant
        ''
    """

    source: str
    scheme: str
    variant: str
    target: str
    budget: str
    figure: str
    reference: float
    samples: dict[str, int]
    original: Measured
    result: Measured
    trials: list[Trial]
    quantized: list[QuantizedOp]
    float_ops: list[FloatOp]
    kept_high_precision: list[HighPrecisionWeight]
    notes: list[str]
    threads: int
    seconds: dict[str, float]
    versions: dict[str, str]
    engine: str = ONNXRUNTIME
    precision: str = SINGLE
    goal: Goal = "latency"
    ended_by: str = ""
    multiplications: float = 1.0
    removed: tuple[RemovedChannels, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_original(self) -> bool:
        """Whether nothing was better than the original."""
        return not self.scheme

    @property
    def is_undecided(self) -> bool:
        """Whether the search ended before a candidate was scored."""
        return bool(self.ended_by) and self.is_original and all(t.score is None for t in self.trials)

    @property
    def columns(self) -> ResultRow:
        """Its columns in tables."""
        return {
            "outcome": KEPT if self.is_original else COMPRESSED,
            "scheme": " ".join(filter(None, (self.scheme, self.variant))) or None,
            "bytes_before": self.original.bytes,
            "bytes_after": self.result.bytes,
            **latency_columns(self.result.ratios.values()),
        }

    def to_json(self) -> str:
        """The report as JSON text; times in seconds; figures that are infinite or no numbers are null."""
        return json_text(to_builtins(self))

    __repr__, _repr_html_ = report_line, report_card
