"""Common subexpressions are merged, random operators among them; their difference becomes 0.

Known from onnxsim, OnnxSlim and onnxoptimizer.
"""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph, Op

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    a = RandomUniformLike(x)
    b = RandomUniformLike(x)
    d = Sub(a, b)
    y = Add(x, d)
    n = Neg(x)
    m = Neg(x)
    z = Mul(n, m)
}"""
WRONG = (("merge-all-duplicates", "b"),)
WHY = "wrong"
AFTER = {"Add": 1, "Mul": 1, "Neg": 1, "RandomUniformLike": 2, "Sub": 1}


@dataclass(frozen=True)
class MergeAllDuplicates:
    """Ops of one type with the same inputs and attributes become one."""

    name: str = "merge-all-duplicates"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes, known = 0, dict[object, Op]()
        for op in graph.sorted_ops():
            twin = known.setdefault((op.type, op.inputs, str(op.attrs)), op)
            if twin is not op and change_log.request_change(self.name, op.outputs[0].name, (op, twin)):
                graph.replace_uses(op.outputs[0], twin.outputs[0])
                changes += graph.prune([op])
        return changes


MERGE = MergeAllDuplicates()
