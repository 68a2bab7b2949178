"""Options of `quantize`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..options import (
    ENGINES,
    BatchSizeOptions,
    CriterionOptions,
    InitializerOptions,
    PageOptions,
    ReportOptions,
    SearchOptions,
    SeedOptions,
    ThreadOptions,
    TimingOptions,
    option,
    output_option,
    plugin_option,
    search_option,
    shown,
    speed_option,
)

if TYPE_CHECKING:
    from ...core.plugins.plugin import PluginLike
    from .search import Goal


def _parse_goal(given: Any) -> Goal:
    """A goal of a search. Raises ValueError for other values, with a hint for targets, which once had this flag."""
    from ...passes.targets import QUANTIZATION_TARGETS  # noqa: PLC0415 - imports onnx
    from .search import GOALS  # noqa: PLC0415 - as above

    found: Goal | None = next((goal for goal in GOALS if goal == given), None)
    if found is None:
        is_target = isinstance(given, str) and given in QUANTIZATION_TARGETS
        hint = f"; the target is --target {given}" if is_target else ""
        raise ValueError(f"{shown(given)}: choose from {', '.join(GOALS)}{hint}")
    return found


@dataclass(frozen=True, kw_only=True)
class QuantizationOptions(
    PageOptions,
    SeedOptions,
    TimingOptions,
    ThreadOptions,
    BatchSizeOptions,
    SearchOptions,
    CriterionOptions,
    InitializerOptions,
    ReportOptions,
):
    """The parameters of `quantize` except the model, as documented there."""

    output: str | Path | None = output_option(
        None, "Where to write the model.", "FILE", kind=Path, flags=("-o", "--output")
    )
    scheme: str = option(
        "auto",
        "Schemes to try: auto for all, or names such as static,dynamic,weights8,weights4,half,pruned,low-rank, and "
        "precisions of the engine.",
        "NAMES",
    )
    engine: str = speed_option(
        "onnxruntime",
        "Engine that runs the candidates: onnxruntime, openvino, openvino:bf16, or an engine of a plugin.",
        "NAME",
        completes=(ENGINES,),
    )
    format: str = option(
        "qdq", "Format of static: qdq, or qoperator for runtimes that do not fuse QuantizeLinear.", "FORMAT"
    )
    calibrate: str = option(
        "", "Calibration method: minmax, percentile, entropy or mse; by default, all are tried in this order.", "METHOD"
    )
    block_size: int = option(
        0,
        "Number of weights that share a scale in weights4 and weights8: 16, 32, 64, 128 or 256; 0 for one scale per "
        "channel.",
        "N",
        least=0,
    )
    asymmetric: bool = option(default=False, help="Use a zero point for each scale in weights4 and weights8.")
    int8_cache: bool = option(
        default=False, help="Make past and present keys and values int8, which changes these inputs and outputs."
    )
    goal: Goal = search_option(
        "latency", "What to minimize: latency, size or memory.", "GOAL", parse=_parse_goal, is_own=True
    )
    target: str = option(
        "",
        "Target of the quantized model: x86-vnni, x86, arm, portable or openvino; this machine by default.",
        "NAME",
        is_own=True,
    )
    leave: Sequence[str] = option(
        (), "Value or operator to keep in floating point; may be repeated.", "NAME", repeated=True
    )
    plugin: Sequence[PluginLike] = plugin_option()
    time: float = 1800.0
    batch: Sequence[int] = (1,)
    op_errors: bool = option(default=False)

    @property
    def input_files(self) -> list[Path]:
        """The files that are read, except the model."""
        from ...core.plugins.pass_registry import python_file  # noqa: PLC0415 - imports onnx
        from ..optimize.run_options import plugin_files  # noqa: PLC0415 - as above
        from ..registry.python_data import data_files  # noqa: PLC0415 - as above

        metric = python_file(self.metric)
        data = [*data_files(self.labelled), *data_files(self.data)]
        files = [*data, *plugin_files(self.plugin), *self.custom_operator_files]
        return files if metric is None else [*files, metric]
