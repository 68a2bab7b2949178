"""What is to be computed in double precision is computed in single. Right for what single precision holds."""

from __future__ import annotations

from passwright.core import Op, RewriteBuilder, Value, require, rule

MODEL = """g (double[N,4] x) => (double[N,4] y, double[N,4] z) {
    y = Exp(x)
    s = Sign(x)
    a = Identity(s)
    z = Abs(a)
}"""
WRONG = (("in_single", "y"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Cast": 2, "Exp": 1, "Sign": 1}


@rule(lambda g, x, op: g.one_of("Exp", "Abs")(x) @ op)
def in_single(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """f(x) => f(x in single precision)"""
    require(x.dtype == 11, "single already")
    return g.Cast(getattr(g, op.type)(g.Cast(x, to=1)), to=11)
