"""Nodes of a model that its outputs depend on: local functions inlined, bodies included, Constant ops left out."""

from __future__ import annotations

import onnx
from passwright.app.measure.model_stats import inlined, is_constant_node
from passwright.core.serialization.proto_queries import all_nodes, subgraphs


def count_live_nodes(model: onnx.ModelProto) -> int:
    """Count the nodes of a model."""
    return _count_live(inlined(model).graph)


def _count_live(graph: onnx.GraphProto) -> int:
    makers = {name: node for node in graph.node for name in node.output if name}
    wanted, seen, count = [o.name for o in graph.output], set[int](), 0
    while wanted:
        node = makers.get(wanted.pop())
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        inner = [*all_nodes([node])]
        wanted += (name for n in inner for name in n.input)
        wanted += (o.name for n in inner for body in subgraphs(n) for o in body.output)
        count += (not is_constant_node(node)) + sum(map(_count_live, subgraphs(node)))
    return count
