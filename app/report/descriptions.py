"""Descriptions of passes, values, ops and attributes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.ir.tensor import Tensor, dims_text, element_type
from ...core.ir.values import Value
from ...core.run.pipeline import Fixpoint, Pass, Pipeline, RulePass
from ...core.run.transforms import definition

MAX_LISTED = 4
MAX_VALUE_LENGTH = 60  # characters of an attribute


def ordinal(index: int) -> str:
    """The ordinal of an index: `first` for 0."""
    return ("first", "second", "third")[index] if index < 3 else f"{index + 1}th"


def join_truncated(texts: Sequence[str]) -> str:
    """Join at most MAX_LISTED texts."""
    return ", ".join([*texts[:MAX_LISTED], *(["..."] if len(texts) > MAX_LISTED else [])])


def pass_doc(p: Pass) -> str:
    """The docstring of a pass; for a group, the names of its passes; empty for rules, which have their own."""
    if isinstance(p, Pipeline | Fixpoint | RulePass):
        return "" if isinstance(p, RulePass) else ", ".join(q.name for q in p.passes)
    from ...core.plugins.networkx_pass import NetworkxPass  # noqa: PLC0415 - seldom needed

    if isinstance(p, NetworkxPass):
        return inspect.getdoc(p.rewrite) or ""
    written = cast(type[object], type(definition(p)))
    doc = inspect.getdoc(written) or ""
    return "" if doc.startswith(f"{written.__name__}(") else doc  # a dataclass without a docstring has its signature


def describe_origin(value: Value | None, graph: Graph) -> str:
    """The origin of a value that is read in `graph`, as a predicate."""
    producer = describe_producer(value, graph)
    return f"comes from {producer}" if value is not None and value.producer is not None else f"is {producer}"


def describe_producer(value: Value | None, graph: Graph) -> str:
    """The op that produces a value, or its kind."""
    if value is None:
        return "left out"
    op = value.producer
    if op is not None:
        return op.label if op.graph is graph else f"{op.label}, outside this body"
    if value.tensor is not None:
        return "a constant"
    if value in graph.input_defaults:
        return "an input with a default that callers may override"
    if value in graph.inputs:
        return f"an input of the {'graph' if graph.owner is None else 'body'}"
    if value in graph.sparse_initializers:
        return "a sparse constant"
    outer = graph.owner.graph if graph.owner is not None else None
    return f"{describe_producer(value, outer)}, outside this body" if outer is not None else "made by nothing"


def describe_binding(bound: Any) -> str:
    """Describe the binding of a pattern variable: the type of a value, an attribute, or an op."""
    if isinstance(bound, Value):
        return describe_type(bound)
    if isinstance(bound, Op):
        return bound.label
    if isinstance(bound, tuple):
        values = cast("tuple[Any, ...]", bound)
        return f"({join_truncated([describe_binding(v) for v in values])})" if values else "nothing"
    return "left out" if bound is None else format_attribute_value(bound)


def describe_type(value: Value) -> str:
    """Describe the type of a value: `float[N,4]`, `constant int64[1] [2]`, `float of unknown shape`."""
    if value.type is not None:
        return str(value.type.WhichOneof("value")).removesuffix("_type").replace("_", " ")
    name = element_type(value.known_dtype) if value.known_dtype else "unknown type"
    if value.known_shape is None:
        return f"{name} of unknown shape"
    text = name + dims_text(d if d is None else str(d).replace(" ", "") for d in value.known_shape)
    if value.tensor is None:
        return text
    if value.tensor.size > MAX_LISTED or value.tensor.mapped is not None or value.tensor.is_external:
        return f"constant {text}"
    return f"constant {text} {format_attribute_value(value.tensor.array.tolist())}"


def condition_text(want: Any) -> str:
    """Describe a pattern's condition on an attribute: the name of its function, or the location of its lambda."""
    function = getattr(want, "accepts", None) or want
    code = getattr(function, "__code__", None)
    name = getattr(function, "__name__", "a condition")
    if code is None or name != "<lambda>":
        return name
    return f"the condition at {Path(code.co_filename).name}:{code.co_firstlineno}"


def format_attribute_value(value: Any) -> str:
    """An attribute value in at most MAX_VALUE_LENGTH characters."""
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
