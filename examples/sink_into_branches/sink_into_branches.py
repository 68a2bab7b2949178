"""Computation moved into the only branch that needs it: a pass with networkx.

Exporters compute the operands of both branches of a condition before it, and a runtime computes them each time.

    passes run model.onnx -o lazy.onnx --plugin sink_into_branches.py
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import networkx as nx
from passwright.core import ChangeLog, Graph, Op, PassPlacement, Plugin, Value, is_pure

EXIT = "exit"
"""The node behind all nodes that have to be computed whichever branch is taken."""


@dataclass(frozen=True, slots=True)
class SinkIntoBranches:
    """y = f(x), If(c, {g(y)}, {h(x)}) => If(c, {y = f(x), g(y)}, {h(x)}), for all ops that one branch alone needs."""

    name: str = "sink-into-branches"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Move ops from each graph into the branches in it, from the outermost graph to the innermost."""
        return sum(self._sink(g, change_log) for g in graph.with_subgraphs())

    def _sink(self, g: Graph, change_log: ChangeLog) -> int:
        changes, sinkable = 0, ops_by_branch(g)
        for op in g.ops("If"):
            for branch in op.subgraphs:
                moved = sinkable.get(branch, [])
                if moved and change_log.request_change(self.name, op.outputs[0].name, moved):
                    for inner in moved:
                        branch.splice_op(inner, inner.order_key)
                    changes += 1
        return changes


def ops_by_branch(g: Graph) -> dict[Graph, list[Op]]:
    """For each branch of an If in `g` the ops that nothing else needs, in topological order.

    The branch of an op is its nearest postdominator that is one: each path from the op to an output passes through it.
    Source: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm", 2001.
    """
    upwards = needs(g).reverse(copy=False)
    postdominators = nx.immediate_dominators(upwards, EXIT)
    branch_of: dict[Hashable, Graph | None] = {}
    for node in nx.topological_sort(upwards):
        nearest = postdominators.get(node)
        branch_of[node] = nearest if isinstance(nearest, Graph) else branch_of.get(nearest)
    found: dict[Graph, list[Op]] = {}
    for op in g.sorted_ops():
        if (branch := branch_of[op]) is not None:
            found.setdefault(branch, []).append(op)
    return found


def needs(g: Graph) -> nx.DiGraph[Hashable]:
    """A copy of the graph with a node for each branch, between the values it reads and its If, and with EXIT."""
    net: nx.DiGraph[Hashable] = nx.DiGraph()
    net.add_edges_from(g.nx.edges())
    for op in g.ops("If"):
        net.remove_edges_from([(v, op) for v in op.captures if v not in op.inputs])
        for branch in op.subgraphs:
            net.add_edges_from((v, branch) for v in branch.captured_values())
            net.add_edge(branch, op)
    net.add_edges_from([(n, EXIT) for n in g.nx if stays(g, n)])
    return net


def stays(g: Graph, node: Op | Value) -> bool:
    """Whether a node has to be in `g` itself."""
    if isinstance(node, Value):
        return g.is_output(node) or node in g.pinned
    return bool(node.subgraphs) or not is_pure(node)


PLUGIN = Plugin(passes=(PassPlacement(SinkIntoBranches(), stage="final"),))
