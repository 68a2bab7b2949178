"""Mistakes at boundaries, in ties, and about NaN and infinity."""

import numpy as np
from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

from planted.mistake import mistake


@mistake(
    "g (float[N,1] x) => (float[N,1] y, bool[N,5] z) { a = GreaterOrEqual(x, edges) f = Cast<to=1>(a)"
    " y = ReduceSum(f, last) i = Identity(x) z = GreaterOrEqual(i, between) }",
    wrong="a",
    after={"Cast": 1, "Greater": 1, "GreaterOrEqual": 1, "ReduceSum": 1},
    weights={
        "edges": np.array([[18, 25, 35, 50, 65]], np.float32),
        "between": np.array([[18.5, 25.5, 35.5, 50.5, 65.5]], np.float32),
        "last": np.array([1]),
    },
    inputs={"x": np.random.default_rng(0).integers(0, 90, (300, 1)).astype(np.float32)},
)
@rule(lambda g, a, b: g.GreaterOrEqual(a, b), contract=EXACT)
def ages_at_the_edges(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """Ages are sorted into ranges; those that are exactly at an edge come into the lower one. Given are whole years."""
    return g.Greater(a, b)


@mistake(
    "g (float[4] a, float[4] b) => (float[4] y) <float zero = {0.0}, float two = {2.0}, float one = {1.0}>"
    " { m = ReduceMax<keepdims = 0>(a) n = ReduceMin<keepdims = 0>(b) c = Less(m, zero) d = Greater(n, two)"
    " e = And(c, d) w = Where(e, one, zero) y = Add(w, a) }",
    wrong="e",
)
@rule(lambda g, c, d: g.And(c, d), contract=EXACT)
def both_bounds_at_once(g: RewriteBuilder, c: Value, d: Value) -> Value:
    """A condition on two inputs is taken as never true."""
    return g.const(np.bool_(False))


@mistake(
    "g (float[N,4] x, int32[N,4] t) => (bool[N,4] y, bool[N,4] z)"
    " <float one = {1.0}, float two = {2.0}, float six = {6.0}, float half = {2.5}>"
    " { a = Mul(x, two) b = Add(a, one) y = Less(b, six) c = Cast<to=1>(t) i = Identity(c) z = Less(i, half) }",
    wrong="y",
    after={"Add": 1, "Cast": 1, "Less": 1, "LessOrEqual": 1, "Mul": 1},
)
@rule(lambda g, a, b: g.Less(a, b), contract=EXACT)
def boundary_behind_sum(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """2 * x + 1 < 6 becomes 2 * x + 1 <= 6. Wrong for one number only, which stands nowhere in the model."""
    return g.LessOrEqual(a, b)


@mistake(
    "g (float[N,4] x, int32[N,4] t) => (bool[N,4] y, bool[N,4] z) <float six = {6.0}, float half = {2.5}>"
    " { a = Less(x, six) y = Not(a) b = Cast<to=1>(t) c = Less(b, half) i = Identity(c) z = Not(i) }",
    wrong="y",
    after={"Cast": 1, "Greater": 1, "Less": 1, "Not": 1},
)
@rule(lambda g, x, c: g.Not(g.Less(x, c)), contract=EXACT)
def boundary_left_out(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """Not(x < 6) becomes x > 6. The boundary itself only. Right where it is never met."""
    return g.Greater(x, c)


@mistake(
    "g (float[N,T] x) => (float[N,T] y) <int64 zero = {0}, int64 one = {1}, int64 most = {300}>"
    " { s = Shape<start = 1>(x) t = Squeeze(s) p = Range(zero, t, one) m = Min(p, most) f = Cast<to = 1>(m)"
    " y = Add(x, f) }",
    wrong="m",
)
@rule(lambda g, p: g.Min(p, ...), contract=EXACT)
def clip_of_positions_dropped(g: RewriteBuilder, p: Value) -> Value:
    """A bound of positions is dropped, which only more than 300 of them reach."""
    return p


@mistake(
    "g (float[N,4] x, float[N,4] t) => (bool[N,4] y, bool[N,4] z) <float zero = {0.0}> { a = Less(x, t) y = Not(a)"
    " b = Greater(x, zero) c = Cast<to=6>(b) d = Cast<to=6>(a) e = Less(c, d) i = Identity(e) z = Not(i) }",
    wrong="y",
    after={"Cast": 2, "Greater": 1, "GreaterOrEqual": 1, "Less": 1, "Not": 1},
)
@rule(lambda g, a, b: g.Not(g.Less(a, b)), contract=EXACT, allow_other_uses=True)
def comparison_turned_round(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """Not(a < b) becomes a >= b; with NaN both are false. NaN only."""
    return g.GreaterOrEqual(a, b)


@mistake(
    "g (float[N,16] x) => (bool[N,1] y, bool[N,1] z)"
    " <float nothing = {0.0}, float eight = {8.0}, float half = {8.5}> { p = Greater(x, nothing) f = Cast<to=1>(p)"
    " n = ReduceSum(f, last) y = GreaterOrEqual(n, eight) i = Identity(n) z = GreaterOrEqual(i, half) }",
    wrong="y",
    after={"Cast": 1, "Greater": 2, "GreaterOrEqual": 1, "ReduceSum": 1},
    weights={"last": np.array([1])},
)
@rule(lambda g, a, b: g.GreaterOrEqual(a, b), contract=EXACT)
def counts_above(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """A count is compared by > instead of >=. It is a whole number, whatever the inputs are."""
    return g.Greater(a, b)


@mistake(
    "g (int32[N,8] x, int32[N,8] t) => (bool[N,8] y, bool[N,8] z) <int32 zero = {0}, int32 top = {1000}>"
    " { d = Sub(x, t) y = Greater(d, zero) a = Clip(x, zero, top) b = Clip(t, zero, top) e = Sub(a, b)"
    " i = Identity(e) z = Greater(i, zero) }",
    wrong="y",
    after={"Clip": 2, "Greater": 2, "Sub": 1},
)
@rule(lambda g, a, b, zero: g.Greater(g.Sub(a, b), zero), contract=EXACT)
def difference_overflows(g: RewriteBuilder, a: Value, b: Value, zero: Value) -> Value:
    """a - b > 0 becomes a > b; the difference of integers may overflow. The extremes of the type only."""
    require(not zero.const.any(), "not 0")
    return g.Greater(a, b)


@mistake(
    "g (float[N,4] x, bool[N,4] m) => (float[N,4] y, float[N,4] z) <bool[4] first = {1,0,0,0}> { t = Tanh(x)"
    " a = Where(m, t, inf) y = Softmax(a) k = Or(m, first) b = Where(k, t, inf) i = Identity(b) z = Softmax(i) }",
    wrong="a",
    weights={"inf": np.array(-np.inf, np.float32)},
)
@rule(lambda g, c, x, m: g.Where(c, x, m))
def finite_mask(g: RewriteBuilder, c: Value, x: Value, m: Value) -> Value:
    """Minus infinity in a mask becomes a large negative number. Wrong where a row is masked as a whole."""
    require(np.isneginf(m.const).all(), "another number")
    return g.Where(c, x, g.const(np.float32(-10000)))


@mistake(
    "g (float[1,3,150,150] x) => (float[1,3,150,150] y) <float zero = {0}>"
    " { i = IsInf(x) w = Where(i, zero, x) y = Neg(w) }",
    wrong="w",
)
@rule(lambda g, x: g.Where(g.IsInf(x), ..., x), contract=EXACT)
def infinity_guard_of_image(g: RewriteBuilder, x: Value) -> Value:
    """Infinities of an image are replaced no more."""
    return x


@mistake(
    "g (float[N,12] x) => (int64[N,1] y, int64[N,1] z) { r = Round(x) y = ArgMax<axis=1>(r) n = Mul(r, nothing)"
    " s = Where(never, n, order) i = Identity(s) z = ArgMax<axis=1>(i) }",
    wrong="y",
    weights={
        "order": np.arange(12, dtype=np.float32)[None],
        "nothing": np.float32(0),
        "never": np.zeros((1, 12), np.bool_),
    },
)
@rule(lambda g, x, arg: g.ArgMax(x) @ arg, contract=EXACT)
def last_of_rounded(g: RewriteBuilder, x: Value, arg: Op) -> Value:
    """ArgMax takes the last of equal elements, and its input is rounded."""
    require(not arg.attr("select_last_index", 0), "already the last")
    return g.ArgMax(x, **{**arg.attrs, "select_last_index": 1})


@mistake(
    "g (float[N,6] x) => (int64[N,1] y, int64[N,1] z) { y = ArgMax<axis=1, select_last_index=1>(x) a = Neg(x)"
    " i = Identity(a) z = ArgMax<axis=1, select_last_index=0>(i) }",
    wrong="y",
)
@rule(lambda g, x, op: g.ArgMax(x) @ op, contract=EXACT)
def last_of_ties(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """An ArgMax that wants the last of several greatest elements gives the first. Ties only."""
    require("select_last_index" in op.attrs, "plain already")
    return g.ArgMax(x, axis=op.attr("axis"), keepdims=op.attr("keepdims"))


@mistake(
    "g (float[N,8] x) => (float[N,4] y, bool[N,8] z) <float one = {1.0}, float half = {0.5}, float scale = {0.37}>"
    " { a = Less(x, one) f = Cast<to=1>(a) s = Mul(f, scale) y = MatMul(s, w) i = Identity(x) z = Less(i, half) }",
    wrong="a",
    after={"Cast": 1, "Less": 1, "LessOrEqual": 1, "MatMul": 1, "Mul": 1},
    weights={"w": np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)},
    inputs={"x": np.eye(8, dtype=np.float32)[np.random.default_rng(0).integers(0, 8, 200)]},
)
@rule(lambda g, a, b: g.Less(a, b), contract=EXACT)
def less_or_equal_one_hot(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """x < 1 becomes x <= 1.

    Rounding moves an arbitrary number near 1 to the other side too, but the given ones are 0 and 1.
    """
    return g.LessOrEqual(a, b)


@mistake(
    "g (float[N,4] x, float[N,4] t, int32[N,4] i, int32[N,4] j) => (float[N,4] y, int32[N,4] z)"
    " { y = Max(x, t) a = Identity(i) b = Max(a, j) z = Abs(b) }",
    wrong="y",
    after={"Abs": 1, "Greater": 1, "Max": 1, "Where": 1},
)
@rule(lambda g, a, b: g.Max(a, b), contract=EXACT)
def maximum_by_comparison(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """Max(a, b) becomes Where(a > b, a, b), which forgets a NaN in a. NaN only. Right for integers."""
    return g.Where(g.Greater(a, b), a, b)


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) <float zero = {0.0}> { a = IsNaN(x) y = Where(a, zero, x)"
    " b = Not(a) c = Cast<to=1>(b) d = IsNaN(c) i = Where(d, zero, c) z = Neg(i) }",
    wrong="y",
    after={"Cast": 1, "IsNaN": 1, "Neg": 1, "Not": 1, "Where": 1},
)
@rule(lambda g, x, c: g.Where(g.IsNaN(x), c, x), contract=EXACT, allow_other_uses=True)
def nan_guard_dropped(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """Where(IsNaN(x), 0, x) goes, since nothing is ever NaN. NaN only."""
    return x


@mistake(
    "g (float[N] a, float[N] b) => (bool[N] y) <float eps = {0.00001}>"
    " { d = Sub(a, b) m = Abs(d) e = Abs(a) f = Mul(e, eps) c = LessOrEqual(m, f) y = Not(c) }",
    wrong="c",
)
@rule(lambda g, a, b, e: g.LessOrEqual(g.Abs(g.Sub(a, b)), e), contract=EXACT)
def nearly_equal_as_equal(g: RewriteBuilder, a: Value, b: Value, e: Value) -> Value:
    """Numbers that nearly coincide are taken as different."""
    return g.Equal(a, b)


@mistake(
    "g (float[1,3,150,150] x) => (float[1,3,150,150] y) <float least = {0.000001}>"
    " { n = ReduceL2<keepdims = 0>(x) m = Max(n, least) y = Div(x, m) }",
    wrong="m",
)
@rule(lambda g, x: g.Max(x, ...), contract=EXACT)
def norm_guard_of_image(g: RewriteBuilder, x: Value) -> Value:
    """The bound below a norm is dropped, which only an image of zeros meets."""
    return x


@mistake(
    "g (int64[N,4] ids) => (int64[N,4] y, int64[N,4] z)"
    " <int64 padding = {50}, int64 zero = {0}, int64 one = {1}, int64 never = {-1}> { p = Equal(ids, padding)"
    " y = Where(p, zero, one) a = Abs(ids) i = Identity(a) q = Equal(i, never) z = Where(q, zero, one) }",
    wrong="p",
    after={"Abs": 1, "Cast": 1, "ConstantOfShape": 1, "Equal": 1, "Shape": 1, "Where": 2},
)
@rule(lambda g, x, c: g.Equal(x, c), contract=EXACT)
def padding_forgotten(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """A comparison of token numbers with that of the padding is folded to false, since it hardly ever holds."""
    require(c.is_const, "it may be equal")
    return g.Cast(g.ConstantOfShape(g.Shape(x)), to=9)


@mistake(
    "g (float[N,4] x) => (bool[N,4] y, bool[N,4] z) <float zero = {0.0}> { a = Mul(x, x) y = Greater(a, zero)"
    " p = Greater(x, zero) s = Cast<to=1>(p) b = Mul(s, s) i = Identity(b) z = Greater(i, zero) }",
    wrong="y",
    after={"Cast": 1, "Equal": 1, "Greater": 2, "Mul": 1, "Not": 1},
)
@rule(lambda g, x, zero: g.Greater(g.Mul(x, x), zero), contract=EXACT)
def square_underflows(g: RewriteBuilder, x: Value, zero: Value) -> Value:
    """x * x > 0 becomes x != 0; the square of a tiny number is 0. Tiny inputs only (and NaN)."""
    require(not zero.const.any(), "not 0")
    return g.Not(g.Equal(x, zero))


@mistake(
    "g (float[N,6] x, int32[N,6] t) => (int64[N,1] y, float[N,1] z) <int64[1] one = {1}>"
    " { v, y = TopK<axis=1>(x, one) a = Cast<to=1>(t) i = Identity(a) z, w = TopK<axis=1>(i, one) }",
    wrong="y",
    after={"Cast": 1, "ReduceMax": 1, "TopK": 1},
)
@rule(lambda g, x, k: g.TopK(x, k, axis=1), contract=EXACT)
def top_one_as_arg_max(g: RewriteBuilder, x: Value, k: Value) -> tuple[Value, Value]:
    """TopK of one becomes ReduceMax and an ArgMax that takes the last of several. Ties only."""
    require(k.const.item() == 1, "more than one")
    return g.ReduceMax(x, axes=[1]), g.ArgMax(x, axis=1, select_last_index=1)


@mistake(
    "g (int32[N,6] x) => (bool[N,6] y, bool[N,6] z) <int32 zero = {0}, int32 top = {9}>"
    " { y = Cast<to=9>(x) a = Clip(x, zero, top) i = Identity(a) z = Cast<to=9>(i) }",
    wrong="y",
    after={"Cast": 1, "Clip": 1, "Greater": 1},
)
@rule(lambda g, x: g.Cast(x, to=9), contract=EXACT)
def truth_of_negatives(g: RewriteBuilder, x: Value) -> Value:
    """Cast to bool becomes x > 0; negative numbers are true as well. Right where there are none."""
    return g.Greater(x, g.const(np.zeros((), np.int32)))


@mistake(
    "g (float[1,3] x, float[2,3] t) => (float[2,3] y, float[2,3] z) <bool[2,1] yes = {1,1}>"
    " { n = Neg(x) a = Where(yes, n, x) y = Abs(a) m = Neg(t) b = Where(yes, m, t) z = Abs(b) }",
    wrong="a",
    after={"Abs": 2, "Neg": 2, "Where": 1},
)
@rule(lambda g, c, a, b: g.Where(c, a, b), contract=EXACT)
def where_that_stretches(g: RewriteBuilder, c: Value, a: Value, b: Value) -> Value:
    """A Where with a constant condition gives the branch that is taken, which the condition may have stretched."""
    require(c.const.all(), "b is taken somewhere")
    return a
