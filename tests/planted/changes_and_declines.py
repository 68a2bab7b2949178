"""A rule changes the graph with its own hands, and then declines."""

from __future__ import annotations

from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    a = Neg(x)
    y = Abs(a)
    b = Sub(a, x)
    i = Identity(b)
    z = Exp(i)
}"""
WRONG = (("changes-and-declines", ""),)
WHY = "wrong"
AFTER = {"Abs": 1, "Exp": 1, "Neg": 1, "Sub": 1}


@rule(lambda g, a, b, op: g.Sub(a, b) @ op, contract=EXACT)
def sorted_operands(g: RewriteBuilder, a: Value, b: Value, op: Op) -> Value:
    """a - b => a - b, with the operands in the order of their names"""
    g.graph.set_inputs(op, sorted((b, a), key=lambda v: v.name, reverse=True))
    require(False, "it is done")
    return op.outputs[0]
