"""Values, ops and attributes in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import onnx

from ..core.ir import op_schemas
from ..core.ir.graph import Graph
from ..core.ir.op import Op
from ..core.ir.subgraphs import enclosing_op
from ..core.ir.tensor import Tensor
from ..core.ir.values import Value
from ..core.support.suggestions import did_you_mean

MAX_LISTED = 4
MAX_VALUE_LENGTH = 60  # characters of an attribute


def ordinal(index: int) -> str:
    """`first` for 0."""
    return ("first", "second", "third")[index] if index < 3 else f"{index + 1}th"


def join_alternatives(names: Sequence[str]) -> str:
    """One of several."""
    return " or ".join(names)


def join_truncated(texts: Sequence[str]) -> str:
    """Some of many."""
    return ", ".join([*texts[:MAX_LISTED], *(["..."] if len(texts) > MAX_LISTED else [])])


def describe_origin(value: Value | None, graph: Graph) -> str:
    """Where a value that is read in `graph` comes from: completes `x ...`."""
    what = describe_producer(value, graph)
    return f"comes from {what}" if value is not None and value.producer is not None else f"is {what}"


def missing_operator_reason(types: Sequence[str], domain: str, version: int) -> str:
    """That none of some operators is there at an opset version, and why."""
    came = op_schemas.since_versions(domain)
    if len(types) == 1 and types[0] not in came:
        return f"no operator is named {types[0]}{did_you_mean(types[0], came)}"
    since = min((came[t] for t in types if t in came), default=0)
    later = f"; it came with opset {since}" if since > version else ""
    return f"{join_alternatives(types)} does not exist at opset {version}{later}"


def describe_producer(value: Value | None, graph: Graph) -> str:
    """The op that makes a value, or what it is else."""
    if value is None:
        return "left out"
    maker = value.producer
    if maker is not None:
        return maker.label if maker.graph is graph else f"{maker.label}, outside this body"
    if value.tensor is not None:
        return "a constant"
    if value in graph.input_defaults:
        return "an input with a default, which users may override"
    if value in graph.inputs:
        return f"an input of the {'graph' if graph.owner is None else 'body'}"
    if value in graph.sparse_initializers:
        return "a sparse constant"
    outer = graph.owner.graph if graph.owner is not None else None
    return f"{describe_producer(value, outer)}, outside this body" if outer is not None else "made by nothing"


def describe_enclosing_body(graph: Graph) -> str:
    """In whose body a graph is, with a comma before it; nothing for the main graph."""
    return f", inside {graph.owner.label}" if graph.owner is not None else ""


def external_uses(value: Value, graph: Graph, ops: Sequence[Op]) -> list[str]:
    """What reads `value` of `graph` but `ops`."""
    found: list[str] = []
    for user in value.consumers:
        if user in ops:
            continue
        outer = enclosing_op(graph, user)
        if outer is not None and (outer is not user or value not in user.inputs):
            found.append(f"{value.name} is read inside the body of {outer.label}")
        else:
            found.append(f"{value.name} is also used by {user.label}")
    return found


def describe_binding(bound: Any) -> str:
    """What a pattern's variable stands for: the type of a value, an attribute, an op."""
    if isinstance(bound, Value):
        return describe_type(bound)
    if isinstance(bound, Op):
        return bound.label
    if isinstance(bound, tuple):
        values = cast("tuple[Any, ...]", bound)
        return f"({join_truncated([describe_binding(v) for v in values])})" if values else "nothing"
    return "left out" if bound is None else format_attribute_value(bound)


def describe_type(value: Value) -> str:
    """Such as `float[N,4]`, `constant int64[1] [2]`, `float of unknown shape`."""
    if value.type is not None:
        return str(value.type.WhichOneof("value")).removesuffix("_type").replace("_", " ")
    name = onnx.TensorProto.DataType.Name(value.known_dtype).lower() if value.known_dtype else "unknown type"
    shape = value.known_shape
    if shape is None:
        return f"{name} of unknown shape"
    text = f"{name}[{','.join('?' if d is None else str(d).replace(' ', '') for d in shape)}]"
    if value.tensor is None:
        return text
    return f"constant {text}{_format_elements(value.tensor)}"


def _format_elements(tensor: Tensor) -> str:
    if tensor.size > MAX_LISTED or tensor.is_mapped or tensor.is_external:
        return ""
    return f" {format_attribute_value(tensor.array.tolist())}"


def format_attribute_value(value: Any) -> str:
    """An attribute's value, cut short."""
    if isinstance(value, Tensor):
        return f"a tensor of {list(value.dims)}"
    if isinstance(value, Graph):
        return "a graph"
    if isinstance(value, float):
        text = f"{value:.7g}"
        return text if any(c in text for c in ".eni") else f"{text}.0"
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        return f"[{join_truncated([format_attribute_value(v) for v in entries])}]"
    text = " ".join(repr(value).split())
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[: MAX_VALUE_LENGTH - 3]}..."
