"""Values of a model as its outputs, also values of the bodies of If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any

import onnx
from onnx import TensorProto, helper

from ..ir.dtypes import FLOATS
from ..ir.op_schemas import canonical_domain
from ..serialization.proto_queries import all_nodes, named_subgraphs, opset_versions, subgraphs
from .statistics import FAR

SUMMARY = 6
"""Numbers of a summary: the greatest of -x and x among the numbers near zero, the same among those far from it
(`statistics.FAR`), 1 if any is NaN, and the count of elements. So the greatest of each sums up several summaries, with
the greatest count, and zeros sum up nothing."""
NEW_OPS_OPSET = 9  # with Where, IsNaN and Scan without batches
FREE_RANK_OPSET = 11  # where the branches of an If may differ in rank; before, they have summaries
AXES_INPUT_OPSET = 18  # where the axes of reductions are an input


@dataclass(frozen=True, slots=True)
class Exposed:
    """An output that holds a value of the model, or the summary of one."""

    output: str
    dtype: int  # of TensorProto.DataType; 0 where unknown
    is_summary: bool = False


@dataclass(slots=True)
class _Exposure:
    used: set[str]
    names: frozenset[str] = frozenset()
    dtypes: Mapping[str, int] = field(default_factory=dict[str, int])
    opset: int = 0
    number: int = 0

    def fresh_name(self, stem: str) -> str:
        while True:
            self.number += 1
            name = f"{stem}_exposed{self.number}"
            if name not in self.used:
                return name

    def node(self, graph: onnx.GraphProto, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Append a node; the name of its output."""
        output = self.fresh_name(op_type.lower())
        graph.node.append(helper.make_node(op_type, inputs, [output], **attributes))
        return output

    def constant(self, graph: onnx.GraphProto, dtype: int, shape: list[int], elements: list[float]) -> str:
        return self.node(graph, "Constant", value=helper.make_tensor("", dtype, shape, elements))


def expose(model: onnx.ModelProto, names: Iterable[str], dtypes: Mapping[str, int]) -> dict[str, list[Exposed]]:
    """Make values the only outputs of `model`, in place, without the nodes that none of them needs.

    A value of a branch of an If is empty where the other one is taken; of a value of a Loop or Scan body there is a
    summary of all iterations. `dtypes` are the element types of the values; bodies are searched for floats only, and
    from opset 9 on. A name that several graphs define has an output for each. Returns the outputs by name.
    """
    graph = model.graph
    exposure = _Exposure(_all_names(graph), frozenset(names), dtypes, opset_versions(model).get("", 0))
    found: dict[str, list[Exposed]] = {}
    for name, exposed in _exposed_in(graph, exposure):
        found.setdefault(name, []).append(exposed)
    outputs = dict.fromkeys(e.output for exposed in found.values() for e in exposed)
    del graph.output[:]
    graph.output.extend(onnx.ValueInfoProto(name=output) for output in outputs)
    keep_required_nodes(graph)
    return found


def keep_required_nodes(graph: onnx.GraphProto) -> None:
    """Remove the nodes that no output needs, in place."""
    needed = {o.name for o in graph.output}
    kept: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if needed.isdisjoint(node.output):
            continue
        kept.append(node)
        needed.update(*(inner.input for inner in all_nodes([node])))
        needed.update(o.name for inner in all_nodes([node]) for g in subgraphs(inner) for o in g.output)
    if len(kept) < len(graph.node):
        kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in reversed(kept)]
        del graph.node[:]
        graph.node.extend(kept)


def output_shapes(model: onnx.ModelProto, exposed: Iterable[Exposed]) -> dict[str, str]:
    """Replace the exposed outputs by their shapes, in place; returns the new outputs by the former."""
    graph = model.graph
    exposure = _Exposure(_all_names(graph))
    found = {e.output: exposure.node(graph, "Shape", e.output) for e in exposed}
    del graph.output[:]
    graph.output.extend(onnx.ValueInfoProto(name=shape) for shape in found.values())
    return found


def _all_names(graph: onnx.GraphProto) -> set[str]:
    graphs = [graph, *(g for node in all_nodes(graph.node) for g in subgraphs(node))]
    found = {name for g in graphs for node in g.node for name in (*node.input, *node.output)}
    return found | {v.name for g in graphs for v in (*g.input, *g.output, *g.initializer)}


def _exposed_in(graph: onnx.GraphProto, exposure: _Exposure) -> list[tuple[str, Exposed]]:
    """The values of a graph, and those of its subgraphs as outputs of the nodes that hold them."""
    defined = chain((v.name for v in graph.input), (i.name for i in graph.initializer), *(n.output for n in graph.node))
    own = dict.fromkeys(name for name in defined if name in exposure.names)
    found = [(name, Exposed(name, exposure.dtypes.get(name, 0))) for name in own]
    for node in list(graph.node):
        lift = LIFTS.get(node.op_type)
        if lift is None or canonical_domain(node.domain) or exposure.opset < NEW_OPS_OPSET:
            continue
        for attribute, body in named_subgraphs(node):
            inside = [(name, e) for name, e in _exposed_in(body, exposure) if e.dtype in FLOATS]
            found += [(name, lift(exposure, graph, node, attribute, inner)) for name, inner in inside]
    return found


def _lift_from_if(
    exposure: _Exposure, graph: onnx.GraphProto, node: onnx.NodeProto, attribute: str, inner: Exposed
) -> Exposed:
    """The value of a branch as an output of its If; nothing, or a summary of nothing, from the other branch."""
    branches = dict(named_subgraphs(node))
    if exposure.opset < FREE_RANK_OPSET:
        inner = _summarized(exposure, branches[attribute], inner)
    output = exposure.fresh_name(inner.output)
    shape = [SUMMARY] if inner.is_summary else [0]
    for name, branch in branches.items():
        if name == attribute:
            result = exposure.node(branch, "Identity", inner.output)
        else:
            result = exposure.constant(branch, inner.dtype, shape, [0.0] * shape[0])
        branch.output.append(onnx.ValueInfoProto(name=result))
    _append_output(exposure, node, len(branches[attribute].output) - 1, output)
    return Exposed(output, inner.dtype, inner.is_summary)


def _lift_from_loop(
    exposure: _Exposure, graph: onnx.GraphProto, node: onnx.NodeProto, attribute: str, inner: Exposed
) -> Exposed:
    """The summary of a value in all iterations: those of each are a scan output."""
    body = dict(named_subgraphs(node))[attribute]
    row = _summarized(exposure, body, inner)
    output = exposure.fresh_name(inner.output)
    _append_output(exposure, node, len(body.output) - (node.op_type == "Loop"), output)
    body.output.append(onnx.ValueInfoProto(name=exposure.node(body, "Identity", row.output)))
    for a in node.attribute:
        if a.name in {"scan_output_axes", "scan_output_directions"}:
            a.ints.append(0)
    zeros = exposure.constant(graph, row.dtype, [1, SUMMARY], [0.0] * SUMMARY)
    rows = exposure.node(graph, "Concat", output, zeros, axis=0)
    return Exposed(_greatest(exposure, graph, rows), row.dtype, is_summary=True)


def _append_output(exposure: _Exposure, node: onnx.NodeProto, output_count: int, output: str) -> None:
    """Append an output to a node, after its `output_count` others: those omitted get names, as onnxruntime needs."""
    omitted = range(output_count - len(node.output))
    names = [name or exposure.fresh_name("omitted") for name in (*node.output, *("" for _ in omitted))]
    del node.output[:]
    node.output.extend([*names, output])


def _greatest(exposure: _Exposure, graph: onnx.GraphProto, rows: str) -> str:
    """The greatest elements along the first axis."""
    if exposure.opset < AXES_INPUT_OPSET:
        return exposure.node(graph, "ReduceMax", rows, axes=[0], keepdims=0)
    axes = exposure.constant(graph, TensorProto.INT64, [1], [0])
    return exposure.node(graph, "ReduceMax", rows, axes, keepdims=0)


def _summarized(exposure: _Exposure, body: onnx.GraphProto, inner: Exposed) -> Exposed:
    """The summary of a value in its body."""
    if inner.is_summary:
        return inner
    dtype = TensorProto.DOUBLE if inner.dtype == TensorProto.DOUBLE else TensorProto.FLOAT
    flat = exposure.constant(body, TensorProto.INT64, [1], [-1])
    x = exposure.node(body, "Cast", exposure.node(body, "Reshape", inner.output, flat), to=dtype)
    count = exposure.node(body, "Cast", exposure.node(body, "Shape", x), to=dtype)
    zero, far = (exposure.constant(body, dtype, [1], [number]) for number in (0.0, FAR[0]))
    x = exposure.node(body, "Concat", x, zero, axis=0)  # never empty
    is_near = exposure.node(body, "Less", exposure.node(body, "Abs", x), far)
    is_nan = exposure.node(body, "IsNaN", x)
    near = exposure.node(body, "Where", is_near, x, zero)
    is_near_or_nan = exposure.node(body, "Or", is_near, is_nan)
    far = exposure.node(body, "Where", is_near_or_nan, zero, x)
    rows = [exposure.node(body, "Neg", near), near, exposure.node(body, "Neg", far), far]
    rows.append(exposure.node(body, "Cast", is_nan, to=dtype))
    greatest = (exposure.node(body, "ReduceMax", row, keepdims=1) for row in rows)
    return Exposed(exposure.node(body, "Concat", *greatest, count, axis=0), dtype, is_summary=True)


Lift = Callable[[_Exposure, onnx.GraphProto, onnx.NodeProto, str, Exposed], Exposed]
LIFTS: Mapping[str, Lift] = MappingProxyType({"If": _lift_from_if, "Loop": _lift_from_loop, "Scan": _lift_from_loop})
