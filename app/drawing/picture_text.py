"""What a picture says of values, constants and attributes: a few letters each, and weights unread."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto

from ...core import Graph, Op, Tensor, Value
from ...core.ir import op_schemas
from ...core.ir.dims import Shape

MOST_LETTERS, MOST_LINES, MOST_ELEMENTS = 28, 4, 4
SAID_AS_THEY_ARE = (str, int, float, complex, np.generic)


def beginning(text: str) -> str:
    """A text, cut short where it is long."""
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"


def ending(text: str) -> str:
    """The end of a long text: in names, it is there that exporters differ."""
    return text if len(text) <= MOST_LETTERS else f"…{text[1 - MOST_LETTERS :]}"


def few(lines: list[str]) -> list[str]:
    """The first of many lines, and how many more there are."""
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], f"and {len(lines) - MOST_LINES + 1} more"]


def op_title(domain: str, op_type: str) -> str:
    """The operator, with its domain unless that is the standard one."""
    return f"{domain}::{op_type}" if domain else op_type


def type_of(value: Value) -> str:
    """`float[N,4]`; empty where nothing is known."""
    return _type(value.known_dtype, value.known_shape)


def stated_type(value: Value) -> str:
    """As `type_of`, of what is written down: nothing is inferred."""
    return _type(*value.stated)


def _type(dtype: int, shape: Shape | None) -> str:
    if dtype == 0:
        return ""
    dims = "..." if shape is None else ",".join("?" if d is None else str(d) for d in shape)
    return f"{element_type(dtype)}[{dims}]"


def element_type(dtype: int) -> str:
    """`float`, `int64`, as in ONNX's text form."""
    return TensorProto.DataType.Name(dtype).lower()


def contents(tensor: Tensor) -> str:
    """The elements of a very small constant; of any other one, type and shape."""
    small = prod(tensor.dims) <= MOST_ELEMENTS and tensor.dtype != TensorProto.STRING
    if not small or tensor.is_external:
        return f"{element_type(tensor.dtype)}[{','.join(map(str, tensor.dims))}]"
    elements = ", ".join(plain(x) for x in tensor.array.reshape(-1).tolist())
    return f"[{elements}]" if tensor.dims else elements


def attributes(op: Op) -> list[str]:
    """The attributes that are not at their default, one a line."""
    defaults = {name: op_schemas.attribute_default(op.type, op.domain, op.version, name) for name in op.attrs}
    return few([f"{name}: {plain(value)}" for name, value in op.attrs.items() if not is_same(value, defaults[name])])


def is_same(value: Any, default: Any) -> bool:
    """Whether an attribute is at its default; tensors and bodies have none."""
    return default is not None and bool(value == default)


def plain(value: Any) -> str:
    """An attribute's value: numbers in few digits, a body as its operators, a tensor as its contents."""
    if isinstance(value, Graph):
        return ", ".join(op.type for op in value.sorted_ops()) or "no ops"
    if isinstance(value, Tensor):
        return contents(value)
    if isinstance(value, list):
        entries: list[Any] = value[:MOST_LETTERS]  # pyright: ignore[reportUnknownVariableType]
        return f"[{', '.join(map(plain, entries))}]"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value) if isinstance(value, SAID_AS_THEY_ARE) else type(value).__name__
