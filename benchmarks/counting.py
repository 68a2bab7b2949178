"""Nodes of a model that its outputs depend on: local functions inlined, bodies included, Constant ops left out."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import inliner


def live_nodes(model: onnx.ModelProto) -> int:
    """How many nodes are left of a model."""
    if model.functions:
        bare = onnx.ModelProto()
        bare.CopyFrom(model)
        model = inliner.inline_local_functions(bare)
    return _live(model.graph)


def _live(graph: onnx.GraphProto) -> int:
    makers = {name: node for node in graph.node for name in node.output if name}
    wanted, seen, count = [o.name for o in graph.output], set[int](), 0
    while wanted:
        node = makers.get(wanted.pop())
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        count += node.op_type != "Constant"
        wanted += node.input
        for body in bodies(node):
            count += _live(body)
            wanted += [name for inner in body.node for name in read_by(inner)] + [o.name for o in body.output]
    return count


def bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in a node's attributes."""
    for a in node.attribute:
        yield from [a.g] if a.HasField("g") else a.graphs


def read_by(node: onnx.NodeProto) -> Iterator[str]:
    """All names that a node and the graphs in it read."""
    yield from node.input
    for body in bodies(node):
        yield from (o.name for o in body.output)
        for inner in body.node:
            yield from read_by(inner)
