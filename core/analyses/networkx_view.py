"""A view of a graph for the algorithms of networkx: a read-only multigraph without copied data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import networkx as nx

from ..errors import GraphError
from ..ir.expressions import as_integers, is_symbolic_only
from ..ir.graph import Graph, enclosing_op
from ..ir.op import Op
from ..ir.tensor import STRING, element_bits, element_type
from ..ir.values import Value

Node = Op | Value
Entry = TypeVar("Entry")
BODY_KEY = "body"  # of the edge from a value to an op whose body reads it
MUTATORS = (
    "add_edge", "add_edges_from", "add_node", "add_nodes_from", "add_weighted_edges_from", "clear", "clear_edges",
    "remove_edge", "remove_edges_from", "remove_node", "remove_nodes_from", "update",
)  # fmt: skip


def _refuse(*_: object, **__: object) -> NoReturn:
    raise GraphError(
        "graph.nx is read only: edit a copy, nx.MultiDiGraph(graph.nx), or change the graph by the graph's own methods"
    )


class NetworkxView(nx.MultiDiGraph[Node] if TYPE_CHECKING else nx.MultiDiGraph):
    """A graph as a frozen `networkx.MultiDiGraph` (value -> op -> value), whose edges and data are created when read.

    Each operand is an edge whose key is the operand's index; a value that a body reads has an edge to the op that
    contains the body. After the graph has changed, the view raises GraphError.
    """

    def __init__(self, graph: Graph | None = None) -> None:  # pyright: ignore[reportInconsistentConstructor] - networkx's own takes a backend
        base: Any = super()
        base.__init__()
        if graph is None:
            return  # networkx creates empty graphs of the same class for copies
        kinds = _kinds_of_nodes(graph)
        self._node = _Entries(graph, kinds, lambda node: _node_data(node, kinds[node]))
        self._adj = _Entries(graph, kinds, partial(_successors, graph))
        self._pred = _Entries(graph, kinds, partial(_predecessors, graph))
        self.frozen = True
        for name in MUTATORS:
            setattr(self, name, _refuse)

    def to_directed_class(self) -> type[nx.MultiDiGraph[Node]]:
        """The class of copies, which are ordinary graphs."""
        return nx.MultiDiGraph

    def to_undirected_class(self) -> type[nx.MultiGraph[Node]]:
        """The class of copies, which are ordinary graphs."""
        return nx.MultiGraph


def _kinds_of_nodes(graph: Graph) -> dict[Node, str]:
    """The values and ops with the kind of each; each op follows the values that it reads."""
    kinds: dict[Node, str] = dict.fromkeys(graph.inputs, "input")
    kinds.update(dict.fromkeys((*graph.initializers, *graph.sparse_initializers), "initializer"))
    for op in graph.sorted_ops():
        for v in (*op.inputs, *op.captures) if op.subgraphs else op.inputs:
            if v is not None and v not in kinds:
                kinds[v] = "outer"
        kinds[op] = "op"
        kinds.update((v, "value") for v in op.outputs if v.name)
    for v in graph.outputs:
        kinds.setdefault(v, "outer")
    return kinds


class _ReadOnly(Mapping[Any, Entry]):
    """A mapping that networkx or a user might try to modify."""

    __slots__ = ()
    __setitem__ = __delitem__ = update = setdefault = pop = popitem = clear = _refuse

    def copy(self, _: object = None) -> dict[Any, Entry]:
        """An ordinary dict, for a copy of the graph."""
        return dict(self)

    __deepcopy__ = copy  # a deep copy would copy the graph that the entries belong to


class _Entries(_ReadOnly[Any]):
    """An entry for each node, created when first read. Raises GraphError after the graph has changed."""

    __slots__ = ("_context", "_made", "_make", "_nodes", "_version")

    def __init__(self, graph: Graph, nodes: Mapping[Node, str], make: Callable[[Node], Any]) -> None:
        self._context, self._version = graph.context, graph.context.mutation_count
        self._nodes, self._make = nodes, make
        self._made: dict[Node, Any] = {}

    def _require_current(self) -> None:
        if self._context.mutation_count != self._version:
            raise GraphError("the graph changed after this networkx view was created: use graph.nx again")

    def __getitem__(self, node: Node) -> Any:
        if self._context.mutation_count != self._version:
            self._require_current()
        found = self._made.get(node)
        if found is None:
            if node not in self._nodes:
                raise KeyError(node)
            found = self._made[node] = self._make(node)
        return found

    def __contains__(self, node: object) -> bool:
        self._require_current()
        return node in self._nodes

    def __iter__(self) -> Iterator[Node]:
        self._require_current()
        return iter(self._nodes)

    def __len__(self) -> int:
        self._require_current()
        return len(self._nodes)


class _Data(_ReadOnly[Any]):
    """The data of a node or edge, computed when read; `facts` that are None are not included."""

    __slots__ = ("_facts", "_first", "_second")

    def __init__(self, facts: Mapping[str, Callable[[Any, Any], Any]], first: Node, second: int | str | None) -> None:
        self._facts, self._first, self._second = facts, first, second

    def __getitem__(self, key: str) -> Any:
        found = self._facts[key](self._first, self._second)
        if found is None:
            raise KeyError(key)
        return found

    def copy(self, _: object = None) -> dict[str, Any]:
        found = {key: fact(self._first, self._second) for key, fact in self._facts.items()}
        return {key: value for key, value in found.items() if value is not None}

    def __iter__(self) -> Iterator[str]:
        return iter(self.copy())

    def __len__(self) -> int:
        return len(self.copy())

    def __repr__(self) -> str:
        return repr(self.copy())

    __deepcopy__ = copy


def _dtype(value: Value) -> str | None:
    """The element type as in ONNX's text form."""
    return element_type(value.known_dtype) if value.type is None and value.known_dtype else None


def _shape(value: Value) -> tuple[int | str | None, ...] | None:
    """The dims: numbers, expressions of symbols as strings, and None."""
    if value.type is not None or (dims := value.known_shape) is None:
        return None
    return tuple(d if isinstance(d, int) or d is None else str(d) if is_symbolic_only(d) else None for d in dims)


def _nbytes(value: Value, _: object = None) -> int | None:
    """The bytes of the elements, if the shape is fixed and elements have a fixed size."""
    if value.tensor is not None:
        return value.tensor.nbytes
    shape, dtype = (value.known_shape, value.known_dtype) if value.type is None else (None, 0)
    dims = as_integers(shape) if shape is not None else None
    return None if dims is None or dtype in {0, STRING} else (prod(dims) * element_bits(dtype) + 7) // 8


OP_DATA: Mapping[str, Callable[[Op, str], Any]] = {
    "kind": lambda _, kind: kind,
    "name": lambda op, _: op.name,
    "op_type": lambda op, _: op.type,
    "domain": lambda op, _: op.domain,
    "attributes": lambda op, _: dict(op.attrs),
}
VALUE_DATA: Mapping[str, Callable[[Value, str], Any]] = {
    "kind": lambda _, kind: kind,
    "name": lambda value, _: value.name,
    "dtype": lambda value, _: _dtype(value),
    "shape": lambda value, _: _shape(value),
    "nbytes": _nbytes,
    "tensor": lambda value, _: value.tensor,
}
EDGE_DATA: Mapping[str, Callable[[Value, Any], Any]] = {"index": lambda _, index: index, "nbytes": _nbytes}


def _node_data(node: Node, kind: str) -> _Data:
    return _Data(OP_DATA if isinstance(node, Op) else VALUE_DATA, node, kind)


Neighbors = dict[Node, dict[Any, _Data]]
"""The neighbors of a node, and the edges to each of them by key."""


def _successors(graph: Graph, node: Node) -> Neighbors:
    """The values that an op produces, or the ops of this graph that read a value."""
    if isinstance(node, Op):
        return {v: {i: _Data(EDGE_DATA, v, i)} for i, v in enumerate(node.outputs) if v.name}
    users = dict.fromkeys(op for use in node.consumers if (op := enclosing_op(graph, use)) is not None)
    return {op: _uses(op, node) for op in users}


def _predecessors(graph: Graph, node: Node) -> Neighbors:
    """The values that an op or its bodies read, or the op that produces a value."""
    if isinstance(node, Op):
        read = dict.fromkeys(v for v in (*node.inputs, *node.captures) if v is not None)
        return {v: _uses(node, v) for v in read}
    maker = graph.producer(node)
    if maker is None:
        return {}
    index = maker.outputs.index(node)
    return {maker: {index: _Data(EDGE_DATA, node, index)}}


def _uses(op: Op, value: Value) -> dict[Any, _Data]:
    """The edges from a value to an op: one for each operand, and one if a body reads it."""
    edges: dict[Any, _Data] = {i: _Data(EDGE_DATA, value, i) for i in op.positions_of(value)}
    if op.subgraphs and value in op.captures:
        edges[BODY_KEY] = _Data(EDGE_DATA, value, None)
    return edges
