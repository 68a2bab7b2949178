"""Reports of quantizations."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct, field, to_builtins

from ...core.support.confidence_intervals import RatioInterval
from ...core.support.printable_text import json_text
from ..measure.metrics import ModelMetrics
from ..report.notebook_cards import card_html
from .criterion import Score
from .float_ops import FloatOp
from .kept_high_precision import HighPrecisionWeight
from .quantized_ops import QuantizedOp
from .search import Trial


class Measured(Struct, frozen=True):
    """A model on disk and in onnxruntime with all optimizations; `score` is that on the report set."""

    bytes: int
    metrics: ModelMetrics
    score: Score | None = None
    ratios: dict[int, RatioInterval] = field(default_factory=dict[int, RatioInterval])


@dataclass(slots=True)
class QuantizationReport:
    """The outcome: `scheme` and `variant` are those of the result, "" if it is the original.

    `figure` names the figure of the scores; `reference` is the original's on the samples of the search, on which trials
    are scored. `samples` are the numbers of those for calibration, search and report.
    `quantized` are the changed ops, `float_ops` all others that compute in float, with reasons;
    `kept_high_precision` the constants of floats.
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

    @property
    def is_original(self) -> bool:
        """Whether nothing was better than the original."""
        return not self.scheme

    def to_json(self) -> str:
        """The report as JSON text; times in seconds; figures that are infinite or no numbers are null."""
        return json_text(to_builtins(self))

    _repr_html_ = card_html
