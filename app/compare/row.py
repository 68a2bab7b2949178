"""Rows of a comparison: models of optimizers, their verdicts and measurements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from ..measure.metrics import ModelMetrics, RatioInterval
from ..measure.model_stats import ModelStats

ORIGINAL, OURS = "original", "passwright"  # values of `made_by`


class ComparisonVerdict(Struct, frozen=True):
    """The comparison of a row with the original: `wrong` is the difference in words, "" if it is within tolerance.

    `error` is the absolute difference with the largest share of the `allowed` one, None if nothing ran; `relative` is
    that difference divided by the largest magnitude of the output, None for outputs other than floats. `excused`
    elements differ where the original jumps. `edge_case`: NaN, or a size of 0, if the row is wrong only there;
    `is_refused` if it does not run there.
    """

    wrong: str = ""
    error: float | None = None
    allowed: float | None = None
    edge_case: str = ""
    relative: float | None = None
    excused: int = 0
    is_refused: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether no difference was found."""
        return not (self.wrong or self.error or self.excused)

    @property
    def share(self) -> float | None:
        """The error divided by the allowed error; None where none is allowed."""
        return self.error / self.allowed if self.error is not None and self.allowed else None


class Row(Struct, frozen=True):
    """The model of an optimizer, run with onnxruntime's own optimization (`online`) or without it.

    `failure`: why there is no such model, or why it does not load or run. `seconds`: the time to make it, without
    verification and imports. `stats` are of the file; `online_stats` of the model that onnxruntime runs after its
    optimization. `ratios`: the latency divided by that of the original under ORT ALL, by batch size. `advice`: how to
    find the fault if onnxruntime is wrong.
    """

    made_by: str
    version: str
    online: bool
    failure: str = ""
    seconds: float | None = None
    stats: ModelStats | None = None
    online_stats: ModelStats | None = None
    verdict: ComparisonVerdict | None = None
    measured: ModelMetrics | None = None
    ratios: dict[int, RatioInterval] = field(default_factory=dict[int, RatioInterval])
    advice: str = ""

    @property
    def label(self) -> str:
        """The name of the row."""
        return f"{self.made_by} + ORT ALL" if self.online else self.made_by

    @property
    def is_unusable(self) -> bool:
        """Whether the model is missing, does not run, or is wrong."""
        return bool(self.failure) or (self.verdict is not None and bool(self.verdict.wrong))


def offline_online_pairs(rows: Sequence[Row]) -> Iterator[tuple[Row, Row | None]]:
    """Each model as written, and under ORT ALL if it was run so."""
    online = {row.made_by: row for row in rows if row.online}
    return ((row, online.get(row.made_by)) for row in rows if not row.online)
