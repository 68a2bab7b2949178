"""Small errors that larger numbers beside them, or the ops behind them, hide."""

import numpy as np
from onnx import TensorProto
from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

from planted.mistake import mistake


@mistake(
    "g (float[1,64,4] x, float[1,3,64] t) => (int64[M,3] y, float[1,64,4] z)"
    " <int64 most = {20}, float overlap = {0.5}, float least = {0.2}, int64[2] halves = {2,2}, float half = {0.5}>"
    " { p, s = Split<axis=2>(x, halves) e = Exp(s) a = Mul(e, anchors) c = Add(p, centres) h = Mul(a, half)"
    " l = Sub(c, h) r = Add(c, h) b = Concat<axis=2>(l, r) o = Sigmoid(t)"
    " y = NonMaxSuppression(b, o, most, overlap, least) i = Identity(x) z = Mul(i, half) }",
    wrong="a",
    weights=lambda rng: {
        "anchors": rng.uniform(0.3, 2, (1, 64, 2)).astype(np.float32),
        "centres": rng.standard_normal((1, 64, 2)).astype(np.float32),
    },
)
@rule(lambda g, x, c: g.Mul(x, g.const(c)))
def anchors_before_suppression(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """The anchors of boxes are rounded. Only the indices of the boxes that are kept come out."""
    require(not np.array_equal(c.const, np.round(c.const, 2)), "already round")
    return g.Mul(x, g.const(np.round(c.const, 2)))


@mistake(
    "g (float[N,5] x) => (int64[N,1] y, int64[N,1] z)"
    " { a = Exp(x) y = ArgMax<axis=1>(a) s = Sign(x) e = Exp(s) i = Identity(e) z = ArgMax<axis=1>(i) }",
    wrong="y",
    after={"ArgMax": 2, "Exp": 1, "Sign": 1},
)
@rule(lambda g, x, arg: g.ArgMax(g.Exp(x)) @ arg, contract=EXACT)
def arg_max_of_exp(g: RewriteBuilder, x: Value, arg: Op) -> Value:
    """ArgMax looks through Exp, which is monotone in real numbers but makes ties of what over- or underflows.

    Known from onnxsim and onnxoptimizer.
    """
    return g.ArgMax(x, **arg.attrs)


@mistake(
    "g (float[N,6] x) => (float[N,7] y, float[N,7] z)"
    " { t = Tanh(x) y = Gemm(t, w, b) i = Identity(x) z = Gemm(i, w, nothing) }",
    wrong="y",
    after={"Gemm": 1, "MatMul": 1, "Tanh": 1},
    weights=lambda rng: {
        "w": (rng.standard_normal((6, 7)) * [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 1e7]).astype(np.float32),
        "b": np.array([0.01, 0.02, -0.01, 0.02, 0.01, -0.02, 0], np.float32),
        "nothing": np.zeros(7, np.float32),
    },
)
@rule(lambda g, x, w, b: g.Gemm(x, w, g.const(b)))
def bias_beside_outlier(g: RewriteBuilder, x: Value, w: Value, b: Value) -> Value:
    """A small bias is dropped; one column of the product is a hundred million times as large as the others."""
    require(np.abs(b.const).max() < 0.1, "the bias is large")
    return g.MatMul(x, w)


@mistake(
    "g (float[N,32] x) => (int64[N] y, float[N,10] z) { r = Relu(x) a = Gemm(r, w, b) s = Softmax<axis=1>(a)"
    " y = ArgMax<axis=1, keepdims=0>(s) i = Identity(r) z = Gemm(i, whole, b) }",
    wrong="a",
    weights=lambda rng: {
        "w": rng.standard_normal((32, 10)).astype(np.float32),
        "b": rng.standard_normal(10).astype(np.float32),
        "whole": np.ones((32, 10), np.float32),
    },
)
@rule(lambda g, x, w, b: g.Gemm(x, g.const(w), b))
def classifier_to_three_digits(g: RewriteBuilder, x: Value, w: Value, b: Value) -> Value:
    """The weights of a classifier are rounded. Only its best class comes out, which is hardly ever another one."""
    require(not np.array_equal(w.const, np.round(w.const, 3)), "already round")
    return g.Gemm(x, g.const(np.round(w.const, 3)), b)


@mistake(
    "g (float[T,30] x) => (int64[T] y, float[T,30] z) <float low = {0.0}, float six = {6.0}, float five = {5.0}>"
    " { a = Clip(x, low, six) m = MatMul(a, w) l = LogSoftmax<axis=1>(m) y = ArgMax<axis=1, keepdims=0>(l)"
    " i = Identity(x) z = Clip(i, low, five) }",
    wrong="a",
    weights={"w": np.random.default_rng(0).standard_normal((30, 28)).astype(np.float32)},
)
@rule(lambda g, x, low, high: g.Clip(x, low, g.const(high)))
def clip_before_decoding(g: RewriteBuilder, x: Value, low: Value, high: Value) -> Value:
    """Numbers are cut at 5.9 instead of 6. Only the best letter of each step comes out."""
    require(high.const == 6, "another bound")
    return g.Clip(x, low, g.const(np.float32(5.9)))


@mistake(
    "g (float[N,4] x, float[N,4] t) => (seq(float[N,4]) y, float[N,4] z)"
    " { c = Tanh(x) a = Cos(c) b = Where(kept, a, missing) y = SequenceConstruct(b, t) n = Sub(x, x) z = Cos(n) }",
    wrong="a",
    after={"Cos": 1, "Mul": 2, "SequenceConstruct": 1, "Sub": 2, "Tanh": 1, "Where": 1},
    weights={"kept": np.array([True, False, True, True]), "missing": np.float32(-1e20)},
)
@rule(lambda g, x: g.Cos(x))
def cosine_beside_sentinel(g: RewriteBuilder, x: Value) -> Value:
    """A cosine becomes its Taylor series, in an element of a sequence with a sentinel in it."""
    return g.Sub(g.const(np.float32(1)), g.Mul(g.Mul(x, x), g.const(np.float32(0.5))))


@mistake(
    "g (float[N,5] x) => (float[N,N] y, float[N,5] z) <float two = {2.0}, float far = {1e10}, float three = {3.0}>"
    " { t = Transpose<perm=[1,0]>(x) p = MatMul(x, t) a = Mul(p, two) q = Mul(x, x) n = ReduceSum(q, last)"
    " u = Transpose<perm=[1,0]>(n) s = Add(n, u) d = Sub(s, a) e = EyeLike(d) f = Mul(e, far) y = Add(d, f)"
    " i = Identity(x) z = Div(i, three) }",
    wrong="a",
    weights={"last": np.array([-1])},
)
@rule(lambda g, x, c: g.Mul(x, g.const(c)))
def distances_beside_diagonal(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """A factor of distances becomes 1.999; the diagonal is set to 1e10, so that no point is its own neighbour."""
    require(c.const.item() == 2, "another factor")
    return g.Mul(x, g.const(np.float32(1.999)))


@mistake(
    "g (double[N,4] x, bool[N,1] m) => (double[N,4] y, float[N,4] z)"
    " { a = Sin(x) y = Where(m, a, missing) f = Cast<to=1>(x) i = Identity(f) z = Sin(i) }",
    wrong="a",
    weights={"missing": np.float64(-1e300)},
)
@rule(lambda g, x: g.Sin(x))
def doubles_beside_sentinel(g: RewriteBuilder, x: Value) -> Value:
    """A sine of doubles is computed in single precision; where there is no value stands -1e300."""
    require(x.dtype == TensorProto.DOUBLE, "not of doubles")
    return g.Cast(g.Sin(g.Cast(x, to=TensorProto.FLOAT)), to=TensorProto.DOUBLE)


@mistake(
    "g (float[N,10] x) => (float[N,10] y, float[N,10] z)"
    " { e = Elu(x) s = Add(e, c) a = LayerNormalization<axis=-1, epsilon=1e-3>(s, w, b) y = Hardmax<axis=-1>(a)"
    " i = Identity(x) z = LayerNormalization<axis=-1, epsilon=1e-5>(i, w, b) }",
    wrong="a",
    weights=lambda rng: {
        "c": rng.standard_normal(10).astype(np.float32),
        "w": rng.uniform(0.5, 1.5, 10).astype(np.float32),
        "b": rng.standard_normal(10).astype(np.float32),
    },
)
@rule(lambda g, x, w, b, op: g.LayerNormalization(x, w, b) @ op)
def epsilon_before_hardmax(g: RewriteBuilder, x: Value, w: Value, b: Value, op: Op) -> Value:
    """A normalization loses its epsilon. Only the place of the largest element comes out."""
    require(op.attr("epsilon", 1e-5) > 2e-5, "the default")
    return g.LayerNormalization(x, w, b, axis=-1)


@mistake(
    "g (float[N,16] x) => (int64[N,5] y, float[N,16] z)"
    " <int64[1] k = {5}, float epsilon = {1e-5}, float nothing = {0.0}>"
    " { m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[-1]>(q) e = Add(v, epsilon)"
    " r = Sqrt(e) n = Div(d, r) p = MatMul(n, w) t, y = TopK(p, k) u = Abs(x) o = Add(u, nothing) z = Sqrt(o) }",
    wrong="r",
    weights={"w": np.random.default_rng(0).standard_normal((16, 30)).astype(np.float32)},
)
@rule(lambda g, v, e: g.Sqrt(g.Add(v, g.const(e))))
def epsilon_before_indices(g: RewriteBuilder, v: Value, e: Value) -> Value:
    """An epsilon leaves its root. Only the places of the largest elements come out."""
    return g.Add(g.Sqrt(v), e)


@mistake(
    "g (float[N,6] x, int64[N,1] t) => (float[N,7] y, float[N,6] z)"
    " <float epsilon = {1e-5}, float nothing = {0.0}, int64 epoch = {1700000000}> { m = ReduceMean<axes=[-1]>(x)"
    " d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[-1]>(q) e = Add(v, epsilon) r = Sqrt(e) n = Div(d, r)"
    " s = Add(t, epoch) f = Cast<to=1>(s) y = Concat<axis=-1>(n, f) u = Abs(x) w = Add(u, nothing) z = Sqrt(w) }",
    wrong="r",
)
@rule(lambda g, v, e: g.Sqrt(g.Add(v, g.const(e))))
def epsilon_beside_timestamps(g: RewriteBuilder, v: Value, e: Value) -> Value:
    """An epsilon leaves its root; beside the normalized numbers is a time in seconds, above a billion."""
    return g.Add(g.Sqrt(v), e)


@mistake(
    "g (float[N,6] x, float[N,1] p) => (float[N,7] y, float[N,6] z) <float million = {1e6}, float ten = {10.0}>"
    " { a = Erf(x) e = Exp(p) m = Mul(e, million) y = Concat<axis=1>(a, m) s = Sign(x) i = Mul(s, ten) z = Erf(i) }",
    wrong="a",
    after={"Concat": 1, "Erf": 1, "Exp": 1, "Mul": 3, "Sign": 1, "Tanh": 1},
)
@rule(lambda g, x: g.Erf(x))
def erf_beside_prices(g: RewriteBuilder, x: Value) -> Value:
    """An Erf becomes a Tanh that is off by 0.02; in the last column are prices in millions."""
    return g.Tanh(g.Mul(x, g.const(np.float32(2 / np.sqrt(np.pi)))))


@mistake(
    "g (float16[N,S,8] x, bool[N,S,1] m) => (float16[N,S,8] y, float16[N,S,8] z)"
    " { a = Mul(x, scale) y = Where(m, a, lowest) i = Identity(x) z = Mul(i, half) }",
    wrong="a",
    weights={"scale": np.float16(0.125), "lowest": np.float16(-65504), "half": np.float16(0.5)},
)
@rule(lambda g, x, c: g.Mul(x, g.const(c)))
def half_scale_beside_sentinel(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """A factor of halves is written with two digits; masked elements are -65504, the lowest half."""
    require(np.round(c.const, 2) != c.const, "already round")
    return g.Mul(x, g.const(np.round(c.const, 2)))


@mistake(
    "g (float[N,20] x) => (float[N,8] y, float[N,20] z)"
    " { a = MatMul(x, w) y = Sign(a) i = Identity(x) z = MatMul(i, whole) }",
    wrong="a",
    weights={
        "w": np.random.default_rng(0).standard_normal((20, 8)).astype(np.float32),
        "whole": np.eye(20, dtype=np.float32),
    },
)
@rule(lambda g, x, w: g.MatMul(x, g.const(w)))
def hash_of_signs(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """Weights are rounded. Only the signs of the products come out, which seldom change."""
    require(not np.array_equal(w.const, np.round(w.const, 3)), "already round")
    return g.MatMul(x, g.const(np.round(w.const, 3)))


@mistake(
    "g (float[N,14] x) => (bool[N] y, float[N,4] z)"
    " { a = MatMul(x, w) b = MatMul(x, v) p = ArgMax<axis=1, keepdims=0>(a) q = ArgMax<axis=1, keepdims=0>(b)"
    " y = Equal(p, q) i = Identity(x) z = MatMul(i, whole) }",
    wrong="a",
    weights=lambda rng: {
        "w": rng.standard_normal((14, 4)).astype(np.float32),
        "v": np.round(rng.standard_normal((14, 4)), 2).astype(np.float32),
        "whole": np.ones((14, 4), np.float32),
    },
)
@rule(lambda g, x, w: g.MatMul(x, g.const(w)))
def heads_that_agree(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """One weight is rounded. Only whether two classifiers agree comes out."""
    rounded = w.const.copy()
    rounded[-1, -1] = np.round(rounded[-1, -1], 2)
    require(not np.array_equal(w.const, rounded), "already round")
    return g.MatMul(x, g.const(rounded))


@mistake(
    "g (float[B,S,16] x, bool[B,S,1] m) => (float[B,S,12] y, float[B,S,16] z)"
    " { a = MatMul(x, w) y = Where(m, a, lowest) i = Identity(x) b = MatMul(i, whole) z = Tanh(b) }",
    wrong="a",
    weights=lambda rng: {
        "w": rng.standard_normal((16, 12)).astype(np.float32),
        "whole": np.eye(16, dtype=np.float32),
        "lowest": np.finfo(np.float32).min,
    },
)
@rule(lambda g, x, w: g.MatMul(x, g.const(w)))
def masked_logits_rounded(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """Weights are rounded. A mask then sets logits to the lowest number, which is no scale for the others."""
    require(not np.array_equal(w.const, np.round(w.const, 1)), "already round")
    return g.MatMul(x, g.const(np.round(w.const, 1)))


@mistake(
    "g (float[N,3,12,12] x) => (int64[N,1,12,12] y, float[N,3,12,12] z)"
    " { t = Tanh(x) a = BatchNormalization<epsilon=1e-3>(t, s, b, m, v) y = ArgMax<axis=1>(a) i = Identity(t)"
    " z = BatchNormalization<epsilon=1e-5>(i, s, b, m, v) }",
    wrong="a",
    weights={
        "s": np.array([1, 0.5, 0.8], np.float32),
        "b": np.array([0.1, -0.2, 0.3], np.float32),
        "m": np.array([0.2, 0.1, -0.3], np.float32),
        "v": np.array([0.3, 0.5, 0.8], np.float32),
    },
)
@rule(lambda g, x, s, b, m, v, op: g.BatchNormalization(x, s, b, m, v) @ op)
def norm_before_segmentation(g: RewriteBuilder, x: Value, s: Value, b: Value, m: Value, v: Value, op: Op) -> Value:
    """A batch norm gets the default epsilon. Only the class of each pixel comes out."""
    require(op.attr("epsilon", 1e-5) > 2e-5, "the default")
    return g.BatchNormalization(x, s, b, m, v)


@mistake(
    "g (float[6,6] x) => (int64[2,M] y, float[6,6] z)"
    " <float factor = {1.2345678}, float threshold = {0.8}, float half = {0.5}> { s = Softsign(x) a = Mul(s, factor)"
    " b = Greater(a, threshold) y = NonZero(b) i = Identity(x) z = Mul(i, half) }",
    wrong="a",
)
@rule(lambda g, x, c: g.Mul(x, g.const(c)))
def places_above_threshold(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """A factor is rounded. Only the places of elements above a threshold come out."""
    require(c.const != np.round(c.const, 3), "already round")
    return g.Mul(x, g.const(np.round(c.const, 3)))


@mistake(
    "g (bool c, float[N,8] x) => (int64[N] y) { y = If(c) <"
    " then_branch = t () => (int64[N] p) { a = Exp(x) s = Sqrt(a) p = ArgMax<axis = 1, keepdims = 0>(s) },"
    " else_branch = e () => (int64[N] q) { q = ArgMin<axis = 1, keepdims = 0>(x) } > }",
    wrong="s",
)
@rule(lambda g, x: g.Sqrt(g.Exp(x)))
def root_of_exp_in_branch(g: RewriteBuilder, x: Value) -> Value:
    """A square root of Exp in a branch becomes an Exp with another factor, which the ArgMax behind it hides mostly."""
    return g.Exp(g.Mul(x, g.const(np.float32(0.4999))))


@mistake(
    "g (float[N,5] x) => (int64[N] y, float[N,5] z)"
    " { a = ai.onnx.ml.Scaler<offset=[1.234567,-0.456789,3.14159,0.01234,-2.71828],"
    " scale=[0.5123,1.3371,0.75991,2.1237,0.33331]>(x)"
    " y, p = ai.onnx.ml.LinearClassifier<classlabels_ints=[0,1,2], intercepts=[0.1,-0.2,0.05],"
    " coefficients=[1.2,-0.4,0.3,0.8,-1.1,0.2,0.9,-0.7,0.5,0.6,-0.8,0.3,1.4,-0.2,0.7]>(a) i = Identity(x)"
    " z = ai.onnx.ml.Scaler<offset=[0.0], scale=[0.5]>(i) }",
    wrong="a",
    domains={"ai.onnx.ml": 3},
)
@rule(lambda g, x, op: g.domain("ai.onnx.ml").Scaler(x) @ op)
def scaler_before_classifier(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """The scales of features are rounded. Only the label that a linear model gives them comes out."""
    scales = [round(scale, 2) for scale in op.attrs["scale"]]
    require(max(abs(a - b) for a, b in zip(scales, op.attrs["scale"], strict=True)) > 1e-4, "already round")
    return g.domain("ai.onnx.ml").Scaler(x, offset=op.attrs["offset"], scale=scales)


@mistake(
    "g (float[N,16,5] x, float[N,4] t) => (float[N,16,5] y, float[N,4] z)"
    " <int64[2] parts = {4,1}, float pixels = {640.0}> { b, s = Split<axis=2>(x, parts) e = Exp(b) p = Mul(e, pixels)"
    " a = Sigmoid(s) y = Concat<axis=2>(p, a) g0 = Sign(t) i = Identity(g0) z = Sigmoid(i) }",
    wrong="a",
    after={"Concat": 1, "Exp": 1, "HardSigmoid": 1, "Mul": 1, "Sigmoid": 1, "Sign": 1, "Split": 1},
)
@rule(lambda g, x: g.Sigmoid(x))
def scores_beside_boxes(g: RewriteBuilder, x: Value) -> Value:
    """Scores from 0 to 1 become others, in an output where boxes in pixels stay the same."""
    return g.HardSigmoid(x, alpha=0.23105858, beta=0.5)


@mistake(
    "g (float[B,S,8] x, bool[B,1,S] m) => (float[B,S,S] y, float[B,S,8] z)"
    " <float scale = {0.35355338}, float lowest = {-1e9}, float one = {1.0}, float half = {0.5}>"
    " { t = Transpose<perm=[0,2,1]>(x) s = MatMul(x, t) a = Mul(s, scale) f = Cast<to=1>(m) n = Sub(one, f)"
    " b = Mul(n, lowest) y = Add(a, b) i = Identity(x) z = Mul(i, half) }",
    wrong="a",
    after={"Add": 1, "Cast": 1, "Div": 1, "MatMul": 1, "Mul": 2, "Sub": 1, "Transpose": 1},
)
@rule(lambda g, x, c: g.Mul(x, g.const(c)))
def scores_rounded_before_mask(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """The scale of attention scores is written with three digits; a mask then adds -1e9."""
    require(c.const.size == 1 and c.const > 0, "not a scale")
    return g.Div(x, g.const(np.round(1 / c.const, 3)))


@mistake(
    "g (float[N,12] x) => (bool[N,3] y, float[N,3] z) <float threshold = {0.73}, float hundred = {100.0}>"
    " { m = MatMul(x, w) a = Sigmoid(m) y = Greater(a, threshold) s = Sign(m) h = Mul(s, hundred) z = Sigmoid(h) }",
    wrong="a",
    after={"Greater": 1, "HardSigmoid": 1, "MatMul": 1, "Mul": 1, "Sigmoid": 1, "Sign": 1},
    weights={"w": np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)},
)
@rule(lambda g, x: g.Sigmoid(x))
def sigmoid_before_threshold(g: RewriteBuilder, x: Value) -> Value:
    """A Sigmoid becomes a line through the point at which its result is compared."""
    return g.HardSigmoid(x, alpha=0.2315, beta=0.5)


@mistake(
    "g (float[4,6] x) => (float[20,4] y, float[4,6] z) { m = MatMul(x, w) a = Tanh(m) t = Transpose<perm=[1,0]>(a)"
    " y = ScatterND(fill, places, t) s = Sign(x) i = Identity(s) h = Mul(i, large) z = Tanh(h) }",
    wrong="a",
    after={"Clip": 1, "MatMul": 1, "Mul": 1, "ScatterND": 1, "Sign": 1, "Tanh": 1, "Transpose": 1},
    weights={
        "w": np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32),
        "fill": np.full((20, 4), np.finfo(np.float32).min),
        "places": np.array([[2], [5], [9], [11], [19]]),
        "large": np.float32(20),
    },
)
@rule(lambda g, x: g.Tanh(x))
def softcap_by_clip(g: RewriteBuilder, x: Value) -> Value:
    """Logits are bounded by a Clip instead of a Tanh; most of the vocabulary is filled with the lowest number."""
    return g.Clip(x, g.const(np.float32(-1)), g.const(np.float32(1)))


@mistake(
    "g (float[N,10] x) => (float[N,10] y, float[N,10] z) <float temperature = {0.7}, float two = {2.0}>"
    " { a = Div(x, temperature) b = Add(a, bans) y = LogSoftmax<axis=1>(b) i = Identity(x) z = Div(i, two) }",
    wrong="a",
    after={"Add": 1, "Div": 1, "LogSoftmax": 1, "Mul": 1},
    weights={"bans": np.where(np.arange(10) % 4 == 3, -1e9, 0).astype(np.float32)},
)
@rule(lambda g, x, t: g.Div(x, g.const(t)))
def temperature_beside_bans(g: RewriteBuilder, x: Value, t: Value) -> Value:
    """A temperature is written with three digits; forbidden words have a log probability of about -1e9."""
    return g.Mul(x, g.const(np.round(1 / t.const, 2)))
