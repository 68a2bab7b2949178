"""Options of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import UsageError
from ...core.ort.sessions import MAX_THREADS
from ...core.verify.effort import Effort
from ..options import (
    DUMPS,
    PASSES,
    CustomOperatorOptions,
    DimOptions,
    InitializerOptions,
    InputOptions,
    LimitOptions,
    NameOptions,
    PageOptions,
    PipelineOptions,
    ReportOptions,
    SeedOptions,
    TargetOptions,
    effort_option,
    model_option,
    option,
    output_option,
    parse_batch_name,
    parse_dim,
    parse_external_data,
    parse_instrumentation,
    parse_names,
    parse_shape,
    parse_verification,
    report_option,
    selection_option,
    speed_option,
    verification_option,
)

if TYPE_CHECKING:  # these import onnx, which commands need only when they run
    from ...core.plugins.plugin import PluginLike
    from ...core.run.instrumentation import Instrumentation
    from ...core.run.report import Report


@dataclass(frozen=True, kw_only=True)
class RewriteOptions(CustomOperatorOptions, DimOptions, PipelineOptions, ReportOptions):
    """The options that `optimize` and `explain` share, as documented at `optimize`."""

    opset: int | None = model_option(
        None,
        "Convert the model to this opset of ONNX first, or fail with the reason why that is impossible.",
        "N",
        kind=int,
        least=1,
    )
    shape: Mapping[str, Sequence[int]] | None = model_option(
        None,
        "Fix the shape of an input, such as x:1,3,224,224; the written model keeps it.",
        "NAME:N,...",
        repeated=True,
        parse=parse_shape,
    )
    exact: bool = selection_option(False, "Use only rewrites that keep every bit.")
    keep_functions: bool = model_option(False, "Do not inline local functions.")

    dim: Mapping[str, int] | None = model_option(
        None,
        "Fix the size of a symbolic dim, such as batch=1; the written model keeps it.",
        "NAME=N",
        repeated=True,
        parse=parse_dim,
    )

    @property
    def enabled(self) -> list[str]:
        """The passes to add, including the conversion to `opset`."""
        return with_conversion(self.enable, self.opset)


@dataclass(frozen=True, kw_only=True)
class CutOptions(InitializerOptions):
    """The parts of a model to keep."""

    outputs: Sequence[str] = model_option(
        (),
        "Values that become the outputs, such as a,b; ops that they do not need are removed. May be repeated.",
        "NAMES",
        repeated=True,
        parse=parse_names,
    )
    cut_inputs: Sequence[str] = model_option(
        (),
        "Values that become inputs, such as a,b; ops that only computed them are removed. May be repeated.",
        "NAMES",
        repeated=True,
        parse=parse_names,
    )
    drop_unused_inputs: bool = model_option(False, "Remove inputs that no op reads.")


@dataclass(frozen=True, kw_only=True)
class RunOptions(
    PageOptions, LimitOptions, SeedOptions, InputOptions, NameOptions, TargetOptions, CutOptions, RewriteOptions
):
    """The parameters of `optimize` except the model, as documented there."""

    output: str | Path | None = output_option(
        None, "Where to write the verified model.", "FILE", kind=Path, flags=("-o", "--output")
    )
    in_place: bool = output_option(False, "Overwrite each model that changes with the verified result.", is_typed=True)
    external_data: str | int = output_option(
        "auto",
        "Store weights in a separate file: always, never, auto (as in the original), or a SIZE such as 1MB (tensors of "
        "at least that size).",
        "CHOICE",
        parse=parse_external_data,
    )
    dry_run: bool = output_option(False, "List each change with its savings, and write no model.", enables=("limit",))
    value_info: str | None = model_option(
        None,
        "Types and shapes of intermediate values: keep (those that the model declares), write (all known ones) or "
        "strip (none); strip is the default, except with --pipeline none.",
        "CHOICE",
    )
    stop_after: int | None = selection_option(
        None, "Stop after N changes, to find a wrong one by hand; the result is verified as usual.", "N", kind=int,
        least=0, is_typed=True,
    )  # fmt: skip
    batch: int | str | None = model_option(
        None,
        "Change the fixed batch size of a model to this number, or to a symbol of this name. The result for each row "
        "must not depend on the other rows.",
        "BATCH",
        parse=parse_batch_name,
    )
    debloat: bool = model_option(False, "Replace large repetitive constants with ops that compute them.")
    verify: bool | Effort = effort_option(
        True, kind=str, parse=parse_verification, off=("--no-verify", "Write without verification.")
    )
    strict: bool = verification_option(False, "Write nothing if any change is wrong, instead of skipping it.")
    prove: bool = verification_option(False, "Also prove the changed regions that are small enough.")
    check_speed: bool = speed_option(
        False,
        "Time the result against the original in onnxruntime; if it is slower, keep the original, or the result of the "
        "pipeline's fallback.",
        enables=("threads", "min_time"),
    )
    threads: int = speed_option(0, "Threads for --check-speed; 0 for one per core.", "N", least=0, most=MAX_THREADS)
    min_time: float = speed_option(
        2.0, "Seconds to run each model for --check-speed.", "SECONDS", kind=float, least=0.01
    )
    map: str | Path | None = report_option(
        None, "Write what became of each name in the original, as JSON, to this file.", "FILE", kind=Path
    )
    repro: str | Path | None = report_option(
        None, "Write a small model and inputs here for each wrong change.", "FOLDER", kind=Path
    )
    dump_after: Sequence[str] = report_option(
        (),
        "Write the model after each run of this pass, after all passes (all), or after those that changed it "
        "(changed). May be repeated.",
        "NAME",
        repeated=True,
        completes=(PASSES, DUMPS),
        is_typed=True,
    )
    dump_to: str | Path | None = report_option(
        None, "A new folder for the models of --dump-after, as .onnx files and as text.", "FOLDER", kind=Path
    )
    reproducer: str | Path | None = report_option(
        None,
        "Write everything that --replay needs to repeat the run to this file, even if the run fails.",
        "FILE.zip",
        kind=Path,
    )
    statistics: bool = report_option(
        False, "Count the tries, matches, changes and declines of each pass and rule, and measure their time."
    )
    visualize: bool = option(default=False)
    instrumentation: Sequence[Instrumentation] = option((), parse=parse_instrumentation)

    @property
    def enabled(self) -> list[str]:
        """The passes to add, with the conversion to `opset`, which onnxruntime must support only for verification."""
        enable = [*self.enable, *["debloat"] * self.debloat]
        return with_conversion(enable, self.opset, "" if self.verify else ",for_onnxruntime=false")

    def place_of_result(self, model: Path | None) -> str | Path | None:
        """The path of the result. Raises UsageError if there are two, or to replace a model in memory."""
        if not self.in_place:
            return self.output
        if self.output is not None:
            raise UsageError("output and in_place are mutually exclusive")
        if model is None:
            raise UsageError("in_place needs the path of a model")
        return model

    def wants(self, report: Report) -> bool:
        """Whether to write the result; a model is replaced only if something has changed it."""
        is_rewritten = report.has_changes or self.value_info is not None or self.external_data != "auto"
        return not self.in_place or is_rewritten

    @property
    def effort(self) -> Effort:
        """The effort of verification."""
        return "default" if isinstance(self.verify, bool) else self.verify

    @property
    def plugin_files(self) -> list[Path]:
        """The plugins that are files."""
        return plugin_files(self.plugin)

    @property
    def input_files(self) -> list[Path]:
        """The files that are read, except the model and those that a pipeline names."""
        from ..registry.python_data import data_files  # noqa: PLC0415 - imports onnx

        return data_files(self.inputs) + self.plugin_files + self.custom_operator_files


def with_conversion(enable: Sequence[str], opset: int | None, more: str = "") -> list[str]:
    """The passes to add, with the conversion to `opset`, if any, and `more` options for it. Raises UsageError for 0."""
    if opset is None:
        return list(enable)
    if opset == 0:
        raise UsageError("opset 0 does not exist")
    return [*enable, f"convert-opset{{to={opset}{more}}}"]


def plugin_files(plugins: Sequence[PluginLike]) -> list[Path]:
    """The plugins that are files."""
    return [Path(p) for p in plugins if isinstance(p, str | Path)]
