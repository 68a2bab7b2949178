"""Two passes that undo each other, in a loop that a plugin made of them."""

from __future__ import annotations

from passwright.core import EXACT, Fixpoint, RewriteBuilder, RulePass, Value, rule

MODEL = """g (float[N,4] x, float[N,4] t) => (float[N,4] y, float[N,4] z) {
    y = Sub(x, t)
    i = Identity(x)
    z = Exp(i)
}"""
WRONG = (("subtractions", ""),)
WHY = "endless"
AFTER = {"Add": 1, "Exp": 1, "Neg": 1}


@rule(lambda g, a, b: g.Sub(a, b), contract=EXACT)
def add_negated(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a - b => a + -b"""
    return g.Add(a, g.Neg(b))


@rule(lambda g, a, b: g.Add(a, g.Neg(b)), contract=EXACT)
def subtract(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a + -b => a - b"""
    return g.Sub(a, b)


LOOP = Fixpoint("loop", (RulePass("additions", (add_negated,)), RulePass("subtractions", (subtract,))))
