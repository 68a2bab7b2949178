"""Options of `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..options import (
    TOOLS,
    BatchSizeOptions,
    CriterionOptions,
    DimOptions,
    EnginesOptions,
    InitializerOptions,
    InputOptions,
    NameOptions,
    PageOptions,
    PipelineOptions,
    ReportOptions,
    SeedOptions,
    TimingOptions,
    TunedSessionOptions,
    criterion_option,
    option,
    parse_names,
    report_option,
    require,
)

if TYPE_CHECKING:
    from ..quantize.quantize_options import QuantizationOptions

OF_OPTIMIZERS = (
    "pipeline", "plugin", "only", "skip", "enable", "inputs", "shape", "dim", "ep", "ep_library", "engine", "settings",
    "keep",
)  # fmt: skip
"""Options of a comparison of optimizers alone, and of quantizers alone."""
OF_QUANTIZERS = ("data", "labelled", "metric", "budget", "time")


@dataclass(frozen=True, kw_only=True)
class CompareOptions(
    PageOptions,
    SeedOptions,
    TimingOptions,
    BatchSizeOptions,
    EnginesOptions,
    TunedSessionOptions,
    DimOptions,
    InputOptions,
    NameOptions,
    PipelineOptions,
    InitializerOptions,
    ReportOptions,
):
    """The parameters of `compare` except the model, as documented there."""

    tools: Sequence[str] | None = option(
        None,
        "Competitors, such as a,b: ort, onnxsim, onnxslim, onnxoptimizer and onnxscript, or ort, onnxsim and nncf with "
        "--quantized. By default, all that are installed.",
        "NAMES",
        repeated=True,
        parse=parse_names,
        completes=(TOOLS,),
        is_list=True,
    )
    keep: str | Path | None = report_option(None, "Keep the optimized files in this folder.", "FOLDER", kind=Path)

    def __post_init__(self) -> None:
        """Raise UsageError for mutually exclusive options."""
        super().__post_init__()
        self.require_no_session(threads=self.threads, ep=self.ep != "cpu")


@dataclass(frozen=True, kw_only=True)
class CompareCommandOptions(CriterionOptions, CompareOptions):
    """The options of `passes compare`, which can also compare tools for quantization."""

    quantized: bool = option(
        False,
        "Compare quantization tools instead, at the same accuracy budget.",
        excludes=OF_OPTIMIZERS,
        enables=OF_QUANTIZERS,
    )
    time: float | None = criterion_option(
        None, "Seconds after which `passes quantize` starts no candidate.", "SECONDS", kind=float, least=0
    )

    def __post_init__(self) -> None:
        """Raise UsageError for options that do not apply to the chosen comparison."""
        super().__post_init__()
        unused, word = (OF_OPTIMIZERS, "not for") if self.quantized else (OF_QUANTIZERS, "for")
        given = {*self.chosen, *(name for name in ("settings", "keep") if getattr(self, name))}  # with places
        for name in unused:
            require(name not in given, f"--{name.replace('_', '-')} is {word} a comparison with --quantized")

    @property
    def quantization(self) -> QuantizationOptions:
        """The options of `passes quantize` in a comparison of quantized models."""
        from ..quantize.quantize_options import QuantizationOptions  # noqa: PLC0415 - seldom needed

        return QuantizationOptions(
            data=self.data,
            labelled=self.labelled,
            metric=self.metric,
            budget=self.budget,
            freeze_initializers=self.freeze_initializers,
            time=QuantizationOptions.time if self.time is None else self.time,
            threads=self.threads,
            min_time=self.min_time,
            memory=self.memory,
            batch=self.batch,
            seed=self.seed,
            json=self.json,
            html=self.html,
            progress=self.progress,
        )
