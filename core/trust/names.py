"""A name of its own for each value and op of a model: what bears the same name in several graphs is told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar, cast

from ..io.exporter import written_sparse
from ..ir.graph import Graph
from ..ir.invariants import defined
from ..ir.op import Op
from ..ir.values import Value

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Names:
    """A name in the main graph is as it is; one inside a subgraph that is borne elsewhere, too, has its path before it.

    The path is `holder/attribute/`, once for each level. An op without a name, or with one that another of its graph
    has, goes by its first output.
    """

    values: dict[Value, str]
    ops: dict[Op, str]

    @classmethod
    def of(cls, root: Graph) -> Names:
        """The names that everything in `root` bears now. O(V + E)."""
        graphs = list(scopes(root))
        values = ((v, path, v.name) for g, path in graphs for v in _written(g) if v.name)
        ops = ((op, path, name) for g, path in graphs for op, name in _places(g))
        return cls(_told_apart(values), _told_apart(ops))


def scopes(graph: Graph, path: str = "") -> Iterator[tuple[Graph, str]]:
    """The graph and all inside it, outermost first, each with its path."""
    yield graph, path
    for op, name in _places(graph):
        for attribute, sub in _held(op):
            yield from scopes(sub, f"{path}{name}/{attribute}/")


def _held(op: Op) -> Iterator[tuple[str, Graph]]:
    """The subgraphs of an op by attribute; those of a list are numbered."""
    for attribute, content in op.attrs.items() if op.subgraphs else ():
        if isinstance(content, Graph):
            yield attribute, content
        elif isinstance(content, list):
            entries = cast("list[object]", content)
            yield from ((f"{attribute}[{i}]", g) for i, g in enumerate(entries) if isinstance(g, Graph))


def _places(graph: Graph) -> list[tuple[Op, str]]:
    """The ops of a graph with their names."""
    ops = sorted(graph.ops(), key=lambda op: op.key)
    bearers = Counter(op.name for op in ops)
    return [(op, _place(op) if bearers[op.name] > 1 else op.name or _place(op)) for op in ops]


def _place(op: Op) -> str:
    return next((v.name for v in op.outputs if v.name), op.name or op.type)


def _written(graph: Graph) -> Iterator[Value]:
    """The values of a graph that are in the file it makes."""
    sparse = {v for v, _ in written_sparse(graph)}
    return (v for v in defined(graph) if v not in graph.sparse or v in sparse)


def _told_apart(items: Iterable[tuple[T, str, str]]) -> dict[T, str]:
    """A name for each of `items`: (what, path, name)."""
    listed = list(items)
    bearers = Counter(name for _, _, name in listed)
    found: dict[T, str] = {}
    taken: set[str] = set()
    for what, path, name in listed:
        plain = chosen = path + name if bearers[name] > 1 else name
        number = 1
        while chosen in taken:  # two nodes of one name whose outputs are named like other nodes, say
            number += 1
            chosen = f"{plain}#{number}"
        taken.add(chosen)
        found[what] = chosen
    return found
