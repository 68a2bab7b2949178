"""Options of `tune`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.ort.sessions import MAX_THREADS
from ..options import (
    ENGINES,
    BudgetOptions,
    CriterionOptions,
    DataOptions,
    EffortOptions,
    InitializerOptions,
    KernelPluginOptions,
    MeasuredInputOptions,
    MemoryOptions,
    PageOptions,
    ReportOptions,
    SearchOptions,
    SeedOptions,
    ShapeOptions,
    TimingOptions,
    criterion_option,
    mixed_in,
    model_option,
    option,
    output_option,
    parse_dim_sizes,
    parse_names,
    require,
    search_option,
    selection_option,
    speed_option,
)

if TYPE_CHECKING:
    from .objective import Objective

DEFAULT_PIPELINES = ("basic", "ort")
AUTO = "auto"


@mixed_in
class RaceOptions(SeedOptions, KernelPluginOptions, MeasuredInputOptions, ShapeOptions, InitializerOptions):
    """The choices to race, their inputs, and the number of threads."""

    dim: Mapping[str, Sequence[int]] | None = model_option(
        None,
        "Sizes of a symbolic dim to measure at, such as batch=1,8.",
        "NAME=N,...",
        repeated=True,
        parse=parse_dim_sizes,
    )
    threads: int = speed_option(
        0, "Maximum number of threads of a session; 0 for one per core.", "N", least=0, most=MAX_THREADS
    )
    engine: Sequence[str] | None = speed_option(
        None,
        "Engine to try in addition to onnxruntime, such as openvino or openvino:bf16; may be repeated. By default, all "
        "installed engines except those of a browser; engines that compute in another precision only with --budget.",
        "NAME",
        repeated=True,
        completes=(ENGINES,),
    )


@dataclass(frozen=True, kw_only=True)
class TuneOptions(
    PageOptions, EffortOptions, DataOptions, BudgetOptions, TimingOptions, SearchOptions, RaceOptions, ReportOptions
):
    """The parameters of `tune` except the model, as documented there."""

    output: str | Path | None = output_option(
        None,
        "Where to write the model; its settings and a session script are written next to it.",
        "FILE",
        kind=Path,
        flags=("-o", "--output"),
    )
    settings: str | Path | None = output_option(
        None, "Where to write the settings, instead of OUT_settings.json.", "FILE", kind=Path
    )
    script: str | Path | None = output_option(
        None, "Where to write the Python script that creates the session, instead of OUT_session.py.", "FILE", kind=Path
    )
    goal: str = option("latency", "What to optimize: latency, throughput, memory or size.", "GOAL")
    quantile: str = option("p50", "Latency quantile to optimize: p50 or p99.", "NAME")
    pipeline: Sequence[str] = selection_option(
        DEFAULT_PIPELINES, "Pipelines to try: basic, ort, or both.", "NAMES", parse=parse_names, is_own=True
    )
    ep: Sequence[str] | None = speed_option(
        None,
        "Execution provider to try, with options, such as openvino{device_type=CPU}; may be repeated. By default, all "
        "that are installed.",
        "NAME",
        repeated=True,
        runs_code=True,
    )
    trials: int = 200
    time: float = search_option(
        240.0,
        "Time limit for the whole command; the time that the search leaves is spent on the final measurement.",
        "SECONDS",
        kind=float,
        least=0,
    )
    budget: str | None = criterion_option(
        None,
        "Also try the schemes of `passes quantize` and other precisions, with at most this accuracy loss: 1% or 0.5pt.",
        "LOSS",
        enables=("data", "labelled", "metric", "scheme"),
    )
    scheme: str = criterion_option(
        AUTO, "Schemes to try, each as a separate model; auto for the best one.", "NAMES", is_own=True
    )

    def __post_init__(self) -> None:
        """Raise UsageError for invalid numbers and names, and for options of accuracy without a budget."""
        from ...passes.pipelines import PIPELINES  # noqa: PLC0415 - imports onnx

        super().__post_init__()
        for name in self.pipeline:
            require(name in PIPELINES, f"--pipeline {name}: choose from {', '.join(PIPELINES)}")
        if self.budget is not None:
            from ..measure.criterion import Budget  # noqa: PLC0415 - slow, and needed only here
            from ..quantize.schemes import requested_schemes  # noqa: PLC0415 - slow, and needed only here

            Budget.parse(self.budget)
            requested_schemes(self.scheme, "", "qdq")
        self.require_budget_for(data=self.data is not None, scheme=self.scheme != AUTO)

    @property
    def objective(self) -> Objective:
        """The figure to minimize."""
        from .objective import Objective  # noqa: PLC0415 - imports onnx

        return Objective.of(self.goal, self.quantile)

    @property
    def cores(self) -> int:
        """The number of threads that a session may have."""
        import psutil  # noqa: PLC0415 - used once

        return self.threads or psutil.cpu_count(logical=False) or psutil.cpu_count() or 1

    @property
    def schemes(self) -> list[str]:
        """The names of schemes to try, each as a model; empty without a budget."""
        return [] if self.budget is None else [name.strip() for name in self.scheme.split(",")]

    @property
    def input_files(self) -> list[Path]:
        """The files that are read, except the model."""
        from ..registry.python_data import data_files  # noqa: PLC0415 - imports onnx

        data = [*data_files(self.labelled), *data_files(self.data), *data_files(self.inputs)]
        return [*data, *self.custom_operator_files]


@dataclass(frozen=True, kw_only=True)
class AdviseOptions(PageOptions, CriterionOptions, MemoryOptions, RaceOptions, ReportOptions):
    """The parameters of `advise` except the model, as documented there."""

    time: float = search_option(60.0, "Time limit for the whole command.", "SECONDS", kind=float, least=0)
