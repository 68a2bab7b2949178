"""Options of `profile`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..options import (
    DimOptions,
    EngineOptions,
    LevelOptions,
    MeasuredInputOptions,
    PageOptions,
    PipelineOptions,
    ReportOptions,
    SeedOptions,
    TimingOptions,
    option,
    report_option,
    require,
)


@dataclass(frozen=True, kw_only=True)
class ProfileOptions(
    PageOptions,
    TimingOptions,
    SeedOptions,
    EngineOptions,
    LevelOptions,
    DimOptions,
    MeasuredInputOptions,
    PipelineOptions,
    ReportOptions,
):
    """The parameters of `profile` except the model, as documented there."""

    no_optimize: bool = option(False, "Profile only the original model.", excludes=("pipeline", "plugin", "enable"))
    batch: int = option(1, "Batch size of the generated inputs.", "N", least=1)
    min_time: float = 2.0
    trace: str | Path | None = report_option(
        None, "Write the timeline, for Perfetto or chrome://tracing, to this file.", "FILE", kind=Path
    )

    def __post_init__(self) -> None:
        """Raise UsageError for a pipeline that would not run."""
        super().__post_init__()
        is_run = self.pipeline != "basic" or self.plugin or self.enable
        require(not (self.no_optimize and is_run), "--no-optimize runs no pipeline")
