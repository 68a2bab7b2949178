"""Decompositions by the specification: operators that it defines as functions, as the ops of their bodies.

Where ONNX defines an operator as a function, its body is the meaning of the operator, in versions for opsets and, for
some operators, for attributes and types of inputs. A body is written by the builder, which moves inputs and attributes
to the opset of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ..core import MatchFailure, Op, RewriteBuilder, Rule, Value, require
from ..core.ir.op import attribute_value
from ..core.ir.op_schemas import ONNX_DOMAIN, latest_opset_version, since_versions
from ..core.ir.tensor import Tensor, first_line
from ..core.processes.onnx_calls import OnnxError, function_body
from ..core.rewriting.pattern import ANY_INPUTS, OpPattern
from ..core.rewriting.rules import ROUNDING
from ..core.transform.node_conversion import bare_copy, type_of
from ..core.transform.opset_lowering import FIRST_WITH_SOFTMAX_OF_ONE_AXIS, LOWEST, SOFTMAX_LIKE

MAX_CONVERTED = 64  # elements of a constant
NUMBERS = {"value_float": "float32", "value_floats": "float32", "value_int": "int64", "value_ints": "int64"}
"""The attributes of Constant for numbers, with their NumPy types."""


@cache
def function_rules() -> tuple[Rule, ...]:
    """The rules that replace standard operators by their functions."""
    return tuple(_function_rule(op_type) for op_type in sorted(since_versions(ONNX_DOMAIN)) if _has_function(op_type))


def _function_rule(op_type: str) -> Rule:
    pattern = OpPattern((op_type,), ONNX_DOMAIN, ANY_INPUTS, (), "op")
    equation = f"{op_type} => the function by which the specification defines it"
    return Rule(f"expand_{op_type}", equation, (pattern,), expand, False, ROUNDING, parameters=("op",))


def _has_function(op_type: str) -> bool:
    """Whether an opset defines the operator as a function."""
    version = latest_opset_version(ONNX_DOMAIN)
    while version >= since_versions(ONNX_DOMAIN)[op_type]:
        spec: Any = onnx.defs.get_schema(op_type, version, ONNX_DOMAIN)  # the types of onnx lack its functions
        if spec.function_opset_versions or spec.context_dependent_function_opset_versions:
            return True
        version = spec.since_version - 1
    return False


def expand(g: RewriteBuilder, op: Op) -> tuple[Value | None, ...]:
    """The outputs of an op, computed by the body of its function.

    An attribute that is an input of the function, which came later, is passed as such.
    """
    body = _body_of(op)
    given = {name: v for name, v in zip(body.input, op.inputs, strict=False) if v is not None}
    later = {name: g.const(op.attrs[name]) for name in body.input if name in op.attrs}
    values: dict[str, Value | None] = {"": None, **dict.fromkeys(body.input), **given, **later}
    for node in body.node:
        made = _written(g, op, node, [values[name] for name in node.input])
        values.update(zip(node.output, made, strict=True))
    return tuple(values.get(name) for name in body.output)[: len(op.outputs)]


def _body_of(op: Op) -> onnx.FunctionProto:
    """The function of an op: for the opset of the model, or else for the first one after it."""
    spec = _with_function(op)
    plain: list[int] = list(spec.function_opset_versions)
    if plain:
        return onnx.FunctionProto.FromString(spec.get_function_with_opset_version(_nearest(plain, op.version)))
    node, hidden = bare_copy(op)
    require(not hidden, "it holds a tensor or a subgraph")
    types = [type_of(v) for v in op.inputs]
    require(all(t or v is None for t, v in zip(types, op.inputs, strict=True)), "the types of its inputs are unknown")
    try:
        found = function_body(
            spec, _nearest(list(spec.context_dependent_function_opset_versions), op.version), node, types
        )
    except OnnxError as e:
        raise MatchFailure(f"its function is not known: {first_line(e)}") from e
    require(found, "its function is not defined for these inputs")
    return onnx.FunctionProto.FromString(found)


def _with_function(op: Op) -> Any:
    """The schema of an op, or the first one after it that has a function; an operator may have got one later."""
    known = op.version >= LOWEST and (op.type not in SOFTMAX_LIKE or op.version >= FIRST_WITH_SOFTMAX_OF_ONE_AXIS)
    require(known, f"{op.type} of opset {op.version} means something else than its function")
    found: Any = op.schema
    require(found is not None, "onnx does not know the operator")
    for version in range(op.version, latest_opset_version(op.domain) + 1):
        spec: Any = onnx.defs.get_schema(op.type, version, op.domain)
        if spec.function_opset_versions or spec.context_dependent_function_opset_versions:
            return spec
    raise MatchFailure("no opset defines it as a function")


def _nearest(versions: list[int], version: int) -> int:
    return max((v for v in versions if v <= version), default=min(versions))


def _written(
    g: RewriteBuilder, op: Op, node: onnx.NodeProto, inputs: Sequence[Value | None]
) -> tuple[Value | None, ...]:
    """The values of a node in the body of the function of an op."""
    attributes: dict[str, Any] = {}
    for a in node.attribute:
        require(not a.HasField("g"), f"its function has a body in {node.op_type}")
        value = op.attr(a.ref_attr_name) if a.ref_attr_name else attribute_value(a)
        if value is not None:
            attributes[a.name] = value
    if node.op_type == "Constant":
        ((kind, value),) = attributes.items()
        return (g.const(value.array if isinstance(value, Tensor) else np.asarray(value, NUMBERS.get(kind))),)
    x, like = (*inputs, None, None)[:2]
    if node.op_type in {"Cast", "CastLike"} and x is not None:
        dtype = attributes["to"] if like is None else like.dtype
        return (_cast(g, x, dtype),)
    operator = getattr(g.domain(node.domain), node.op_type)
    return operator(*inputs, outputs=len(node.output), **attributes)


def _cast(g: RewriteBuilder, x: Value, dtype: int) -> Value:
    """A value in another type; a constant is converted at once."""
    if x.known_dtype == dtype:
        return x
    if x.is_const and x.const.size <= MAX_CONVERTED:
        return g.const(x.const.astype(helper.tensor_dtype_to_np_dtype(dtype)))
    return g.Cast(x, to=dtype)
