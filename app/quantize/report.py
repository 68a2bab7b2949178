"""Reports of quantizations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct, field, to_builtins

from ...core.ort.engines import ONNXRUNTIME, SINGLE
from ...core.support.confidence_intervals import RatioInterval
from ...core.support.printable_text import json_text
from ...passes.quantization.low_rank import LayerRank
from ...passes.quantization.pruning import RemovedChannels
from ..measure.agreement import Score
from ..measure.metrics import ModelMetrics
from ..report.notebook import report_card, report_line
from ..report.result_row import COMPRESSED, KEPT, ResultRow, latency_columns
from .search import Goal, Trial


class Measured(Struct, frozen=True):
    """A model on disk and in its engine, onnxruntime with all optimizations; `score` is on the report samples."""

    bytes: int
    metrics: ModelMetrics
    score: Score | None = None
    ratios: dict[int, RatioInterval] = field(default_factory=dict[int, RatioInterval])


class QuantizedOp(Struct, frozen=True):
    """The outcome for a `value` of the float model, computed by `operator` ("" for a weight).

    `bits` is the width of the value and `weight_bits` that of weights; None if unchanged. `scale` is that of the value
    and `weight_scale` the largest of the weights; None if there is no single number. `error` is the power of the
    value's noise on calibration data divided by the power of the signal, and `own_error` the same for the op with the
    original's operands; None if not measured.
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
    """An op that computes in float: its first output, its operator, and the reason."""

    value: str
    operator: str
    reason: str


class HighPrecisionWeight(Struct, frozen=True):
    """A float constant: its name, its bytes, the bits of an element, and why it does not have 8 bits."""

    name: str
    bytes: int
    bits: int
    reason: str


@dataclass(slots=True)
class QuantizationReport:
    """The outcome: `scheme` and `variant` made the result; both are "" if it is the original.

    Attributes:
        goal: what was minimized.
        ended_by: the limit, time or trials, that ended the search early.
        figure: the name of the scores' figure; `reference` is that of the original on the search samples.
        samples: the numbers of samples for calibration, search and report.
        quantized: the changed ops; `float_ops` are all others that compute in float, with reasons.
        kept_high_precision: the float constants.
        multiplications: the share of multiplications in convolutions and products with weights that is left; `removed`
            are the pruned channels, `ranks` the layers of low rank.
        engine: the engine in which both ran, the original in f32 and the result in `precision`.

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
    removed: Sequence[RemovedChannels] = ()
    ranks: Sequence[LayerRank] = ()
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
        """The columns for tables."""
        return {
            "outcome": KEPT if self.is_original else COMPRESSED,
            "scheme": " ".join(filter(None, (self.scheme, self.variant))) or None,
            "bytes_before": self.original.bytes,
            "bytes_after": self.result.bytes,
            **latency_columns(self.result.ratios.values()),
        }

    def to_json(self) -> str:
        """The report as JSON text; times in seconds; infinite and NaN figures are null."""
        return json_text(to_builtins(self))

    __repr__, _repr_html_ = report_line, report_card
