"""The ops and values on all paths from the inputs, or on all paths to the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..ir.graph import Graph, enclosing_op
from ..ir.op import Op
from ..ir.values import Value

Node = Op | Value


class Dominance:
    """The dominators and postdominators of the ops and values of a graph; constants do not count as inputs.

    A node dominates another if all paths from the inputs to that one contain it, and postdominates another if all paths
    from that one to the outputs contain it. Each node dominates and postdominates itself.

    Examples:
        >>> dominance = graph.analysis(Dominance)
        >>> x, y = graph.inputs[0], graph.outputs[0]
        >>> dominance.dominates(x, y), dominance.immediate_dominator(y), dominance.immediate_postdominator(x)
        (True, Op(Add y), Op(Abs a))
    """

    def __init__(self, graph: Graph) -> None:
        forwards: dict[Node, None] = dict.fromkeys(graph.inputs)
        for op in graph.sorted_ops():
            read = (v for v in (*op.inputs, *op.captures) if v is not None)
            forwards.update(dict.fromkeys((*read, op, *(v for v in op.outputs if v.name))))
        outputs = set(graph.outputs)

        def readers(node: Node) -> Iterable[Node | None]:
            if isinstance(node, Op):
                return [v for v in node.outputs if v.name]
            users = [op for use in node.consumers if (op := enclosing_op(graph, use)) is not None]
            return [*users, None] if node in outputs else users

        def sources(node: Node) -> Iterable[Node | None]:
            return _read(node) if isinstance(node, Op) else (graph.producer(node),)

        self._dominators = _Tree(forwards, sources)
        self._postdominators = _Tree(reversed(forwards), readers)

    def immediate_dominator(self, node: Node) -> Node | None:
        """The nearest other node that dominates `node`; None if there is none."""
        return self._dominators.parent[node]

    def immediate_postdominator(self, node: Node) -> Node | None:
        """The nearest other node that postdominates `node`; None if there is none."""
        return self._postdominators.parent[node]

    def dominates(self, node: Node, other: Node) -> bool:
        """Whether all paths from the inputs to `other` contain `node`. O(log n)."""
        return self._dominators.is_ancestor(node, other)

    def postdominates(self, node: Node, other: Node) -> bool:
        """Whether all paths from `other` to the outputs contain `node`. O(log n)."""
        return self._postdominators.is_ancestor(node, other)


def _read(op: Op) -> list[Value]:
    """The values that an op or its bodies read, without constants."""
    return [v for v in (*op.inputs, *op.captures) if v is not None and v.tensor is None]


class _Tree:
    """The dominator tree of a graph without cycles. Each node has a parent, and a jump over many parents.

    The jumps have the lengths of skew-binary numbers, so that an ancestor is found in O(log n) steps.
    """

    def __init__(self, order: Iterable[Node], sources: Callable[[Node], Iterable[Node | None]]) -> None:
        self.parent: dict[Node, Node | None] = {}
        self._depth: dict[Node | None, int] = {None: 0}
        self._jump: dict[Node | None, Node | None] = {None: None}
        for node in order:
            before = list(sources(node)) or [None]
            meet = before[0]
            for other in before[1:]:
                meet = self._common_ancestor(meet, other)
            self.parent[node], self._depth[node] = meet, self._depth[meet] + 1
            over = self._jump[meet]
            is_even = self._depth[meet] - self._depth[over] == self._depth[over] - self._depth[self._jump[over]]
            self._jump[node] = self._jump[over] if is_even else meet

    def is_ancestor(self, node: Node, other: Node) -> bool:
        """Whether `node` is `other` or above it."""
        return self._ancestor_at(other, self._depth[node]) is node

    def _ancestor_at(self, node: Node | None, depth: int) -> Node | None:
        while node is not None and self._depth[node] > depth:
            over = self._jump[node]
            node = over if self._depth[over] >= depth else self.parent[node]
        return node

    def _common_ancestor(self, a: Node | None, b: Node | None) -> Node | None:
        depth = min(self._depth[a], self._depth[b])
        a, b = self._ancestor_at(a, depth), self._ancestor_at(b, depth)
        while a is not b and a is not None and b is not None:
            is_above = self._jump[a] is not self._jump[b]
            a, b = (self._jump[a], self._jump[b]) if is_above else (self.parent[a], self.parent[b])
        return a if a is b else None
