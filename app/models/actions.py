"""Commands that a batch does to each model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from .report_columns import (
    comparison_columns,
    optimization_columns,
    quantization_columns,
    tuning_columns,
    verification_columns,
)
from .result_row import ResultRow


class Action(Struct, frozen=True):
    """A command with its parameters for the model, the file of the result and a second model, "" for none.

    `columns` are those of a row about its report, as JSON, among them `outcome`. `timed`: whether it measures times, so
    that models are taken one at a time, or the name of the parameter that has it do so.
    """

    model: str
    columns: Callable[[Mapping[str, Any]], ResultRow]
    output: str = ""
    other: str = ""
    timed: bool | str = False

    def is_timed(self, parameters: Mapping[str, Any]) -> bool:
        """Whether it measures times, with these values of its parameters."""
        return bool(parameters.get(self.timed)) if isinstance(self.timed, str) else self.timed


ACTIONS = {
    "run": Action("files", optimization_columns, output="output", timed="check_speed"),
    "quantize": Action("model", quantization_columns, output="output", timed=True),
    "tune": Action("model", tuning_columns, output="output", timed=True),
    "compare": Action("model", comparison_columns, timed=True),
    "verify": Action("original", verification_columns, other="other"),
}
DEFAULT = "run"
