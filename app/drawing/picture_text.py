"""What a picture says of values, constants and attributes: a few letters each, and weights unread."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto

from ...core import Graph, Op, Tensor, Value
from ...core.ir import op_schemas
from ...core.ir.dims import Shape

MAX_CHARS, MAX_LINES, MAX_ELEMENTS = 28, 4, 4
STR_TYPES = (str, int, float, complex, np.generic)


def cut_end(text: str) -> str:
    """A text, cut short where it is long."""
    return text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS - 1]}…"


def cut_start(text: str) -> str:
    """The end of a long text: in names, it is there that exporters differ."""
    return text if len(text) <= MAX_CHARS else f"…{text[1 - MAX_CHARS :]}"


def limit_lines(lines: list[str]) -> list[str]:
    """The first of many lines, and how many more there are."""
    return lines if len(lines) <= MAX_LINES else [*lines[: MAX_LINES - 1], f"and {len(lines) - MAX_LINES + 1} more"]


def qualified_op_type(domain: str, op_type: str) -> str:
    """The operator, with its domain unless that is the standard one."""
    return f"{domain}::{op_type}" if domain else op_type


def type_text(value: Value) -> str:
    """`float[N,4]`; empty where nothing is known."""
    return _type(value.known_dtype, value.known_shape)


def declared_type_text(value: Value) -> str:
    """As `type_text`, of what is written down: nothing is inferred."""
    return _type(*value.recorded_type)


def _type(dtype: int, shape: Shape | None) -> str:
    if dtype == 0:
        return ""
    dims = "..." if shape is None else ",".join("?" if d is None else str(d) for d in shape)
    return f"{element_type(dtype)}[{dims}]"


def element_type(dtype: int) -> str:
    """`float`, `int64`, as in ONNX's text form."""
    return TensorProto.DataType.Name(dtype).lower()


def tensor_text(tensor: Tensor) -> str:
    """The elements of a very small constant; of any other one, type and shape."""
    small = prod(tensor.dims) <= MAX_ELEMENTS and tensor.dtype != TensorProto.STRING
    if not small or tensor.is_external:
        return f"{element_type(tensor.dtype)}[{','.join(map(str, tensor.dims))}]"
    elements = ", ".join(attribute_text(x) for x in tensor.array.reshape(-1).tolist())
    return f"[{elements}]" if tensor.dims else elements


def attribute_lines(op: Op) -> list[str]:
    """The attributes that are not at their default, one a line."""
    defaults = {name: op_schemas.attribute_default(op.type, op.domain, op.version, name) for name in op.attrs}
    return limit_lines(
        [
            f"{name}: {attribute_text(value)}"
            for name, value in op.attrs.items()
            if not is_default(value, defaults[name])
        ]
    )


def is_default(value: Any, default: Any) -> bool:
    """Whether an attribute is at its default; tensors and bodies have none."""
    return default is not None and bool(value == default)


def attribute_text(value: Any) -> str:
    """An attribute's value: numbers in few digits, a body as its operators, a tensor as its contents."""
    if isinstance(value, Graph):
        return ", ".join(op.type for op in value.sorted_ops()) or "no ops"
    if isinstance(value, Tensor):
        return tensor_text(value)
    if isinstance(value, list):
        entries: list[Any] = value[:MAX_CHARS]  # pyright: ignore[reportUnknownVariableType]
        return f"[{', '.join(map(attribute_text, entries))}]"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value) if isinstance(value, STR_TYPES) else type(value).__name__
