"""Ops and their attributes as data, and the differences between the attributes of two ops."""

from __future__ import annotations

from math import isfinite
from typing import Any, cast

import onnx

from ...core.ir import op_schemas
from ...core.ir.graph import Graph, subgraphs_by_attribute
from ...core.ir.op import Op, without_trailing_omitted
from ...core.ir.tensor import Tensor
from ...core.serialization.node_attributes import bare_node
from ...core.serialization.provenance import read_provenance
from .constants import constant_type, held_constant
from .diff_result import Delta, Node, Plain
from .numbering import output_mask, significant_attributes

MAX_SHOWN_ELEMENTS = 16  # of a tensor
DEFAULT_SUFFIX = " (default)"


def op_count(op: Op) -> int:
    """The number of ops in an op and its bodies."""
    inner = (o for sub in op.subgraphs for g in sub.with_subgraphs() for o in g.ops())
    return 1 + sum(held_constant(o) is None for o in inner)


def node_data(op: Op) -> Node:
    """An op as data."""
    inputs = ["" if v is None else v.name for v in without_trailing_omitted(op.inputs)]
    outputs = without_trailing_omitted(v.name for v in op.outputs)
    attributes = {name: plain_value(op.attrs[name]) for name in sorted(op.attrs)}
    return Node(op.type, op.domain, op.name, inputs, outputs, attributes, op_count(op))


def rule_of(op: Op) -> str | None:
    """The rule of passwright that made an op, according to its metadata; None if there is none."""
    return read_provenance(bare_node(op))[0] or op.by or None


def attribute_changes(a: Op, b: Op) -> list[Delta]:
    """The attributes that differ, and the outputs if different ones are present."""
    ours, theirs = significant_attributes(a, b.version), significant_attributes(b, a.version)
    names = [name for name in sorted(ours.keys() | theirs.keys()) if ours.get(name) != theirs.get(name)]
    changes = [Delta(name, _attribute_data(a, name), _attribute_data(b, name)) for name in names]
    before, after = subgraphs_by_attribute(a).keys(), subgraphs_by_attribute(b).keys()
    changes += [Delta(name, "a graph", None) for name in sorted(before - after)]
    changes += [Delta(name, None, "a graph") for name in sorted(after - before)]
    if output_mask(a) != output_mask(b):
        changes.append(Delta("outputs", *([v.name for v in op.outputs] for op in (a, b))))
    return changes


def _attribute_data(op: Op, name: str) -> Plain:
    """An attribute as data; if it is absent, its default, marked as such."""
    if name in op.attrs:
        return plain_value(op.attrs[name])
    default = op_schemas.attribute_default(op.type, op.domain, op.version, name)
    return None if default is None else f"{plain_value(default)}{DEFAULT_SUFFIX}"


def plain_value(value: Any) -> Plain:
    """An attribute's value for JSON."""
    if isinstance(value, list):
        return [plain_value(v) for v in cast("list[Any]", value)]
    if isinstance(value, float):
        return float(f"{value:.7g}") if isfinite(value) else str(value)  # the shortest text of a 32-bit float
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Tensor):
        few = value.size <= MAX_SHOWN_ELEMENTS
        return constant_type(value) + (f" {{{', '.join(map(str, value.array.ravel().tolist()))}}}" if few else "")
    if isinstance(value, Graph):
        return "a graph"
    if isinstance(value, onnx.AttributeProto):
        return f"@{value.ref_attr_name}"
    return " ".join(str(value).split())
