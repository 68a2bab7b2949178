"""Options of `profile`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..options import (
    ENGINES,
    DimOptions,
    LevelOptions,
    MeasuredInputOptions,
    PageOptions,
    PipelineOptions,
    ReportOptions,
    SeedOptions,
    SessionOptions,
    TimingOptions,
    option,
    report_option,
    require,
    speed_option,
)


@dataclass(frozen=True, kw_only=True)
class ProfileOptions(
    PageOptions,
    TimingOptions,
    SeedOptions,
    SessionOptions,
    LevelOptions,
    DimOptions,
    MeasuredInputOptions,
    PipelineOptions,
    ReportOptions,
):
    """The parameters of `profile` except the model, as documented there."""

    engine: str = speed_option(
        "onnxruntime",
        "Engine that runs the model: onnxruntime, openvino, openvino:bf16, or an engine of a plugin.",
        "NAME",
        completes=(ENGINES,),
    )
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
