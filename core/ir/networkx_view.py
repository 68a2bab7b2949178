"""A networkx view of a Graph: adjacency computed from ops and values, without a copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import networkx as nx

from .op import Op
from .subgraphs import enclosing_op
from .values import Value

if TYPE_CHECKING:
    from .graph import Graph

Node = Op | Value


class NetworkxView(nx.DiGraph[Node] if TYPE_CHECKING else nx.DiGraph):
    """A frozen `networkx.DiGraph` over one graph: edges `value -> op -> value`, without data.

    A value that a subgraph captures has an edge to the op that holds the subgraph. The nodes are those of the moment
    at which the view was made, in topological order after inputs and constants; adjacency follows the graph.
    """

    def __init__(  # pyright: ignore[reportInconsistentConstructor] - networkx's own takes a backend
        self, graph: Graph | None = None
    ) -> None:
        base: Any = super()
        base.__init__()
        if graph is None:  # networkx makes empty graphs of the same class, for copies
            return
        nodes: dict[Node, dict[str, Any]] = {
            v: {} for v in (*graph.inputs, *graph.initializers, *graph.sparse_initializers)
        }
        for op in graph.sorted_ops():
            nodes.update({v: {} for v in (*op.inputs, *op.captures) if v is not None})
            nodes[op] = {}
            nodes.update({v: {} for v in op.outputs})
        nodes.update({v: {} for v in graph.outputs})
        self._node = nodes
        self._succ = _Adjacency(nodes, graph, successors)
        self._pred = _Adjacency(nodes, graph, predecessors)
        library: Any = nx
        library.freeze(self)

    def to_directed_class(self) -> type[nx.DiGraph[Node]]:
        """Copies are ordinary graphs."""
        return nx.DiGraph

    def to_undirected_class(self) -> type[nx.Graph[Node]]:
        """Copies are ordinary graphs."""
        return nx.Graph


class _Adjacency(Mapping[Node, dict[Node, dict[str, Any]]]):
    def __init__(self, nodes: Mapping[Node, object], graph: Graph, neighbors: Any) -> None:
        self._nodes, self._graph, self._neighbors = nodes, graph, neighbors

    def __getitem__(self, node: Node) -> dict[Node, dict[str, Any]]:
        if node not in self._nodes:
            raise KeyError(node)
        return {other: {} for other in self._neighbors(self._graph, node)}

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


def successors(graph: Graph, node: Node) -> tuple[Node, ...]:
    """The values an op computes, or the ops of this graph that read a value."""
    if isinstance(node, Op):
        return node.outputs
    return tuple(dict.fromkeys(op for use in node.consumers if (op := enclosing_op(graph, use)) is not None))


def predecessors(graph: Graph, node: Node) -> tuple[Node, ...]:
    """The values an op reads, those its subgraphs capture included, or the op that computes a value."""
    if isinstance(node, Op):
        return tuple(dict.fromkeys(v for v in (*node.inputs, *node.captures) if v is not None))
    maker = graph.producer(node)
    return (maker,) if maker is not None else ()
