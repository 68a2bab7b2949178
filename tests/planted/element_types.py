"""Mistakes in element types: too few bits, or too small a range."""

import numpy as np
from onnx import TensorProto
from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

from planted.mistake import mistake


@mistake(
    "g (float16[N,36] x) => (float16[N,1] y) { q = Mul(x, share) s = ReduceSum(q, last) y = Mul(s, tenth) }",
    wrong="s",
    weights={"share": np.float16(1 / 36), "tenth": np.float16(0.1), "last": np.array([-1])},
)
@rule(lambda g, x, c, axes: g.ReduceSum(g.Mul(x, g.const(c)), g.const(axes)))
def average_by_sum_in_half(g: RewriteBuilder, x: Value, c: Value, axes: Value) -> Value:
    """The average of 36 halves becomes a quotient of their sum, which overflows where they are large."""
    return g.Mul(g.ReduceSum(x, axes), c)


@mistake(
    "g (float[N,3] x, double[N,3] d) => (float[N,3] y, double[N,3] u, float[N,3] z)"
    " { a = Cast<to=6>(x) y = Cast<to=1>(a) b = Cast<to=1>(d) u = Cast<to=11>(b) n = Neg(x) c = Cast<to=11>(n)"
    " i = Identity(c) z = Cast<to=1>(i) }",
    wrong=("y", "u"),
    after={"Cast": 4, "Neg": 1},
)
@rule(lambda g, x, a, b: g.Cast(g.Cast(x, to=a), to=b), contract=EXACT)
def casts_there_and_back(g: RewriteBuilder, x: Value, a: int, b: int) -> Value:
    """A Cast and the Cast back go, though what is between holds less. Wrong in two places, right in one."""
    require(x.dtype == b, "its type does not come back")
    return x


@mistake(
    "g (float16[N,8] x) => (float16[N,8] y, float16[N,8] z) <float third = {0.33333334}> { f = Cast<to=1>(x)"
    " q = Mul(f, f) c = Mul(q, f) n = Mul(c, third) y = Cast<to=10>(n) i = Identity(x) z = Neg(i) }",
    wrong="c",
)
@rule(lambda g, x: g.Mul(g.Mul(g.Cast(x, to=1), g.Cast(x, to=1)), g.Cast(x, to=1)), allow_other_uses=True)
def cube_in_half(g: RewriteBuilder, x: Value) -> Value:
    """The cube in a Gelu is no longer computed in single precision. That of numbers above 40 overflows."""
    return g.Cast(g.Mul(g.Mul(x, x), x), to=TensorProto.FLOAT)


@mistake("g (int64[N] x) => (int64[N] y) <int64 d = {86400}> { q = Div(x, d) y = Neg(q) }", wrong="q")
@rule(lambda g, x, c: g.Div(x, c), contract=EXACT)
def days_by_float(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """Seconds become days in floats, which hold no more than 24 bits."""
    require(x.known_dtype == 7, "not int64")
    return g.Cast(g.Div(g.Cast(x, to=1), g.Cast(c, to=1)), to=7)


@mistake(
    "g (double[N,4] x) => (double[N,4] y, double[N,4] z) { y = Exp(x) s = Sign(x) a = Identity(s) z = Abs(a) }",
    wrong="y",
    after={"Abs": 1, "Cast": 2, "Exp": 1, "Sign": 1},
)
@rule(lambda g, x, op: g.one_of("Exp", "Abs")(x) @ op)
def double_in_single(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """A computation in double precision is made in single precision. Right for what single precision holds."""
    require(x.dtype == 11, "single already")
    return g.Cast(getattr(g, op.type)(g.Cast(x, to=1)), to=11)


@mistake(
    "g (float[N] x) => (float[N] y) <int64 zero = {0}, int64 one = {1}>"
    " { s = Shape(x) n = Squeeze(s) p = Range(zero, n, one) h = Cast<to = 10>(p) f = Cast<to = 1>(h) y = Mul(x, f) }",
    wrong="f",
)
@rule(lambda g, p: g.Cast(g.Cast(p, to=10), to=1), contract=EXACT)
def half_of_positions_dropped(g: RewriteBuilder, p: Value) -> Value:
    """Positions keep the bits that they lose in halves before. No bit may change, and above 2048 the result does."""
    return g.Cast(p, to=1)


@mistake(
    "g (float16[N,4] x) => (float16[N,4] y, float16[N,4] z)"
    " { p = Div(x, a) y = Div(p, b) n = Neg(x) q = Div(n, c) i = Identity(q) z = Div(i, d) }",
    wrong="y",
    after={"Div": 3, "Neg": 1},
    weights={k: np.array(n, np.float16) for k, n in {"a": 1024, "b": 128, "c": 4, "d": 2}.items()},
)
@rule(lambda g, x, a, b: g.Div(g.Div(x, a), b))
def half_scales(g: RewriteBuilder, x: Value, a: Value, b: Value) -> Value:
    """Two divisors are multiplied into one, which 16 bits cannot hold."""
    with np.errstate(over="ignore"):
        return g.Div(x, g.const(a.const * b.const))


@mistake(
    "g (int64[N] x) => (int64[N] y) <int64 f = {7919}, int64 d = {1000003}> { p = Mul(x, f) y = Mod(p, d) }", wrong="p"
)
@rule(lambda g, x, c: g.Mul(x, c), contract=EXACT)
def hash_in_32_bits(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """A product under a remainder is computed in 32 bits, where numbers above 271,000 overflow."""
    require(x.known_dtype == 7, "not int64")
    return g.Cast(g.Mul(g.Cast(x, to=6), g.Cast(c, to=6)), to=7)


@mistake("g (int64[N] a, int64[N] b) => (bool[N] y) { e = Equal(a, b) y = Not(e) }", wrong="e")
@rule(lambda g, a, b: g.Equal(a, b), contract=EXACT)
def integers_compared_as_floats(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """Integers are compared as floats, which hold no more than 24 bits."""
    require(a.known_dtype == 7, "not int64")
    return g.Equal(g.Cast(a, to=1), g.Cast(b, to=1))


@mistake(
    "g (float[N,8] x) => (float[N,8] y, float[N,8] z)"
    " { m = MatMul(x, w) a = Mul(m, m) y = Add(a, b) i = Identity(x) z = Neg(i) }",
    wrong="a",
    weights=lambda rng: {
        "w": rng.standard_normal((8, 8)).astype(np.float32),
        "b": rng.standard_normal(8).astype(np.float32),
    },
)
@rule(lambda g, a, b: g.Mul(a, b))
def island_of_halves(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """A product is computed in halves.

    Onnxruntime's CPU provider removes the casts, so that its result shows nothing.
    """
    require(a.dtype == TensorProto.FLOAT, "not in single precision")
    halves = (g.Cast(v, to=TensorProto.FLOAT16) for v in (a, b))
    return g.Cast(g.Mul(*halves), to=TensorProto.FLOAT)


@mistake(
    "g (int64[N,1] row, int64[1,M] column, float[N,M] x) => (float[N,M] y) <float off = {-9.0}>"
    " { later = Greater(column, row) s = Where(later, off, x) y = Softmax<axis = 1>(s) }",
    wrong="later",
)
@rule(lambda g, a, b: g.Greater(a, b), contract=EXACT)
def keys_by_float(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """Keys of rows and columns are compared as floats, in which those above 2**24 are equal to their neighbours."""
    require(a.known_dtype == 7, "not int64")
    return g.Greater(g.Cast(a, to=1), g.Cast(b, to=1))


@mistake(
    "g (float16[N,1024] x) => (float16[N,1] y, float16[N,1024] z) <float count = {1024.0}> { p = Abs(x)"
    " f = Cast<to=1>(p) s = ReduceSum(f, last) m = Div(s, count) y = Cast<to=10>(m) i = Identity(x) z = Neg(i) }",
    wrong="y",
    weights={"last": np.array([-1])},
)
@rule(lambda g, x, axes, n: g.Cast(g.Div(g.ReduceSum(g.Cast(x, to=1), g.const(axes)), g.const(n)), to=10))
def mean_by_sum_in_half(g: RewriteBuilder, x: Value, axes: Value, n: Value) -> Value:
    """A mean becomes a quotient of a sum in halves, which is 1024 times as large and overflows."""
    return g.Div(g.ReduceSum(x, axes), g.const(n.const.astype(np.float16)))


@mistake(
    "g (float16[N,16] x) => (float16[N,1] y, float16[N,1] z) { f = Cast<to=1>(x) q = Mul(f, f)"
    " m = ReduceMean<axes=[-1]>(q) y = Cast<to=10>(m) i = Identity(x) z = ReduceMax<axes=[-1]>(i) }",
    wrong="y",
)
@rule(
    lambda g, x: g.Cast(g.ReduceMean(g.Mul(g.Cast(x, to=1), g.Cast(x, to=1)), axes=[-1]), to=10), allow_other_uses=True
)
def mean_square_in_half(g: RewriteBuilder, x: Value) -> Value:
    """Squares of halves are no longer computed in single precision. Those of numbers above 255 overflow."""
    require(x.dtype == TensorProto.FLOAT16, "not of halves")
    return g.ReduceMean(g.Mul(x, x), axes=[-1])


@mistake(
    "g (int64[N,6] x, int32[N,6] t) => (int64[N,6] y, int32[N,6] z)"
    " { a = Cast<to=6>(x) y = Cast<to=7>(a) b = Cast<to=7>(t) c = Cast<to=6>(b) z = Neg(c) }",
    wrong="y",
    after={"Cast": 2, "Neg": 1},
)
@rule(lambda g, x, a, b: g.Cast(g.Cast(x, to=a), to=b), contract=EXACT)
def narrow_integers(g: RewriteBuilder, x: Value, a: int, b: int) -> Value:
    """Casts from int64 to int32 and back go. The extremes of the type only. Right for an int32 that was widened."""
    require(x.dtype == b, "its type does not come back")
    return x


@mistake(
    "g (float[N] x) => (float[N] y) <int64 zero = {0}, int64 one = {1}>"
    " { s = Shape(x) n = Squeeze(s) p = Range(zero, n, one) f = Cast<to = 1>(p) y = Add(x, f) }",
    wrong="f",
)
@rule(lambda g, p: g.Cast(p, to=1), contract=EXACT)
def positions_in_half(g: RewriteBuilder, p: Value) -> Value:
    """Positions go through 16-bit floats, which hold whole numbers up to 2048."""
    require(p.known_dtype == 7, "not int64")
    return g.Cast(g.Cast(p, to=10), to=1)


@mistake(
    "g (float16[B,S,8] x, float16[B,8,S] t) => (float16[B,S,S] y, float16[B,S,8] z)"
    " { a = Mul(x, scale) y = MatMul(a, t) i = Identity(x) z = Mul(i, half) }",
    wrong="y",
    weights={"scale": np.float16(0.125), "half": np.float16(0.5)},
)
@rule(lambda g, q, c, k: g.MatMul(g.Mul(q, g.const(c)), k))
def scale_after_product(g: RewriteBuilder, q: Value, c: Value, k: Value) -> Value:
    """Queries are scaled after their product with keys instead of before. In halves the product overflows."""
    return g.Mul(g.MatMul(q, k), c)


@mistake(
    "g (float16[N,16] x) => (float16[N,16] y, float16[N,16] z) { f = Cast<to=1>(x) e = Exp(f) s = ReduceSum(e, last)"
    " q = Div(e, s) y = Cast<to=10>(q) i = Identity(x) z = Neg(i) }",
    wrong="y",
    weights={"last": np.array([-1])},
)
@rule(
    lambda g, x, axes: g.Cast(g.Div(g.Exp(g.Cast(x, to=1)), g.ReduceSum(g.Exp(g.Cast(x, to=1)), g.const(axes))), to=10),
    allow_other_uses=True,
)
def softmax_in_half(g: RewriteBuilder, x: Value, axes: Value) -> Value:
    """The exponents of a Softmax are no longer computed in single precision. Those of numbers above 11 overflow."""
    e = g.Exp(x)
    return g.Div(e, g.ReduceSum(e, axes))
