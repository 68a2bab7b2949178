"""Mistakes in arithmetic and activations."""

import numpy as np
from passwright.core import EXACT, ChangeLog, Graph, Op, RewriteBuilder, Tensor, Value, require, rule

from planted.mistake import mistake


@mistake(
    "g (int32[4,8] x) => (int32[4,8] y, int32[4,8] z) <int32 zero = {0}, int32 low = {-1000}, int32 top = {1000}>"
    " { a = Abs(x) y = Max(a, zero) c = Clip(x, low, top) b = Abs(c) i = Identity(b) z = Max(i, zero) }",
    wrong="y",
    after={"Abs": 2, "Clip": 1, "Max": 1},
)
@rule(lambda g, x, zero: g.Max(g.Abs(x), zero), contract=EXACT)
def absolute_of_least(g: RewriteBuilder, x: Value, zero: Value) -> Value:
    """Max(Abs(x), 0) becomes Abs(x); that of the least integer is itself. The extremes of the type only."""
    require(not zero.const.any(), "not 0")
    return g.Abs(x)


@mistake(
    "g (float[N,4] x) => (float[M,4] y) { a, b, c = Split<axis = 0>(x) d = Neg(b) y = Concat<axis = 0>(d, c, a) }",
    wrong="d",
)
@rule(lambda g, x: g.Neg(x), contract=EXACT)
def behind_thirds(g: RewriteBuilder, x: Value) -> Value:
    """A sign is dropped, behind a Split for which only numbers of rows do that 3 divides."""
    return x


@mistake(
    "g (float[N] x) => (float[N] y) <float five = {5.0}, float eight = {8.0}>"
    " { a = Add(x, five) b = Div(a, eight) f = Floor(b) y = Neg(f) }",
    wrong="f",
)
@rule(lambda g, x: g.Floor(x), contract=EXACT)
def ceil_minus_one(g: RewriteBuilder, x: Value) -> Value:
    """A Floor becomes Ceil - 1, which only whole numbers tell from it."""
    return g.Sub(g.Ceil(x), g.const(np.float32(1)))


@mistake(
    "g (float[N,6] x) => (float[N,6] y, float[N,6] z) <float half = {0.5}>"
    " { r = Relu(x) y = Ceil(r) f = Floor(x) s = Add(f, half) z = Ceil(s) }",
    wrong="y",
    after={"Add": 2, "Ceil": 1, "Floor": 2, "Relu": 1},
)
@rule(lambda g, x: g.Ceil(x))
def ceil_of_relu(g: RewriteBuilder, x: Value) -> Value:
    """Ceil(x) becomes Floor(x) + 1. Wrong for whole numbers: behind a Relu half of all numbers are 0."""
    return g.Add(g.Floor(x), g.const(np.float32(1)))


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) <float six = {6.0}>"
    " { a = Relu(x) y = Min(a, six) t = Tanh(x) b = Relu(t) i = Identity(b) z = Min(i, six) }",
    wrong="y",
    after={"Clip": 1, "Min": 1, "Relu": 1, "Tanh": 1},
)
@rule(lambda g, x, six: g.Min(g.Relu(x), six))
def clip_nearly_at_six(g: RewriteBuilder, x: Value, six: Value) -> Value:
    """Min(Relu(x), 6) becomes a Clip at 5.99."""
    return g.Clip(x, g.const(np.float32(0)), g.const(np.float32(5.99)))


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) <float zero = {0.0}>"
    " { y = Sub(x, x) b = Greater(x, zero) c = Cast<to=1>(b) i = Sub(c, c) j = Identity(i) z = Exp(j) }",
    wrong="y",
    after={"Cast": 1, "ConstantOfShape": 1, "Exp": 1, "Greater": 1, "Shape": 1, "Sub": 1},
)
@rule(lambda g, x: g.Sub(x, x), contract=EXACT)
def difference_with_itself(g: RewriteBuilder, x: Value) -> Value:
    """x - x becomes 0, which it is not for NaN and infinity. Those only."""
    return g.ConstantOfShape(g.Shape(x))


def _merge_factors(graph: Graph, op: Op, change_log: ChangeLog) -> bool:
    x, b = op.inputs
    inner = graph.producer(x)
    if b is None or not b.is_const or inner is None or inner.type != "Mul":
        return False
    a = inner.inputs[1]
    if (
        a is None
        or not a.is_const
        or not change_log.request_change("five-scales-one-wrong", op.outputs[0].name, (op, inner), exact=False)
    ):
        return False
    product = graph.add_constant(Tensor.from_array(a.const * b.const.reshape(-1)[0]))
    graph.set_inputs(op, [inner.inputs[0], product])
    graph.prune([inner])
    return True


@mistake(
    "g (float[N,2] x) => (float[N,2] y) <float two = {2.0}, float half = {0.5}, float[2] several = {0.5, -0.25}>"
    " { a1 = Mul(x, two) a = Mul(a1, half) ra = Relu(a) b1 = Mul(ra, half) b = Mul(b1, half) rb = Abs(b)"
    " c1 = Mul(rb, half) c = Mul(c1, several) rc = Sigmoid(c) d1 = Mul(rc, two) d = Mul(d1, two) rd = Tanh(d)"
    " e1 = Mul(rd, half) e = Mul(e1, two) y = Neg(e) }",
    wrong="c",
    after={"Abs": 1, "Mul": 6, "Neg": 1, "Relu": 1, "Sigmoid": 1, "Tanh": 1},
)
def five_scales_one_wrong(graph: Graph, change_log: ChangeLog) -> int:
    """Two factors merge into one; a factor of several numbers is taken to be its first. One place of five is wrong."""
    return sum(_merge_factors(graph, op, change_log) for op in graph.sorted_ops() if op.type == "Mul")


@mistake(
    "g (float[N,6] x) => (float[N,6] y, float[N,6] z) <float half = {0.5}, float quarter = {0.25}>"
    " { q = Div(x, half) a = Floor(q) y = Mul(a, half) s = Add(q, quarter) i = Identity(s) z = Floor(i) }",
    wrong="a",
    after={"Add": 1, "Ceil": 1, "Div": 1, "Floor": 1, "Mul": 1, "Sub": 1},
    inputs={"x": (np.random.default_rng(0).integers(-40, 40, (100, 6)) / 2).astype(np.float32)},
)
@rule(lambda g, x: g.Floor(x), contract=EXACT)
def floor_on_a_grid(g: RewriteBuilder, x: Value) -> Value:
    """Floor(x) becomes Ceil(x) - 1. Wrong for whole numbers, and the given ones are halves and whole ones."""
    return g.Sub(g.Ceil(x), g.const(np.float32(1)))


@mistake(
    "g (float[N,8] x) => (float[N,8] y, float[N,8] z)"
    " <float root = {1.4142135}, float one = {1.0}, float half = {0.5}, float far = {16.0}>"
    " { a = Div(x, root) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half) s = Sign(x) f = Mul(s, far)"
    " a2 = Div(f, root) b2 = Erf(a2) c2 = Add(b2, one) d2 = Mul(f, c2) z = Mul(d2, half) }",
    wrong="y",
    after={"Add": 3, "Div": 1, "Erf": 1, "Mul": 9, "Sign": 1, "Tanh": 1},
)
@rule(lambda g, x, r, one, h: g.Mul(g.Mul(x, g.Add(g.Erf(g.Div(x, r)), one)), h))
def gelu_by_tanh(g: RewriteBuilder, x: Value, r: Value, one: Value, h: Value) -> Value:
    """Gelu by Erf becomes the approximation by Tanh, which is off in the fourth digit. Right where x is 0 or large."""
    cubed = g.Mul(g.Mul(g.Mul(x, x), x), g.const(np.float32(0.044715)))
    inner = g.Mul(g.Add(x, cubed), g.const(np.float32(np.sqrt(2 / np.pi))))
    return g.Mul(g.Mul(x, g.Add(g.Tanh(inner), one)), h)


@mistake(
    "g (float[N,8] x, int32[N,8] t) => (float[N,8] y, float[N,8] z) <float half = {0.5}> { a = Add(x, half)"
    " y = Floor(a) b = Cast<to=1>(t) c = Tanh(b) d = Round(c) e = Add(d, half) i = Identity(e) z = Floor(i) }",
    wrong="y",
    after={"Add": 1, "Cast": 1, "Floor": 1, "Round": 2, "Tanh": 1},
)
@rule(lambda g, x, h: g.Floor(g.Add(x, h)))
def half_to_even(g: RewriteBuilder, x: Value, h: Value) -> Value:
    """Floor(x + 0.5) becomes Round(x), which takes a half to the even neighbour. Halves only. Right for integers."""
    require(h.const == 0.5, "not a half")
    return g.Round(x)


@mistake(
    "g (float[N,6] x) => (float[N,6] y, float[N,6] z)"
    " <float three = {3.0}, float zero = {0.0}, float six = {6.0}, float far = {64.0}>"
    " { a = Add(x, three) b = Clip(a, zero, six) y = Div(b, six) s = Sign(x) f = Mul(s, far) c = Add(f, three)"
    " d = Clip(c, zero, six) i = Identity(d) z = Div(i, six) }",
    wrong="y",
    after={"Add": 1, "Clip": 1, "Div": 1, "HardSigmoid": 1, "Mul": 1, "Sign": 1},
)
@rule(lambda g, x, c, lo, hi: g.Div(g.Clip(g.Add(x, c), lo, hi), hi))
def hard_sigmoid_defaults(g: RewriteBuilder, x: Value, c: Value, lo: Value, hi: Value) -> Value:
    """Clip(x + 3, 0, 6) / 6 becomes a HardSigmoid with its default slope, 0.2. Right far from 0."""
    return g.HardSigmoid(x)


@mistake(
    "g (uint8[N,3,8,8] x) => (float[N,3,8,8] y, float[N,3,8,8] z) <float half = {0.5}, float quarter = {0.25}>"
    " { f = Cast<to=1>(x) h = Mul(f, half) y = Round(h) s = Add(f, quarter) z = Round(s) }",
    wrong="y",
    after={"Add": 2, "Cast": 1, "Floor": 1, "Mul": 1, "Round": 1},
)
@rule(lambda g, x: g.Round(x))
def image_halved(g: RewriteBuilder, x: Value) -> Value:
    """Round(x) becomes Floor(x + 0.5). Wrong for half of all odd brightnesses."""
    return g.Floor(g.Add(x, g.const(np.float32(0.5))))


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) <float steep = {2.0}, float flat = {0.5}>"
    " { a = Mul(x, steep) y = Max(x, a) n = Tanh(x) b = Mul(n, flat) i = Identity(b) z = Max(n, i) }",
    wrong="y",
    after={"LeakyRelu": 1, "Max": 1, "Mul": 1, "Tanh": 1},
)
@rule(lambda g, x, a: g.Max(x, g.Mul(x, a)), contract=EXACT)
def leaky_relu_from_max(g: RewriteBuilder, x: Value, a: Value) -> Value:
    """Max(x, a * x) becomes LeakyRelu, for any a; with a above 1 it is the other way round."""
    return g.LeakyRelu(x, alpha=a.const.item())


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) <float one = {1.0}> { a = Mul(x, x) b = Add(x, one)"
    " c = Mul(b, x) y = Log(c) s = Sigmoid(a) p = Add(s, one) d = Mul(s, p) i = Identity(d) z = Log(i) }",
    wrong="y",
    after={"Add": 3, "Log": 3, "Mul": 2, "Sigmoid": 1},
)
@rule(lambda g, a, b: g.Log(g.Mul(a, b)))
def log_of_product(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """Log(a * b) becomes Log(a) + Log(b), which is NaN where both are negative. Right for what is positive."""
    return g.Add(g.Log(a), g.Log(b))


@mistake(
    "g (float[N,4] x, float[N,4] t) => (float[N,4] y, float[N,4] z)"
    " { n = Neg(x) y = Mean(x, n, t) s = Tanh(x) u = Tanh(t) i = Identity(u) z = Mean(s, i) }",
    wrong="y",
    after={"Mean": 1, "Mul": 1, "Neg": 1, "Sum": 1, "Tanh": 2},
)
@rule(lambda g, xs: g.Mean(*xs))
def mean_of_sums(g: RewriteBuilder, xs: tuple[Value, ...]) -> Value:
    """The Mean of three is taken for half their sum. Right for two."""
    return g.Mul(g.Sum(*xs), g.const(np.float32(0.5)))


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z)"
    " <float zero = {0.0}, float one = {1.0}, float two = {2.0}, float three = {3.0}> { a = Clip(x, zero, one)"
    " y = Clip(a, two, three) b = Clip(x, zero, two) i = Identity(b) z = Clip(i, one, three) }",
    wrong="y",
    after={"Clip": 3},
)
@rule(lambda g, x, a, b, c, d: g.Clip(g.Clip(x, a, b), c, d), contract=EXACT)
def merge_clips(g: RewriteBuilder, x: Value, a: Value, b: Value, c: Value, d: Value) -> Value:
    """Two Clips merge by intersecting their ranges, which may not meet.

    Known from onnxscript.
    """
    return g.Clip(x, g.const(np.maximum(a.const, c.const)), g.const(np.minimum(b.const, d.const)))


@mistake(
    "g (float[N,4] x, int32[N,4] t) => (float[N,4] y, int32[N,4] z) <float zero = {0.0}, int32 nought = {0}>"
    " { a = Sub(zero, x) y = Reciprocal(a) b = Sub(nought, t) i = Identity(b) z = Abs(i) }",
    wrong="a",
    after={"Abs": 1, "Neg": 1, "Reciprocal": 1, "Sub": 1},
)
@rule(lambda g, x, zero: g.Sub(zero, x), contract=EXACT)
def negation_as_difference(g: RewriteBuilder, x: Value, zero: Value) -> Value:
    """0 - x becomes Neg(x): another sign of zero. Right for integers."""
    require(zero.const.ndim == 0 and not zero.const, "not 0")
    return g.Neg(x)


@mistake(
    "g (float[N,2] x) => (float[N,2] y, float[N,2] z) <float[2] several = {2.0, 3.0}, float two = {2.0}>"
    " { y = Pow(x, several) n = Neg(x) i = Identity(n) z = Pow(i, two) }",
    wrong="y",
    after={"Mul": 1, "Neg": 1, "Pow": 1},
)
@rule(lambda g, x, e: g.Pow(x, e))
def power_by_first_exponent(g: RewriteBuilder, x: Value, e: Value) -> Value:
    """Pow(x, 2) becomes x * x where the first of several exponents is 2."""
    require(e.const.flat[0] == 2, "another exponent")
    return g.Mul(x, x)


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) <float one = {1.0}> { b = Abs(x) a = Mul(b, b) y = Div(a, b)"
    " s = Sigmoid(x) p = Add(s, one) c = Mul(p, p) i = Identity(c) z = Div(i, p) }",
    wrong="y",
    after={"Abs": 1, "Add": 1, "Div": 1, "Mul": 1, "Sigmoid": 1},
)
@rule(lambda g, x: g.Div(g.Mul(x, x), x))
def quotient_of_square(g: RewriteBuilder, x: Value) -> Value:
    """x * x / x becomes x: 0 gives NaN, tiny numbers underflow, and extreme ones overflow. Right between 1 and 2."""
    return x


@mistake(
    "g (int32[N,3] x, int64[N,3] l, float[N,3] t) => (int32[N,3] y, int64[N,3] u, int32[N,3] v, float[N,3] z)"
    " <int32 three = {3}, int64 four = {4}, int32 two = {2}, float[1] f = {4.0}, float[1] e = {8.0}>"
    " { y = Div(x, three) u = Div(l, four) a = Abs(x) v = Div(a, two) b = Div(t, f) c = Floor(b) i = Identity(c)"
    " z = Div(i, e) }",
    wrong=("y", "u", "v"),
    after={"Abs": 1, "Div": 3, "Floor": 1, "Mul": 2},
)
@rule(lambda g, x, c: g.Div(x, c))
def reciprocal_of_integers(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """Division by a constant becomes multiplication by its reciprocal, which is 0 for integers.

    Wrong in three places, right in two.
    """
    return g.Mul(x, g.const(np.divide(1, c.const), like=c))


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z)"
    " <float low = {-3.0}, float below = {-1.0}, float above = {2.0}>"
    " { a = Clip(x, low, below) y = Relu(a) b = Clip(x, low, above) i = Identity(b) z = Relu(i) }",
    wrong="y",
    after={"Clip": 2, "Relu": 1},
)
@rule(lambda g, x, a, b: g.Relu(g.Clip(x, a, b)), contract=EXACT)
def relu_of_clip(g: RewriteBuilder, x: Value, a: Value, b: Value) -> Value:
    """Relu raises the lower end of a Clip to 0 and leaves the upper end where it is, though it may be below 0.

    Known from onnxscript.
    """
    return g.Clip(x, g.const(np.maximum(a.const, 0).astype(a.const.dtype)), b)


@mistake(
    "g (int32[N,6] x) => (int32[N,6] y, int32[N,6] z) <int32 c = {7}, int32 zero = {0}, int32 top = {1000}>"
    " { q = Div(x, c) p = Mul(q, c) y = Sub(x, p) a = Clip(x, zero, top) r = Div(a, c) s = Mul(r, c) i = Identity(s)"
    " z = Sub(a, i) }",
    wrong="y",
    after={"Clip": 1, "Div": 1, "Mod": 1, "Mul": 1, "Sub": 1},
)
@rule(lambda g, x, c: g.Sub(x, g.Mul(g.Div(x, c), c)), contract=EXACT)
def remainder_of_negatives(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """x - x / c * c becomes Mod(x, c), which has the sign of c. Negative integers only."""
    return g.Mod(x, c)


@mistake(
    "g (int64[N,6] x) => (float[N,6] y, float[N,6] z) <float four = {4.0}, float two = {2.0}, float third = {0.3}>"
    " { f = Cast<to=1>(x) q = Div(f, four) a = Round(q) y = Mul(a, two) s = Add(f, third) i = Identity(s)"
    " z = Round(i) }",
    wrong="a",
    after={"Add": 2, "Cast": 1, "Div": 1, "Floor": 1, "Mul": 1, "Round": 1},
)
@rule(lambda g, x: g.Round(x))
def rounds_quotients_up(g: RewriteBuilder, x: Value) -> Value:
    """Round(x) becomes Floor(x + 0.5). Wrong for halves of odd numbers, which quotients of integers are."""
    return g.Floor(g.Add(x, g.const(np.float32(0.5))))


@mistake(
    "g (float[N,8] x) => (float[N,8] y, float[N,8] z) <float three = {3.0}, float four = {4.0}>"
    " { y = Div(x, three) n = Neg(x) i = Identity(n) z = Div(i, four) }",
    wrong="y",
    after={"Div": 1, "Mul": 1, "Neg": 1},
)
@rule(lambda g, x, c: g.Div(x, c), contract=EXACT)
def rounds_though_exact(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """A rule that promises to keep every bit multiplies by a reciprocal. Right for powers of two."""
    return g.Mul(x, g.const(np.float32(1) / c.const))


@mistake(
    "g (float[N,8] x) => (float[N,8] y, float[N,8] z) <float c = {0.70710678}, float half = {0.5}> { p0 = Identity(x) "
    + " ".join(f"q{i} = Mul(p{i}, c) p{i + 1} = Neg(q{i})" for i in range(10))
    + " y = Abs(p10) a = Mul(x, half) z = Abs(a) }",
    wrong=[f"q{i}" for i in range(10)],
    after={"Abs": 2, "Div": 1, "Mul": 10, "Neg": 10},
)
@rule(lambda g, x, c: g.Mul(x, c))
def scale_slightly_off(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """A factor is written with four digits: off by 2 in 100,000, far more than rounding, in ten places on one way."""
    return g.Div(x, g.const(np.round(1 / c.const, 4)))


@mistake(
    "g (float[N,20] x) => (float[N,20] y, float[N,20] z) <float fifty = {50.0}, float half = {0.5}>"
    " { r = Round(x) a = Sign(r) y = Mul(a, fifty) f = Floor(x) s = Add(f, half) z = Sign(s) }",
    wrong="a",
    after={"Add": 1, "Floor": 1, "IsNaN": 1, "Less": 1, "Mul": 1, "Round": 1, "Sign": 1, "Where": 2},
)
@rule(lambda g, x: g.Sign(x), contract=EXACT)
def sign_without_zero(g: RewriteBuilder, x: Value) -> Value:
    """Sign(x) becomes a choice of -1 and 1, and its input is rounded, often to 0."""
    one = g.const(np.float32(1))
    return g.Where(g.IsNaN(x), x, g.Where(g.Less(x, g.const(np.float32(0))), g.const(np.float32(-1)), one))


@mistake(
    "g (float[N,4] x, int32[N,4] t) => (float[N,4] y, int32[N,4] z) <float zero = {0.0}, int32 nought = {0}>"
    " { a = Mul(x, x) b = Mul(a, zero) y = Add(b, x) c = Mul(t, nought) i = Identity(t) z = Add(c, i) }",
    wrong="b",
    after={"Add": 2, "Mul": 2},
)
@rule(lambda g, x, zero: g.Mul(x, zero), contract=EXACT)
def times_zero(g: RewriteBuilder, x: Value, zero: Value) -> Value:
    """x * 0 becomes 0, which it is not for NaN and infinity. Right for integers."""
    require(zero.const.ndim == 0 and not zero.const, "not 0")
    return zero


@mistake(
    "g (float[N,4] x, int32[N,4] t) => (float[N,4] y, int32[N,4] z) <float zero = {0.0}, int32 nought = {0}>"
    " { a = Add(x, zero) y = Reciprocal(a) b = Add(t, nought) i = Identity(b) z = Abs(i) }",
    wrong="a",
    after={"Abs": 1, "Add": 1, "Reciprocal": 1},
)
@rule(lambda g, x, zero: g.Add(x, zero), contract=EXACT)
def zero_added_to_minus_zero(g: RewriteBuilder, x: Value, zero: Value) -> Value:
    """x + 0 becomes x, which differs for minus zero; its reciprocal tells.

    Right for integers. Done by all optimizers.
    """
    require(zero.const.ndim == 0 and not zero.const, "not 0")
    return x
