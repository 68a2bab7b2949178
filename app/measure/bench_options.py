"""Options of `bench`."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import (
    BatchSizeOptions,
    DimOptions,
    EnginesOptions,
    KernelPluginOptions,
    LevelOptions,
    MeasuredInputOptions,
    MetricOptions,
    ReportOptions,
    SeedOptions,
    TimingOptions,
    TunedSessionOptions,
)


@dataclass(frozen=True, kw_only=True)
class BenchOptions(
    SeedOptions,
    TimingOptions,
    KernelPluginOptions,
    MetricOptions,
    EnginesOptions,
    TunedSessionOptions,
    LevelOptions,
    BatchSizeOptions,
    DimOptions,
    MeasuredInputOptions,
    ReportOptions,
):
    """The parameters of `bench` except the models, as documented there."""

    min_time: float = 2.0

    def __post_init__(self) -> None:
        """Raise UsageError for mutually exclusive options."""
        super().__post_init__()
        has_engine = list(self.engine) != ["onnxruntime"]
        self.require_no_session(threads=self.threads, ep=self.ep != "cpu", level=self.level != "all", engine=has_engine)
