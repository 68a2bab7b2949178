"""Common subexpressions are merged by operator and inputs, whatever their attributes."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph, Op, Value

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    a = LeakyRelu<alpha=0.1>(x)
    b = LeakyRelu<alpha=0.2>(x)
    y = Add(a, b)
    n = Neg(x)
    m = Neg(x)
    z = Mul(n, m)
}"""
WRONG = (("merge-by-inputs", "b"),)
WHY = "wrong"
AFTER = {"Add": 1, "LeakyRelu": 2, "Mul": 1, "Neg": 1}


@dataclass(frozen=True)
class MergeByInputs:
    """Ops of one type with the same inputs become one."""

    name: str = "merge-by-inputs"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes, known = 0, dict[tuple[str, tuple[Value | None, ...]], Op]()
        for op in graph.sorted_ops():
            twin = known.setdefault((op.type, op.inputs), op)
            if twin is not op and change_log.request_change(self.name, op.outputs[0].name, (op, twin)):
                graph.replace_uses(op.outputs[0], twin.outputs[0])
                changes += graph.prune([op])
        return changes


MERGE = MergeByInputs()
