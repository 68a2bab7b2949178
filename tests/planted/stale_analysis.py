"""A pass finds out first what is redundant, then drops all of it; of two that make each other so, one has to stay."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph, Op

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    a = Abs(x)
    y = Abs(a)
    s = Sigmoid(x)
    b = Abs(s)
    c = Abs(b)
    z = Neg(c)
}"""
WRONG = (("drop-redundant", "y"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Neg": 1, "Sigmoid": 1}


@dataclass(frozen=True)
class DropRedundant:
    """Abs(x) => x, beside another Abs"""

    name: str = "drop-redundant"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for op in [op for op in graph.ops("Abs") if self._is_redundant(graph, op)]:
            source = op.inputs[0]
            assert source is not None
            if change_log.request_change(self.name, op.outputs[0].name, (op,)):
                graph.replace_value(op.outputs[0], source)
                changes += graph.prune([op])
        return changes

    def _is_redundant(self, graph: Graph, op: Op) -> bool:
        before = graph.producer(op.inputs[0])
        return (before is not None and before.type == "Abs") or any(u.type == "Abs" for u in op.outputs[0].consumers)


DROP = DropRedundant()
