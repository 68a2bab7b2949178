"""Ops and their attributes as data, and what of them changed."""

from __future__ import annotations

from math import isfinite
from typing import Any, cast

import numpy as np
import onnx

from ..io.provenance import RULE
from ..ir import schemas
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.tensor import Tensor
from .attributes import encoded, node_of
from .difference import Change, Node, Plain
from .side import asked_outputs, ops_in, trimmed
from .weights import constant_type

FEW = 16  # elements of a tensor that are told
DEFAULT = " (default)"


def node(op: Op) -> Node:
    """An op as data."""
    inputs = ["" if v is None else v.name for v in trimmed(op.inputs)]
    outputs = [v.name for v in op.outputs[: len(asked_outputs(op))]]
    attributes = {name: plain(op.attrs[name]) for name in sorted(op.attrs)}
    return Node(op.type, op.domain, op.name, inputs, outputs, attributes, ops_in(op))


def rule_of(op: Op) -> str | None:
    """The rule of passwright that made an op, if it says so."""
    return next((p.value for p in node_of(op).metadata_props if p.key == RULE), op.by or None)


def attribute_changes(a: Op, b: Op) -> list[Change]:
    """The attributes that differ, and the outputs asked for if those do."""
    ours, theirs = encoded(a, b.version), encoded(b, a.version)
    names = [name for name in sorted(ours.keys() | theirs.keys()) if ours.get(name) != theirs.get(name)]
    changes = [Change(name, _written(a, name), _written(b, name)) for name in names]
    bodies = [set(bodies_of(op)) for op in (a, b)]
    changes += [Change(name, "a graph", None) for name in sorted(bodies[0] - bodies[1])]
    changes += [Change(name, None, "a graph") for name in sorted(bodies[1] - bodies[0])]
    asked = [asked_outputs(op) for op in (a, b)]
    if asked[0] != asked[1]:
        changes.append(Change("outputs", *([v.name for v in op.outputs] for op in (a, b))))
    return changes


def bodies_of(op: Op) -> dict[str, Graph]:
    """The subgraphs of an op by attribute, numbered where one attribute holds several."""
    found: dict[str, Graph] = {}
    for name, held in sorted(op.attrs.items()) if op.subgraphs else ():
        if isinstance(held, Graph):
            found[name] = held
        elif isinstance(held, list):
            entries = cast("list[object]", held)
            found.update((f"{name}[{i}]", g) for i, g in enumerate(entries) if isinstance(g, Graph))
    return found


def _written(op: Op, name: str) -> Plain:
    """An attribute as data; where it is not written, its default, as a text that says so."""
    if name in op.attrs:
        return plain(op.attrs[name])
    default = schemas.attribute_default(op.type, op.domain, op.version, name)
    return None if default is None else f"{plain(default)}{DEFAULT}"


def plain(value: Any) -> Plain:
    """An attribute's value as JSON has it."""
    if isinstance(value, list):
        return [plain(v) for v in cast("list[Any]", value)]
    if isinstance(value, float):
        return float(f"{value:.7g}") if isfinite(value) else str(value)  # the shortest text of a 32-bit float
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Tensor):
        return _tensor_text(value)
    if isinstance(value, Graph):
        return "a graph"
    if isinstance(value, onnx.AttributeProto):
        return f"@{value.ref_attr_name}"
    return " ".join(str(value).split())


def _tensor_text(tensor: Tensor) -> str:
    kind = constant_type(tensor)
    if tensor.size > FEW:
        return kind
    elements = ", ".join(str(x) for x in np.asarray(tensor.array).reshape(-1).tolist())
    return f"{kind} {{{elements}}}"
