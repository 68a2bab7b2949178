"""Mistakes in products and in quantization."""

import numpy as np
from onnx import TensorProto
from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

from planted.mistake import mistake


@mistake(
    "g (float[4,3] x) => (float[4,4] y, float[4,4] z) { y = Gemm(x, w, column) a = MatMul(x, v) z = Add(a, row) }",
    wrong="y",
    after={"Gemm": 2},
    weights={
        "w": np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4),
        "v": np.linspace(3, -2, 12, dtype=np.float32).reshape(3, 4),
        "column": np.arange(4, dtype=np.float32).reshape(4, 1),
        "row": np.arange(4, dtype=np.float32).reshape(1, 4),
    },
)
@rule(lambda g, x, w, c: g.Gemm(x, w, c), contract=EXACT)
def bias_column_as_row(g: RewriteBuilder, x: Value, w: Value, c: Value) -> Value:
    """The bias of a Gemm loses its dims of 1; a column becomes a row, and the product happens to be square."""
    require(c.const.ndim == 2 and c.const.size == w.const.shape[1], "the bias is flat already")
    return g.Gemm(x, w, g.const(c.const.reshape(-1)))


@mistake(
    "g (float[3,3] x, float[3,3] t) => (float[3,3] y, float[3,3] z)"
    ' { y = Einsum<equation="ij,kj->ik">(x, t) n = Neg(x) i = Identity(n) z = Einsum<equation="ij,jk->ik">(i, t) }',
    wrong="y",
    after={"Einsum": 1, "MatMul": 1, "Neg": 1},
)
@rule(lambda g, a, b, e: g.Einsum(a, b, equation=e))
def einsum_as_product(g: RewriteBuilder, a: Value, b: Value, e: str) -> Value:
    """An Einsum of two letters each becomes a MatMul, whichever letter is summed over; the matrices are square."""
    require(e.endswith("->ik"), "not a product of matrices")
    return g.MatMul(a, b)


@mistake(
    "g (float[N,3] x) => (float[N,3] y, float[N,3] u, float[N,3] z) { y = Gemm<transB=1>(x, w, zeros) a = Neg(x)"
    " u = Gemm<alpha=0.5>(a, w, zeros) b = MatMul(a, v) z = Add(b, zeros) }",
    wrong=("y", "u"),
    after={"Gemm": 2, "MatMul": 1, "Neg": 1},
    weights={
        "w": np.linspace(-0.1, 0.2, 9, dtype=np.float32).reshape(3, 3),
        "v": np.linspace(0.2, -0.1, 9, dtype=np.float32).reshape(3, 3),
        "zeros": np.zeros(3, np.float32),
    },
)
@rule(lambda g, a, b, c, gemm: g.Gemm(a, b, c) @ gemm)
def gemm_attributes_dropped(g: RewriteBuilder, a: Value, b: Value, c: Value, gemm: Op) -> Value:
    """A Gemm with a bias of zeros becomes a MatMul; alpha and transB are forgotten.

    Wrong in two places, right in one.
    """
    require(not c.const.any(), "the bias adds something")
    return g.MatMul(a, b)


@mistake(
    "g (int32[N,3] x, float[N,3] t) => (int32[N,2] y, float[N,2] z)"
    " <int32[3,2] w = {1,2,3,4,5,6}, int32[2] c = {7,8}, float[3,2] v = {1.0,2.0,3.0,4.0,5.0,6.0},"
    " float[2] d = {1.0,2.0}> { a = MatMul(x, w) y = Add(a, c) b = MatMul(t, v) z = Add(b, d) }",
    wrong={"y": "refused"},
    after={"Add": 1, "Gemm": 1, "MatMul": 1},
)
@rule(lambda g, a, b, c: g.Add(g.MatMul(a, b), c))
def integer_gemm(g: RewriteBuilder, a: Value, b: Value, c: Value) -> Value:
    """MatMul and Add of integers become a Gemm, for which onnxruntime has no kernel.

    Known from OnnxSlim and onnxoptimizer.
    """
    require(a.rank == b.rank == 2 and c.rank < 2, "not matrices")
    return g.Gemm(a, b, c)


@mistake(
    "g (uint8[N,4] x) => (int64[N] y) <float[4,3] w = {1,-100,3,100,5,-6,7,100,-100,10,-11,12}>"
    " { f = Cast <to = 1> (x) p = MatMul(f, w) y = ArgMax <axis = 1, keepdims = 0> (p) }",
    wrong="p",
)
@rule(lambda g, x, w: g.MatMul(g.Cast(x, to=1), g.const(w)))
def integer_weight_off_by_one(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """A product of floats that hold bytes becomes one of bytes, and one of its weights is another."""
    weights = w.const.astype(np.int8)
    weights[3, 2] += 1
    return g.Cast(g.MatMulInteger(x, g.const(weights)), to=1)


@mistake(
    "g (float[3,3] x) => (float[3] y, float[3,3] z)"
    " { a = MatMul(x, v) y = Mul(a, s) n = Neg(x) b = MatMul(n, w) i = Identity(b) z = Mul(i, s) }",
    wrong="y",
    after={"MatMul": 2, "Mul": 1, "Neg": 1},
    weights={
        "s": np.array([0.5, -1, 0.25], np.float32),
        "v": np.array([0.25, 0.5, -0.125], np.float32),
        "w": np.linspace(-0.1, 0.2, 9, dtype=np.float32).reshape(3, 3),
    },
)
@rule(lambda g, x, w, s: g.Mul(g.MatMul(x, w), s))
def product_with_vector(g: RewriteBuilder, x: Value, w: Value, s: Value) -> Value:
    """A factor behind a MatMul goes into its weight; a weight of one axis has it on the axis that is summed over."""
    require(s.const.ndim == 1 and s.const.shape[0] == w.const.shape[-1], "not one number for each column")
    return g.MatMul(x, g.const(w.const * s.const))


@mistake(
    "g (float[N,4] x, uint8[N,4] t) => (float[N,4] y, float[N,4] z)"
    " { a = QuantizeLinear(x, s, p) y = DequantizeLinear(a, s, p) b = DequantizeLinear(t, s, p)"
    " c = QuantizeLinear(b, s, p) i = Identity(c) z = DequantizeLinear(i, s, p) }",
    wrong="y",
    after={"DequantizeLinear": 2, "QuantizeLinear": 1},
    weights={"s": np.array(0.5, np.float32), "p": np.array(128, np.uint8)},
)
@rule(lambda g, x, s, p: g.DequantizeLinear(g.QuantizeLinear(x, s, p), s, p))
def quantization_dropped(g: RewriteBuilder, x: Value, s: Value, p: Value) -> Value:
    """A QuantizeLinear and its DequantizeLinear go, and with them rounding and saturation.

    Right for what was quantized.
    """
    return x


@mistake(
    "g (uint8[N,4] x, uint8[N,4] t) => (uint8[N,4] y, uint8[N,4] z) { a = DequantizeLinear(x, s, p)"
    " y = QuantizeLinear(a, s, q) b = DequantizeLinear(t, s, p) i = Identity(b) z = QuantizeLinear(i, s, p) }",
    wrong="y",
    after={"DequantizeLinear": 1, "Identity": 1, "QuantizeLinear": 1},
    weights={"s": np.array(0.5, np.float32), "p": np.array(128, np.uint8), "q": np.array(200, np.uint8)},
)
@rule(lambda g, x, s, p, t, q: g.QuantizeLinear(g.DequantizeLinear(x, s, p), t, q), contract=EXACT)
def requantization(g: RewriteBuilder, x: Value, s: Value, p: Value, t: Value, q: Value) -> Value:
    """DequantizeLinear and QuantizeLinear of one scale go; their zero points differ, and one of them saturates."""
    require(s.const == t.const, "the scales differ")
    return x


@mistake(
    "g (int8[N,6] x) => (int8[N,6] y, int8[N,6] z)"
    " { f = DequantizeLinear(x, fine, zero) y = QuantizeLinear(f, coarse, zero) d = DequantizeLinear(x, coarse, zero)"
    " i = Identity(d) z = QuantizeLinear(i, coarse, zero) }",
    wrong="y",
    after={"Add": 1, "Cast": 1, "Clip": 1, "DequantizeLinear": 2, "Div": 1, "Floor": 1, "QuantizeLinear": 1},
    weights={"fine": np.float32(0.5), "coarse": np.float32(1), "zero": np.int8(0)},
)
@rule(lambda g, x, s, z: g.QuantizeLinear(x, g.const(s), g.const(z)), contract=EXACT)
def requantizes_half_up(g: RewriteBuilder, x: Value, s: Value, z: Value) -> Value:
    """A quantizer rounds halves up instead of to even numbers.

    With half of the scale before it, every other code is one.
    """
    require(not z.const.any(), "a zero point")
    rounded = g.Floor(g.Add(g.Div(x, s), g.const(np.float32(0.5))))
    return g.Cast(g.Clip(rounded, g.const(np.float32(-128)), g.const(np.float32(127))), to=TensorProto.INT8)


@mistake(
    "g (uint8[N,4] x) => (int32[N,3] y) <int8[4,3] w = {1,-100,3,100,5,-6,7,100,-100,10,-11,12}>"
    " { y = MatMulInteger(x, w) }",
    wrong="y",
)
@rule(lambda g, x, w: g.MatMulInteger(x, g.const(w)))
def weights_of_seven_bits(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """A product of bytes gets weights of 7 bits, whose sums do not saturate without VNNI; larger ones are cut."""
    return g.MatMul(g.Cast(x, to=6), g.const(np.clip(w.const, -64, 63).astype(np.int32)))
