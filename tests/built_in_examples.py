"""Models on which those built-in rules fire that ask for more than their patterns tell: seeds for what checks them."""

from __future__ import annotations

import numpy as np
from rewriting import load

ROWS = "g (float[N,2,3] x) => (float[a,b,c] y)"
NUMBERS = (
    "<float zero = {0}, float one = {1}, float half = {0.5}, float three = {3}, float six = {6},"
    " float sixth = {0.16666667}, float root = {1.4142135}, float small = {0.001}, float minus = {-0.5},"
    " float two = {2}, float[3] w = {1, -2, 0.5}, float[3] z = {0.5, 1, -1}>"
)
ERF = "a = Div(x, root) e = Erf(a) p = Add(e, one)"
CLIP = "a = Add(x, three) b = Clip(a, zero, six)"
MEAN = "m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[-1]>(q) f = Add(v, small)"
SLOPE = f"{MEAN} s = Sqrt(f) r = Reciprocal(s) k = Mul(r, w) a = Mul(x, k)"
LARGEST = "m = ReduceMax<axes=[2]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum<axes=[2]>(e)"
HEADS = "g (float[N,2,5,4] q, float[N,2,7,4] k, float[N,2,7,3] v, float[5,7] m) => (float[a,b,c,d] y)"
SCORES = "t = Transpose<perm=[0,1,3,2]>(k) z = MatMul(q, t)"
GUARDED = "g (float[N,2,5,4] q, float[N,2,7,4] k, float[N,2,7,3] v, bool[N,1,5,7] c) => (float[a,b,h,d] y)"
GUARD = (
    "p = Tanh(q) l = Tanh(k) t = Transpose<perm=[0,1,3,2]>(l) a = MatMul(p, t) h = Where(c, zero, inf) f = Add(a, h)"
    " e = Softmax(f) n = IsNaN(e) w = Where(n, zero, e) y = MatMul(w, v)"
)
FLAT = (
    "g (float[N,5,16] q, float[N,7,16] k, float[N,7,12] v) => (float[N,5,d] y)"
    " <int64[4] split = {0, 0, 2, -1}, int64[3] join = {0, 0, 12}>"
)
SPLIT = (
    "q1 = Reshape(q, split) q2 = Transpose<perm=[0,2,1,3]>(q1) k1 = Reshape(k, split)"
    " k2 = Transpose<perm=[0,2,1,3]>(k1) v1 = Reshape(v, split) v2 = Transpose<perm=[0,2,1,3]>(v1)"
    " a = Attention(q2, k2, v2) b = Transpose<perm=[0,2,1,3]>(a) y = Reshape(b, join)"
)
TABLE = (
    "g (float[4,5] x) => (float[a,b,c,d] y) <int64 zero = {0}, int64 one = {1}, int64[3] a123 = {1,2,3},"
    " int64[1] last = {-1}>"
)
ROW_BY_ROW = (
    "s = Shape(x) n = Gather(s, zero) m = Gather(s, one) f = Flatten<axis=2>(x) r = Range(zero, n, one)"
    " c = Range(zero, m, one) u = Unsqueeze(r, a1) p = Mul(u, m) i = Add(c, p) y = Gather(f, i)"
)
FLATTENED = (
    "g (float[N,3,4] x, float[4,5] w, float[5] b) => (float[a,c,d] y)"
    " <int64[2] flat = {-1, 4}, int64[3] back = {-1, 3, 5}>"
)
COUNTED = (
    "s = Shape(x) n = Gather(s, zero) m = Gather(s, one) r = Range(zero, n, one) c = Range(zero, m, one)"
    " u = Unsqueeze(r, a123) w = Max(u, c) t = Shape(w) e = Expand(u, t) f = Expand(c, t)"
    " p = Unsqueeze(e, last) q = Unsqueeze(f, last) i = Concat<axis=-1>(p, q) y = GatherND(x, i)"
)
INFINITE = {"zero": np.float32(0), "inf": np.float32(-np.inf)}

TEXTS = (
    ("fuse_halved_gelu", 20, f"{ROWS} {NUMBERS}", f"{ERF} m = Mul(x, p) y = Mul(m, half)"),
    ("fuse_gelu_of_halved_curve", 20, f"{ROWS} {NUMBERS}", f"{ERF} m = Mul(p, half) y = Mul(x, m)"),
    ("fuse_gelu_of_halved_input", 20, f"{ROWS} {NUMBERS}", f"{ERF} m = Mul(x, half) y = Mul(m, p)"),
    ("fuse_scaled_hard_swish", 14, f"{ROWS} {NUMBERS}", f"{CLIP} c = Mul(x, b) y = Div(c, six)"),
    ("fuse_multiplied_hard_swish", 14, f"{ROWS} {NUMBERS}", f"{CLIP} c = Mul(x, b) y = Mul(sixth, c)"),
    ("fuse_multiplied_hard_sigmoid", 13, f"{ROWS} {NUMBERS}", f"{CLIP} y = Mul(sixth, b)"),
    ("fuse_scaled_hard_sigmoid", 13, f"{ROWS} {NUMBERS}", f"{CLIP} y = Div(b, six)"),
    (
        "fuse_elu_of_negatives",
        16,
        f"{ROWS} {NUMBERS}",
        "e = Exp(x) m = Sub(e, one) t = Mul(m, two) c = Less(x, zero) y = Where(c, t, x)",
    ),
    (
        "fuse_elu_of_positives",
        16,
        f"{ROWS} {NUMBERS}",
        "e = Exp(x) m = Sub(e, one) c = Greater(x, zero) y = Where(c, x, m)",
    ),
    ("fuse_norm_of_quotient", 17, f"{ROWS} {NUMBERS}", f"{MEAN} s = Sqrt(f) y = Div(d, s)"),
    ("fuse_norm_of_reciprocal", 17, f"{ROWS} {NUMBERS}", f"{MEAN} s = Sqrt(f) r = Reciprocal(s) y = Mul(d, r)"),
    ("fuse_norm_of_inverse", 17, f"{ROWS} {NUMBERS}", f"{MEAN} s = Sqrt(f) r = Div(one, s) y = Mul(d, r)"),
    ("fuse_norm_of_power", 17, f"{ROWS} {NUMBERS}", f"{MEAN} r = Pow(f, minus) y = Mul(d, r)"),
    ("fuse_norm_of_line", 17, f"{ROWS} {NUMBERS}", f"{SLOPE} b = Mul(m, k) o = Sub(z, b) y = Add(a, o)"),
    (
        "fuse_norm_of_negated_line",
        17,
        f"{ROWS} {NUMBERS}",
        f"{SLOPE} g = Neg(m) h = Mul(g, k) o = Add(h, z) y = Add(a, o)",
    ),
    ("fuse_softmax", 11, ROWS, f"{LARGEST} y = Div(e, s)"),
    ("fuse_log_softmax", 11, ROWS, f"{LARGEST} l = Log(s) y = Sub(d, l)"),
    ("fuse_attention", 23, HEADS, f"{SCORES} e = Softmax(z) y = MatMul(e, v)"),
    ("fuse_masked_attention", 23, HEADS, f"{SCORES} a = Add(z, m) e = Softmax(a) y = MatMul(e, v)"),
    ("fuse_guarded_attention", 23, GUARDED, GUARD),
    ("take_heads_into_attention", 23, FLAT, SPLIT),
    (
        "gemm_without_reshapes",
        13,
        FLATTENED,
        "u = Reshape(x, flat) v = Gemm(u, w, b) y = Reshape(v, back)",
    ),
    (
        "fold_pad_into_max_pool",
        17,
        "g (uint8[N,2,5,6] x) => (uint8[N,c,h,w] y) <int64[8] p = {0,0,1,2,0,0,0,1}>",
        "t = Pad(x, p) y = MaxPool<kernel_shape=[2,3]>(t)",
    ),
    ("fuse_sigmoid_of_quotient", 13, f"{ROWS} {NUMBERS}", "n = Neg(x) e = Exp(n) a = Add(e, one) y = Div(one, a)"),
    ("drop_square_of_root", 13, f"{ROWS} {NUMBERS}", "a = Abs(x) s = Sqrt(a) y = Pow(s, two)"),
    (
        "add_weights",
        13,
        "g (float[N,2] x) => (float[N,2] y) <float[2,2] v = {1, -2, 0.5, 2}, float[2,2] w = {0.5, 1, 3, -1}>",
        "t = Tanh(x) a = MatMul(t, v) b = MatMul(t, w) y = Add(a, b)",
    ),
    ("fuse_swish", 24, ROWS, "s = Sigmoid(x) y = Mul(x, s)"),
    (
        "fuse_inverted_lp_norm",
        13,
        f"{ROWS} <float low = {{0.000000000001}}>",
        "s = ReduceSumSquare<axes=[-1]>(x) m = Max(s, low) q = Sqrt(m) r = Reciprocal(q) y = Mul(x, r)",
    ),
    (
        "take_shape",
        18,
        "g (float[N,3,4] x) => (float[a,b,c] y) <int64[1] a0 = {0}, int64[2] more = {3,4}>",
        "s = Shape(x) n = Gather(s, a0) t = Concat<axis=0>(n, more) y = Reshape(x, t)",
    ),
    (
        "drop_casts_around_norm",
        17,
        "g (float16[N,3] x) => (float16[N,3] y) <float[3] w = {1, 1, 1}>",
        "u = Cast<to=1>(x) n = LayerNormalization(u, w) y = Cast<to=10>(n)",
    ),
    (
        "read_rows_in_order",
        18,
        "g (float[4,5] x) => (float[a,b,c] y) <int64 zero = {0}, int64 one = {1}, int64[1] a1 = {1}>",
        ROW_BY_ROW,
    ),
    ("read_matrix_in_order", 18, TABLE, COUNTED),
)
EXAMPLES = {
    name: [load(f"{head} {{ {body} }}", opset, INFINITE if name == "fuse_guarded_attention" else {})]
    for name, opset, head, body in TEXTS
}
