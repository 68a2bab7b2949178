"""Under which conditions models are compared.

What a comparison of optimizers came to, as data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from ...core.ort.sessions import SessionConfig
from ..measure.benchmark import BenchmarkConfig
from ..measure.execution_provider import ExecutionProvider
from ..measure.metrics import ModelMetrics, RatioInterval
from ..measure.model_stats import ModelStats


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which everything is measured: `threads` of onnxruntime, 0 for as many as there are cores.

    `is_timed` says of a row that has been judged whether it is worth the time.
    """

    threads: int = 0
    provider: ExecutionProvider = field(default_factory=ExecutionProvider)
    batches: Sequence[int] = (1,)
    effort: BenchmarkConfig = field(default_factory=BenchmarkConfig)
    is_timed: Callable[[Row], bool] = lambda _: True

    def session_setting(self, level: str) -> SessionConfig:
        """As users have it, apart from the level."""
        return self.provider.session_config(level, self.threads)


DEFAULT_CONDITIONS = Conditions()


OURS = "passwright"
"""Who made the rows that are ours."""


@dataclass(frozen=True, slots=True)
class RowVerdict:
    """Whether a row computes what the original computes: `wrong` says how not, "" where it does.

    `error`: the absolute difference that came nearest to what is `allowed` at that output, or went furthest past it;
    None where nothing ran. `relative`: that as a share of the largest magnitude of the output, None where it is not of
    floats. `excused` elements differ where the original's own jump. `edge_case`: where it was seen to be wrong if that
    is at the edge: NaN, or a size of 0.
    """

    wrong: str = ""
    error: float | None = None
    allowed: float | None = None
    edge_case: str = ""
    relative: float | None = None
    excused: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether nothing at all was seen to differ."""
        return not (self.wrong or self.error or self.excused)

    @property
    def share(self) -> float | None:
        """The error in parts of what is allowed; None where nothing is."""
        return self.error / self.allowed if self.error is not None and self.allowed else None


@dataclass(frozen=True, slots=True)
class Row:
    """A model as it is made by `made_by`, and run with onnxruntime's own optimization `online` or without.

    `failure`: why there is no such model, or it does not load or run, in a line. `seconds`: how long making it took
    without verification and imports. `stats` are of the file; `online_stats`, where onnxruntime optimizes, of what runs
    in the end. `ratios`: the latency as a share of that of the original under ORT ALL, by batch size.
    `advice`: what to do about a result of onnxruntime's that is wrong, "" for nothing.
    """

    made_by: str
    version: str
    online: bool
    failure: str = ""
    seconds: float | None = None
    stats: ModelStats | None = None
    online_stats: ModelStats | None = None
    verdict: RowVerdict | None = None
    measured: ModelMetrics | None = None
    ratios: dict[int, RatioInterval] = field(default_factory=dict[int, RatioInterval])
    advice: str = ""

    @property
    def label(self) -> str:
        """What tells it from the other rows."""
        return f"{self.made_by} + ORT ALL" if self.online else self.made_by

    @property
    def is_unusable(self) -> bool:
        """Whether it cannot be had, or computes something else."""
        return bool(self.failure) or (self.verdict is not None and bool(self.verdict.wrong))


@dataclass(frozen=True, slots=True)
class OnlineOptimization:
    """What onnxruntime's own optimizer still does to a model: nodes removed as it loads, and what that costs and gains.

    `extra_creation_seconds`: seconds by which its optimization makes creating a session longer. `latency_ratio` with
    ORT ALL as a share of that without.
    """

    made_by: str
    nodes: int
    nodes_after: int
    extra_creation_seconds: float
    latency_ratio: RatioInterval | None = None


@dataclass(slots=True)
class ComparisonReport:
    """All rows, the original first, and what was measured with what.

    `baseline` is the place of the original under ORT ALL in `rows`. `sizes`: of the symbolic dims, batch aside.
    `batches`: the sizes measured, the single sample first; `batch_note` says why there are no others, if so.
    `verification` tells in a line what results were held to, or why they could not be: `is_verified`. `skipped_tools`:
    optimizers that were not asked, and why. `notes`: what else to know, a line each. `models_folder`: where the files
    are.
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

    def row_of(self, name: str, *, online: bool) -> Row | None:
        """A row of an optimizer."""
        return next((row for row in self.rows if row.made_by == name and row.online is online), None)

    def wrong_under_ort_all(self, name: str) -> str:
        """Of the original and what an optimizer made: what ORT ALL is wrong about, so that its times are no gain."""
        ours = self.row_of(name, online=True)
        wrong = [row.made_by for row in (self.rows[self.baseline], ours) if row is not None and row.is_unusable]
        return " and ".join(wrong)

    def to_json(self) -> str:
        """All of it as JSON text, with the counts that follow from it; sizes of batches are texts there."""
        data = asdict(self)
        for row, told in zip(self.rows, data["rows"], strict=True):
            told["label"] = row.label
            for name, anatomy in (("stats", row.stats), ("online_stats", row.online_stats)):
                if anatomy is not None:
                    told[name] |= {"nodes": anatomy.nodes, "is_portable": anatomy.is_portable}
            for batch, latency in (row.measured.latencies if row.measured is not None else {}).items():
                told["measured"]["latencies"][batch]["throughput"] = latency.throughput
        return json.dumps(data, indent=1, allow_nan=False)
