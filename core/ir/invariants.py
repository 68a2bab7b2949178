"""Invariants of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import onnx

from ..errors import GraphError
from .op import Op
from .values import Value

if TYPE_CHECKING:
    from .graph import Graph


def check_invariants(graph: Graph, by_type: Mapping[str, Mapping[Op, None]]) -> None:
    """Raise GraphError unless edges and indexes are consistent, outputs are defined and there is no cycle. O(V + E).

    Consumers are checked only from the outermost graph, since all subgraphs count.
    """
    ops = list(graph.ops())
    for op in ops:
        if op.graph is not graph or op not in by_type.get(op.type, ()):
            raise GraphError(f"{op.label} is not in the index of its graph")
        for v in op.outputs:
            if v.producer is not op:
                raise GraphError(f"{op.label} does not produce {v.name}, which it lists")
        for sub in op.subgraphs:
            if sub.owner is not op:
                raise GraphError(f"a subgraph of {op.label} has another owner")
            sub.validate()
    if sum(map(len, by_type.values())) != len(ops):
        raise GraphError("the op-type index is stale")
    _check_constants(graph)
    _check_names_and_outputs(graph)
    if graph.owner is None:
        _check_edges(graph)
    graph.sorted_ops()


def defined_values(graph: Graph) -> Iterator[Value]:
    """The values that this graph defines: inputs, constants and outputs of its ops."""
    yield from dict.fromkeys((*graph.inputs, *graph.initializers, *graph.sparse_initializers))
    for op in graph.ops():
        yield from op.outputs


def _check_constants(graph: Graph) -> None:
    for v in graph.initializers:
        if v.tensor is None:
            raise GraphError(f"initializer {v.name} has no tensor")
        if v.producer is not None:
            raise GraphError(f"initializer {v.name} is produced by {v.producer.label}")
    for v in (v for op in graph.ops() for v in op.outputs):
        if v.tensor is not None and v.producer is not None and v.producer.type != "Constant":
            raise GraphError(f"{v.name} is a constant, and produced by {v.producer.label}")


def _check_names_and_outputs(graph: Graph) -> None:
    names = Counter(v.name for v in defined_values(graph) if v.name)
    twice = next((name for name, n in names.items() if n > 1), None)
    if twice is not None:
        raise GraphError(f"two values are named {twice}")
    outputs = set(graph.outputs)
    for v in {*outputs, *defined_values(graph)}:
        if graph.is_output(v) != (v in outputs):
            raise GraphError(f"the graph's outputs and their index disagree about {v.name}")
    if graph.owner is None:
        declared = [onnx.ValueInfoProto.FromString(info).name for info in graph.declared.outputs]
        if declared != [v.name for v in graph.outputs]:
            raise GraphError(f"the outputs are {', '.join(v.name for v in graph.outputs)}, not {', '.join(declared)}")


def _check_edges(root: Graph) -> None:
    """Raise GraphError unless every value that is read is defined there, and its consumers are exactly its readers."""
    graphs = list(root.with_subgraphs())
    home = {v: g for g in graphs for v in defined_values(g)}
    users: dict[Value, set[Op]] = {v: set() for v in home}
    for g in graphs:
        visible = set(_enclosing_graphs(g))
        for v, user in ((v, op) for op in g.ops() for v in op.inputs if v is not None):
            if home.get(v) not in visible:
                raise GraphError(f"{v.name} is read by {user.label}, but comes from nowhere")
            users[v].add(user)
        for v in g.outputs:
            if home.get(v) not in visible:
                raise GraphError(f"output {v.name} is gone")
            if g.owner is not None and home[v] is not g:
                users[v].add(g.owner)
    for v, expected in users.items():
        known = set(v.consumers)
        for op in known ^ expected:
            knows = "counts as a user of" if op in known else "reads, unknown to it,"
            raise GraphError(f"{op.label} {knows} {v.name}")


def _enclosing_graphs(graph: Graph) -> Iterator[Graph]:
    """The graph and those around it."""
    yield graph
    while graph.owner is not None:
        graph = graph.owner.graph
        yield graph
