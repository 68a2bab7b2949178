"""Values of options that need no conversion."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

NOT_SIMPLE = object()
NUMBER = re.compile(r"\d{1,15}")


def convert_simply(p: Any, kind: type) -> None:
    """Let a parameter of this type take simple values as they are: typer imports pydantic for each, which takes long.

    All others, and those of wrong values, are converted by typer. So are all in versions of typer without pydantic.
    """
    if not hasattr(p, "type_descriptor") or "process_value" in vars(p):
        return
    convert = p.process_value

    def process_value(ctx: Any, value: Any) -> Any:
        found = _simple_value(p, kind, value, is_required=p.required and not ctx.resilient_parsing)
        if found is NOT_SIMPLE:
            return convert(ctx, value)
        return found if p.callback is None else p.callback(ctx, p, found)

    p.process_value = process_value


def _simple_value(p: Any, kind: type, value: Any, *, is_required: bool) -> Any:
    """The value of a parameter if it needs no conversion but by its type, else NOT_SIMPLE."""
    has_many = p.multiple or p.nargs == -1
    if value is None:
        return NOT_SIMPLE if is_required else () if has_many else None
    if has_many:
        values = cast("list[Any]", list(value) if isinstance(value, list | tuple) else [])
        found = [_simple_item(p, kind, v) for v in values]
        return found if found and NOT_SIMPLE not in found else NOT_SIMPLE
    if isinstance(value, str):
        return _simple_item(p, kind, value)
    return value if type(value) is type(p.default) and value == p.default else NOT_SIMPLE


def _simple_item(p: Any, kind: type, value: Any) -> Any:
    if kind in {Path, str}:
        return kind(value) if isinstance(value, str) else NOT_SIMPLE
    if not NUMBER.fullmatch(value) or kind is bool:
        return NOT_SIMPLE
    number = kind(value)
    is_allowed = (p.min is None or number >= p.min) and (p.max is None or number <= p.max)
    return number if is_allowed else NOT_SIMPLE
