"""Mistakes of three kinds in one model: two rules give wrong values, one gives what nothing runs, and one raises."""

from __future__ import annotations

from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,4] x, int32[N,3] t) => (float[N,4] y, float[N,4] u, float[N,4] q, float[N,4] v, int32[N,2] z)
    <float[4] w = {1.0,2.0,3.0,4.0}, int32[3,2] i = {1,2,3,4,5,6}, int32[2] j = {7,8}> {
    a = Abs(x)
    y = Ceil(a)
    s = Sigmoid(x)
    b = Abs(s)
    u = Sub(b, w)
    f = Floor(x)
    q = Round(f)
    h = Tanh(x)
    v = Round(h)
    p = MatMul(t, i)
    z = Add(p, j)
}"""
WRONG = (("drop_abs", "a"), ("subtract_backwards", "u"), ("drop_round", "v"), ("integer_product", "z"))
WHY = ("wrong", "wrong", "raised", "refused")
AFTER = {
    "Abs": 1, "Add": 1, "Ceil": 1, "Floor": 1, "MatMul": 1, "Round": 1, "Sigmoid": 1, "Sub": 1, "Tanh": 1,
}  # fmt: skip


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def drop_abs(g: RewriteBuilder, x: Value) -> Value:
    """Abs(x) => x"""
    return x


@rule(lambda g, a, b: g.Sub(a, b), contract=EXACT)
def subtract_backwards(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a - b => b + -a"""
    return g.Add(b, g.Neg(a))


@rule(lambda g, x, inner: g.Round(g.one_of("Floor", "Tanh")(x) @ inner), contract=EXACT)
def drop_round(g: RewriteBuilder, x: Value, inner: Op) -> Value:
    """Round(Floor(x)) => Floor(x)"""
    whole = {"Floor": True}
    require(whole[inner.type], "not whole")
    return inner.outputs[0]


@rule(lambda g, a, b, c: g.Add(g.MatMul(a, b), c))
def integer_product(g: RewriteBuilder, a: Value, b: Value, c: Value) -> Value:
    """MatMul(a, b) + c => Gemm(a, b, c)"""
    return g.Gemm(a, b, c)
