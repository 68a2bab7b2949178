"""A networkx graph whose adjacency is computed, without a copy of another structure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import networkx as nx

Node = TypeVar("Node", bound=Hashable)


class NetworkxView(nx.DiGraph[Node] if TYPE_CHECKING else nx.DiGraph):
    """A frozen `networkx.DiGraph` of `nodes`, in their order, and edges without data.

    The nodes are fixed when the view is made; `successors` and `predecessors` are called whenever
    an algorithm reads edges.
    """

    def __init__(  # pyright: ignore[reportInconsistentConstructor] - networkx's own takes a backend
        self,
        nodes: Iterable[Node] | None = None,
        successors: Callable[[Node], tuple[Node, ...]] | None = None,
        predecessors: Callable[[Node], tuple[Node, ...]] | None = None,
    ) -> None:
        base: Any = super()
        base.__init__()
        if nodes is None or successors is None or predecessors is None:
            return  # networkx makes empty graphs of the same class, for copies
        data: dict[Node, dict[str, Any]] = {node: {} for node in nodes}
        self._node = data
        self._succ = _Adjacency(data, successors)
        self._pred = _Adjacency(data, predecessors)
        library: Any = nx
        library.freeze(self)

    def to_directed_class(self) -> type[nx.DiGraph[Node]]:
        """Copies are ordinary graphs."""
        return nx.DiGraph

    def to_undirected_class(self) -> type[nx.Graph[Node]]:
        """Copies are ordinary graphs."""
        return nx.Graph


class _Adjacency(Mapping[Node, dict[Node, dict[str, Any]]]):
    def __init__(self, nodes: Mapping[Node, object], neighbors: Callable[[Node], tuple[Node, ...]]) -> None:
        self._nodes, self._neighbors = nodes, neighbors

    def __getitem__(self, node: Node) -> dict[Node, dict[str, Any]]:
        if node not in self._nodes:
            raise KeyError(node)
        return {other: {} for other in self._neighbors(node)}

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)
