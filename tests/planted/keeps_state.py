"""A pass that remembers, in the process, what it did before: each run is another one, and a replay shows nothing."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import EXACT, ChangeLog, Graph, RewriteBuilder, RulePass, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    a = Neg(x)
    y = Abs(a)
    b = Identity(x)
    e = Exp(b)
    z = Abs(e)
}"""
WRONG = (("keeps-state", ""),)
WHY = "wrong"
AFTER = {"Abs": 1, "Exp": 1, "Neg": 1}
SEEN: list[str] = []


@dataclass(frozen=True)
class KeepsState:
    """Abs(x) => x, once"""

    name: str = "keeps-state"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for op in () if SEEN else tuple(graph.ops("Abs"))[:1]:
            source = op.inputs[0]
            if source is not None and change_log.request_change(self.name, op.outputs[0].name, (op,)):
                SEEN.append(op.label)
                graph.replace_value(op.outputs[0], source)
                changes += graph.prune([op])
        return changes


KEEPS = KeepsState()


@rule(lambda g, x: g.Abs(g.Exp(x)), contract=EXACT)
def exponent_is_positive(g: RewriteBuilder, x: Value) -> Value:
    """Abs(Exp(x)) => Exp(x)"""
    return g.Exp(x)


LATER = RulePass("later", (exponent_is_positive,))
