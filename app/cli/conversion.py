"""Conversion of the values of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer


def convert_by(function: Callable[[Any], Any], p: Any) -> None:
    """Make a parameter convert each value with a function that raises ValueError for invalid values.

    Typer would import pydantic, which takes longer than a command takes to start.
    """
    if "process_value" in vars(p):
        return
    has_many, convert = p.multiple or p.nargs == -1, p.process_value

    def process_value(ctx: Any, value: Any) -> Any:
        if value is None and p.required and not ctx.resilient_parsing:
            return convert(ctx, value)  # reports missing values
        try:
            if has_many:
                return [function(v) for v in value or ()]
            found = None if value is None else function(value)
        except ValueError as e:
            raise typer.BadParameter(str(e), ctx=ctx, param=p) from e
        return found if p.callback is None else p.callback(ctx, p, found)

    p.process_value = process_value
