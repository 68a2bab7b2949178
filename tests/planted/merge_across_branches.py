"""Common subexpressions are merged across the two branches of an If, neither of which sees the other's values."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph, Op, Value

MODEL = """g (float[4] x, bool c) => (float[4] y, float[4] z) {
    y = If(c) <
        then_branch = t () => (float[4] p) { a = Exp(x)  p = Neg(a) },
        else_branch = e () => (float[4] q) { b = Exp(x)  q = Abs(b) }
    >
    m = Identity(x)
    z = Neg(m)
}"""
WRONG = (("merge-everywhere", "b"),)
WHY = "invalid"
AFTER = {"Abs": 1, "Exp": 2, "If": 1, "Neg": 2}


@dataclass(frozen=True)
class MergeEverywhere:
    """Ops of one type with the same inputs become one, wherever they stand."""

    name: str = "merge-everywhere"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes, known = 0, dict[tuple[str, tuple[Value | None, ...]], Op]()
        for op in (op for g in graph.with_subgraphs() for op in g.sorted_ops()):
            twin = known.setdefault((op.type, op.inputs), op)
            if twin is not op and change_log.request_change(self.name, op.outputs[0].name, (op, twin)):
                op.graph.replace_uses(op.outputs[0], twin.outputs[0])
                changes += graph.prune([op])
        return changes


MERGE = MergeEverywhere()
