"""Options of `passes check`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..options import CustomOperatorOptions, ReportOptions, option, plugin_option, report_option

if TYPE_CHECKING:  # imports onnx, which commands need only when they run
    from ...core.plugins.plugin import PluginLike


@dataclass(frozen=True, kw_only=True)
class CheckOptions(CustomOperatorOptions, ReportOptions):
    """The options of a check of rules."""

    plugin: Sequence[PluginLike] = plugin_option()
    built_in: bool = option(False, "Check all rules that come with passwright.")
    budget: int = option(600, "Maximum number of models generated for each rule.", "N", least=1)
    seed: int = option(0, "Seed of the generated models and inputs.", "N", least=0)
    prove: bool = option(
        False,
        "Also prove the rules: in real arithmetic, and bit for bit where they are exact.",
        is_own=True,
        enables=("float32",),
    )
    float32: bool = option(False, "With --prove: run exact rules on every float32 value, which takes minutes per rule.")
    repro: str | Path | None = report_option(
        None, "Write a model and inputs here for each wrong rule.", "FOLDER", kind=Path
    )
