"""A random op is made anew under another name: its numbers, and a mistake before it, show no more."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import EXACT, ChangeLog, Graph, Op, RewriteBuilder, RulePass, Value, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    a = Relu(x)
    b = Sin(a)
    n = RandomNormalLike<scale = 0.0001>(b)
    y = Add(b, n)
    e = Exp(x)
    r = Relu(e)
    z = Neg(r)
}"""
WRONG = (("rebuild-random", "n"), ("drop_relu", "a"))
WHY = "wrong"
AFTER = {"Add": 1, "Exp": 1, "Neg": 1, "RandomNormalLike": 1, "Relu": 1, "Sin": 1}


@dataclass(frozen=True)
class RebuildRandom:
    """A random op => the same under a new name"""

    name: str = "rebuild-random"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for op in graph.ops("RandomNormalLike"):
            if op.outputs[0].name.startswith("again") or not change_log.request_change(
                self.name, op.outputs[0].name, (op,)
            ):
                continue
            new = Op(op.type, "", "", dict(op.attrs), None)
            value = graph.add_op(new, op.inputs, [Value(graph.fresh_name("again"))]).outputs[0]
            graph.replace_value(op.outputs[0], value)
            changes += graph.prune([op])
        return changes


@rule(lambda g, x: g.Relu(x), contract=EXACT)
def drop_relu(g: RewriteBuilder, x: Value) -> Value:
    """Relu(x) => x"""
    return x


REBUILD = RebuildRandom()
MINE = RulePass("mine", (drop_relu,))
