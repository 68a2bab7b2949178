"""Queries on a graph with its subgraphs: ops, constants, and the attributes that hold subgraphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from .graph import Graph
from .op import Op
from .values import Value


def is_counted(op: Op) -> bool:
    """Whether an op counts as a node in reports: Constant ops do not, as they hold weights like initializers."""
    return op.type != "Constant" or bool(op.domain)


def total_op_count(graph: Graph) -> int:
    """Ops of a graph and of the graphs inside it, Constant ops included."""
    return sum(map(len, graph.with_subgraphs()))


def all_constants(graph: Graph) -> Iterator[Value]:
    """The constants of a graph and of the graphs inside it: initializers and outputs of Constant ops."""
    for g in graph.with_subgraphs():
        yield from g.initializers
        for op in g.ops("Constant"):
            yield from op.outputs


def constant_bytes(graph: Graph) -> int:
    """Bytes of the constants of a graph and of the graphs inside it."""
    return sum(v.tensor.nbytes for v in all_constants(graph) if v.tensor is not None)


def subgraphs_by_attribute(op: Op) -> dict[str, Graph]:
    """The subgraphs of an op by attribute, numbered where one attribute is a list of them."""
    found: dict[str, Graph] = {}
    for name, value in op.attrs.items() if op.subgraphs else ():
        if isinstance(value, Graph):
            found[name] = value
        elif isinstance(value, list):
            entries = cast("list[object]", value)
            found.update((f"{name}[{i}]", g) for i, g in enumerate(entries) if isinstance(g, Graph))
    return found
