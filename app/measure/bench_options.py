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
)


@dataclass(frozen=True, kw_only=True)
class BenchOptions(
    SeedOptions,
    TimingOptions,
    KernelPluginOptions,
    MetricOptions,
    EnginesOptions,
    LevelOptions,
    BatchSizeOptions,
    DimOptions,
    MeasuredInputOptions,
    ReportOptions,
):
    """The parameters of `bench` except the models, as documented there."""

    min_time: float = 2.0
