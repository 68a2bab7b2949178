"""A wrong pass and a right one that a plugin put into a pipeline of its own."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import EXACT, ChangeLog, Graph, Pipeline, RewriteBuilder, RulePass, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    a = Neg(x)
    y = Abs(a)
    s = Exp(x)
    i = Identity(s)
    z = Ceil(i)
}"""
WRONG = (("drop-rounding", "z"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Ceil": 1, "Exp": 1}


@rule(lambda g, x: g.Abs(g.Neg(x)), contract=EXACT)
def absolute_of_negated(g: RewriteBuilder, x: Value) -> Value:
    """Abs(-x) => Abs(x)"""
    return g.Abs(x)


@dataclass(frozen=True)
class DropRounding:
    """Ceil(x) => x"""

    name: str = "drop-rounding"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for op in graph.ops("Ceil"):
            source = op.inputs[0]
            if source is not None and change_log.request_change(self.name, op.outputs[0].name, (op,)):
                graph.replace_value(op.outputs[0], source)
                changes += graph.prune([op])
        return changes


MINE = Pipeline("mine", (RulePass("absolutes", (absolute_of_negated,)), DropRounding()))
