"""Options of `bench`."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import (
    BatchSizeOptions,
    DimOptions,
    KernelPluginOptions,
    LevelOptions,
    MeasuredInputOptions,
    MetricOptions,
    ReportOptions,
    SeedOptions,
    SessionOptions,
    TimingOptions,
)


@dataclass(frozen=True, kw_only=True)
class BenchOptions(
    SeedOptions,
    TimingOptions,
    KernelPluginOptions,
    MetricOptions,
    SessionOptions,
    LevelOptions,
    BatchSizeOptions,
    DimOptions,
    MeasuredInputOptions,
    ReportOptions,
):
    """The parameters of `bench` except the models, as documented there."""

    min_time: float = 2.0
