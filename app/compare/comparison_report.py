"""Reports of comparisons of optimizers, and of tools for quantization."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct, to_builtins

from ...core.ir.op_schemas import ONNX_DOMAIN, since_versions, split_op_type
from ...core.support.confidence_intervals import RatioInterval
from ...core.support.printable_text import json_text
from ..measure.agreement import Score
from ..measure.metrics import ModelMetrics
from ..measure.model_stats import ModelStats
from ..report.notebook import report_card, report_json, report_line
from ..report.result_row import COMPARED, NO_DIFFERENCE, UNVERIFIABLE, WITHIN_TOLERANCE, ResultRow, latency_columns

ORIGINAL, OURS = "original", "passwright"  # values of `made_by`


class ComparisonVerdict(Struct, frozen=True):
    """The comparison of a row with the original.

    Attributes:
        wrong: the difference in words; "" if it is within tolerance.
        error: the absolute difference that takes the largest share of its allowed difference; None if nothing ran.
        allowed: the difference that is allowed at that element.
        relative: `error` divided by the largest magnitude of the output; None for outputs other than floats.
        excused: the number of elements that differ at discontinuities of the original.
        edge_case: NaN or a size of 0, if the row is wrong only there.
        is_refused: the row does not run on the edge case.
        limits: the verdict of an engine holds only within these limits.
    """

    wrong: str = ""
    error: float | None = None
    allowed: float | None = None
    edge_case: str = ""
    relative: float | None = None
    excused: int = 0
    is_refused: bool = False
    limits: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether no difference was found."""
        return not (self.wrong or self.error or self.excused)

    @property
    def share(self) -> float | None:
        """The error divided by the allowed error; None if no error is allowed."""
        return self.error / self.allowed if self.error is not None and self.allowed else None


class Row(Struct, frozen=True):
    """The model of an optimizer, run with onnxruntime's own optimization (`online`) or without it.

    Attributes:
        failure: why there is no model, or why it does not load or run.
        seconds: the time to make the model, without verification and imports.
        stats: statistics of the file.
        online_stats: statistics of the model that onnxruntime runs after its optimization.
        ratios: the latency divided by that of the original under ORT ALL, by batch size.
        advice: how to find the fault if onnxruntime is wrong.
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
    ratios: dict[int, RatioInterval] = msgspec.field(default_factory=dict[int, RatioInterval])
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
    """Yield each model as written, and the same model under ORT ALL if it was run."""
    online = {row.made_by: row for row in rows if row.online}
    return ((row, online.get(row.made_by)) for row in rows if not row.online)


class OnlineOptimization(Struct, frozen=True):
    """The effect of onnxruntime's own optimizer on a model while loading it.

    `extra_creation_seconds` is the time that it adds to the creation of a session, and `extra_creation_interval` the
    95 % interval of that, None for a single process. `latency_ratio` is the latency with ORT ALL divided by the latency
    without.
    """

    made_by: str
    nodes: int
    nodes_after: int
    extra_creation_seconds: float
    latency_ratio: RatioInterval | None = None
    extra_creation_interval: tuple[float, float] | None = None


LAYOUT_DOMAINS = {"com.microsoft.nchwc": "NCHWc", "com.ms.internal.nhwc": "NHWC"}
"""Domains of onnxruntime's operators with a layout of their own, and the name of the layout."""
CONTRIB_DOMAIN = "com.microsoft"


class OperatorCounts(Struct, frozen=True):
    """The number of ops of one type that onnxruntime runs after its own optimization, for the original and our result.

    `made_from_original` and `made_from_result` count those that onnxruntime made while loading.
    """

    op: str
    original: int
    result: int
    made_from_original: int
    made_from_result: int

    @property
    def is_made(self) -> bool:
        """Whether onnxruntime made some of them."""
        return bool(self.made_from_original or self.made_from_result)

    @property
    def name(self) -> str:
        """A short name: `BiasGelu` of onnxruntime, `NCHWc Conv` in its layout; with the domain if ONNX has it too."""
        domain, op_type = split_op_type(self.op)
        if domain in LAYOUT_DOMAINS:
            return f"{LAYOUT_DOMAINS[domain]} {op_type}"
        return op_type if domain == CONTRIB_DOMAIN and op_type not in since_versions(ONNX_DOMAIN) else self.op


class EngineRow(Struct, frozen=True):
    """The model of an optimizer in another `engine`: the verdict in words, its `precision`, and its measurements.

    `failure` says why it does not load or run. `ratios` is the latency divided by that of the original under ORT ALL,
    by batch size.
    """

    made_by: str
    engine: str
    precision: str
    failure: str = ""
    verdict: str = ""
    is_wrong: bool = False
    measured: ModelMetrics | None = None
    ratios: dict[int, RatioInterval] = msgspec.field(default_factory=dict[int, RatioInterval])

    @property
    def label(self) -> str:
        """The name of the row."""
        return f"{self.made_by} in {self.engine}"


@dataclass(slots=True)
class ComparisonReport:
    """All rows, starting with the original, and the conditions of the comparison.

    Attributes:
        baseline: the index in `rows` of the original under ORT ALL.
        sizes: the sizes of symbolic dims, except the batch.
        batches: the measured batch sizes, ascending.
        batch_note: why other batch sizes are missing.
        verification: a description of the oracle, or why there is none.
        skipped_tools: optimizers that did not run, with the reasons.
        models_folder: the folder of the optimized files, if they were kept.
        session: a description of the settings of all sessions, if any were chosen.
        engines: the rows of other engines.

    Examples:
        >>> report = compare("model.onnx", tools=(), batch=(1,), min_time=0.01, threads=1)
        >>> report.rows[report.baseline].online
        True
    """

    source: str
    pipeline: str
    rows: list[Row]
    baseline: int
    online_optimizations: list[OnlineOptimization]
    threads: int
    provider: str
    batches: list[int]
    sizes: dict[str, int]
    verification: str
    batch_note: str = ""
    skipped_tools: dict[str, str] = field(default_factory=dict[str, str])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    machine: str = ""
    is_verified: bool = True
    notes: list[str] = field(default_factory=list[str])
    models_folder: str = ""
    session: str = ""
    engines: list[EngineRow] = field(default_factory=list[EngineRow])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def row_of(self, name: str, *, online: bool) -> Row | None:
        """The row of an optimizer."""
        return next((row for row in self.rows if row.made_by == name and row.online is online), None)

    @property
    def online_operators(self) -> list[OperatorCounts]:
        """The operators that onnxruntime makes in the original or our result, then others whose numbers differ.

        Empty if the ops that onnxruntime runs are unknown.
        """
        rows = [self.row_of(name, online=True) for name in (ORIGINAL, OURS)]
        counts = [(r.stats.ops, r.online_stats.ops) for r in rows if r is not None and r.stats and r.online_stats]
        if len(counts) < len(rows):
            return []
        (file, run), (own_file, own_run) = counts
        found = [
            OperatorCounts(
                op,
                run.get(op, 0),
                own_run.get(op, 0),
                max(run.get(op, 0) - file.get(op, 0), 0),
                max(own_run.get(op, 0) - own_file.get(op, 0), 0),
            )
            for op in sorted(run.keys() | own_run.keys())
        ]
        relevant = [c for c in found if c.is_made or c.original != c.result]
        return sorted(relevant, key=lambda c: (not c.is_made, -max(c.original, c.result)))

    def wrong_under_ort_all(self, name: str) -> str:
        """Name the original and an optimizer's model if ORT ALL breaks them, because their times are not comparable."""
        ours = self.row_of(name, online=True)
        wrong = [row.made_by for row in (self.rows[self.baseline], ours) if row is not None and row.is_unusable]
        return " and ".join(wrong)

    @property
    def columns(self) -> ResultRow:
        """The columns for tables: our result beside the original, both under ORT ALL."""
        columns: ResultRow = {"outcome": COMPARED if self.is_verified else UNVERIFIABLE}
        for when, made_by in (("before", ORIGINAL), ("after", OURS)):
            row = self.row_of(made_by, online=False)
            if row is not None and row.stats is not None:
                columns |= {f"nodes_{when}": row.stats.nodes, f"bytes_{when}": row.stats.bytes}
        if (ours := self.row_of(OURS, online=True)) is None:
            return columns
        wrong = ours.verdict.wrong if ours.verdict is not None else ""
        if ours.verdict is not None and not wrong:
            columns["verdict"] = NO_DIFFERENCE if ours.verdict.is_exact else WITHIN_TOLERANCE
        return columns | latency_columns(ours.ratios.values()) | {"error": ours.failure or wrong or None}

    def to_json(self) -> str:
        """The report as JSON text, with derived counts."""
        data = to_builtins(self)
        data["online_operators"] = [to_builtins(c) for c in self.online_operators]
        for row, entry in zip(self.rows, data["rows"], strict=True):
            entry["label"] = row.label
            for name, stats in (("stats", row.stats), ("online_stats", row.online_stats)):
                if stats is not None:
                    entry[name] |= {"nodes": stats.nodes, "is_portable": stats.is_portable}
        return json_text(data)

    __repr__, _repr_html_ = report_line, report_card


FAILS, INVALID, OVER_BUDGET, SLOWER, FASTER, AS_FAST = (
    "fails",
    "invalid",
    "over the budget",
    "slower",
    "faster",
    "as fast",
)


class QuantizedRow(Struct, frozen=True):
    """A quantized model: its tool, the seconds to make it, and its `bytes` with weights.

    `failure` says why there is no model, or why it is not valid. `score` is the score on the report samples. `ratios`
    is the latency divided by that of the original, by batch size, under ORT ALL.
    """

    label: str
    description: str
    seconds: float | None = None
    failure: str = ""
    bytes: int = 0
    score: Score | None = None
    measured: ModelMetrics | None = None
    ratios: dict[int, RatioInterval] = msgspec.field(default_factory=dict[int, RatioInterval])
    outcome: str = ""


@dataclass(slots=True)
class QuantizedComparison:
    """All rows, starting with the original; `figure` names the scores, `skipped` says why tools did not run."""

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
        """The batch sizes at which the original was measured."""
        measured = self.rows[0].measured
        return [] if measured is None else list(measured.latencies)

    @property
    def columns(self) -> ResultRow:
        """The columns for tables."""
        return {"outcome": COMPARED, "bytes_before": self.rows[0].bytes}

    to_json = report_json
