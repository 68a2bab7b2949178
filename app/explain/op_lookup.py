"""Ops by name, and the ops at which a pattern that covers them would start."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain, zip_longest

import networkx as nx

from ...core.errors import ModelError
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.rewriting.pattern import OpPattern
from ...core.support.suggestions import did_you_mean


def ops_named(graph: Graph, name: str) -> list[Op]:
    """The nodes of that name, and the producers of values of that name, in bodies too."""
    return [op for g in graph.with_subgraphs() for op in g.ops() if name in _op_and_value_names(op)]


def all_op_names(graph: Graph) -> set[str]:
    """The names that `ops_named` finds."""
    return {name for g in graph.with_subgraphs() for op in g.ops() for name in _op_and_value_names(op) if name}


def require_op_name(name: str, known: Iterable[str]) -> None:
    """Raise ModelError for a name that no node and no value made by one has."""
    names = set(known)
    if name not in names:
        raise ModelError(f"no node is named {name}, and none makes a value of that name{did_you_mean(name, names)}")


def downstream_layers(ops: Collection[Op]) -> list[list[Op]]:
    """The ops, then those that read their results, then those that read the results of these; each once. O(V + E)."""
    by_graph = [nx.bfs_layers(g.nx, {op for op in ops if op.graph is g}) for g in dict.fromkeys(op.graph for op in ops)]
    return [[n for n in chain(*layers) if isinstance(n, Op)] for layers in zip_longest(*by_graph, fillvalue=())][::2]


def pattern_roots_near(layers: Sequence[Sequence[Op]], pattern: OpPattern) -> set[Op]:
    """Those of the first layer at which the pattern could start; if there are none, all from which it reaches them."""
    roots = {op for op in chain(*layers[:1]) if op.type in pattern.types}
    return roots or set(chain(*layers[: pattern_depth(pattern)]))


def pattern_depth(pattern: OpPattern) -> int:
    """The number of operators on the longest path of a pattern."""
    return 1 + max((pattern_depth(p) for p in pattern.inputs if isinstance(p, OpPattern)), default=0)


def _op_and_value_names(op: Op) -> tuple[str, ...]:
    return (op.name, *(v.name for v in op.outputs))
