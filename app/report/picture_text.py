"""Short texts for values, constants and attributes in pictures; weights are not read."""

from __future__ import annotations

from math import prod
from typing import Any, cast

import numpy as np

from ...core import Graph, Op, Tensor, Value
from ...core.ir import op_schemas
from ...core.ir.tensor import STRING, dims_text, element_type

MAX_CHARS, MAX_LINES, MAX_ELEMENTS = 28, 4, 4
STR_TYPES = (str, int, float, complex, np.generic)


def cut_end(text: str, limit: int = MAX_CHARS) -> str:
    """Truncate a long text at the end."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def cut_start(text: str) -> str:
    """Truncate a long text at the beginning; names of exporters differ at their ends."""
    return text if len(text) <= MAX_CHARS else f"…{text[1 - MAX_CHARS :]}"


def limit_lines(lines: list[str], limit: int = MAX_LINES) -> list[str]:
    """The first lines, and the number of omitted ones."""
    return lines if len(lines) <= limit else [*lines[: limit - 1], f"and {len(lines) - limit + 1} more"]


def type_text(value: Value, *, declared: bool = False) -> str:
    """Format a type such as `float[N,4]`; empty if unknown. `declared`: do not infer it."""
    dtype, shape = value.recorded_type if declared else (value.known_dtype, value.known_shape)
    if dtype == 0:
        return ""
    return element_type(dtype) + ("[...]" if shape is None else dims_text(shape))


def tensor_text(tensor: Tensor) -> str:
    """The elements of a very small constant; otherwise its type and shape."""
    small = prod(tensor.dims) <= MAX_ELEMENTS and tensor.dtype != STRING
    if not small or tensor.is_external:
        return element_type(tensor.dtype) + dims_text(tensor.dims)
    elements = ", ".join(attribute_text(x) for x in tensor.array.reshape(-1).tolist())
    return f"[{elements}]" if tensor.dims else elements


def attribute_lines(op: Op) -> list[str]:
    """The attributes that are not at their default, one per line, except tensors and bodies."""
    lines: list[str] = []
    for name, value in op.attrs.items():
        default = op_schemas.attribute_default(op.type, op.domain, op.version, name)
        if default is None or not bool(value == default):
            lines.append(f"{name}: {attribute_text(value)}")
    return limit_lines(lines)


def attribute_text(value: Any) -> str:
    """An attribute's value: numbers with few digits, a body as its operators, a tensor as its contents."""
    if isinstance(value, Graph):
        return ", ".join(op.type for op in value.sorted_ops()) or "no ops"
    if isinstance(value, Tensor):
        return tensor_text(value)
    if isinstance(value, list):
        entries = cast("list[Any]", value)[:MAX_CHARS]
        return f"[{', '.join(map(attribute_text, entries))}]"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value) if isinstance(value, STR_TYPES) else type(value).__name__
