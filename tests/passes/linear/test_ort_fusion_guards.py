"""Guards for Gelus and normalizations that onnxruntime recognizes by their last ops."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.linear import affine_into_conv, gemm, weight_scale
from rewrite_tables import Rewrites
from weights import matrix

FOLD_AFFINE_BEFORE_CONV = rule_pass(affine_into_conv, "fold-affine-before-conv")
FOLD_BIAS = rule_pass(gemm, "fold-bias")
FOLD_SCALE_INTO_GEMM = rule_pass(gemm, "fold-scale-into-gemm")
FOLD_SCALE_INTO_WEIGHTS = rule_pass(weight_scale, "fold-scale-into-weights")

WEIGHTS = {
    "w": matrix(3, 4),
    "kernel": matrix(2, 3, 3),
    "row": [1.0, -2.0, 3.0, 0.5],
    "gamma": [1.0, 2.0, -3.0],
    "beta": [1.0, 0.5, 2.0],
    "root": 2**0.5,
}
GELU = "q = Div(x, root) e = Erf(q) a = Add(e, 1.0) p = Mul(x, a)"
TANH = "q = Mul(x, 0.5) e = Tanh(q) a = Add(1.0, e) p = Mul(a, x)"
SWISH = "e = Sigmoid(x) a = Add(e, x) p = Mul(x, a)"
RMS = "q = Mul(x, x) v = ReduceMean<keepdims=1>(q) a = Add(v, 1e-05) e = Sqrt(a) p = Div(x, e)"
MIXED = "q = Exp(x) p = Div(x, q)"
ROOTED = "q = Exp(x) e = Sqrt(q) p = Div(x, e)"
guarded = Rewrites(
    "g (float[{x}] x) => (float[] y)",
    FOLD_AFFINE_BEFORE_CONV,
    FOLD_BIAS,
    FOLD_SCALE_INTO_GEMM,
    FOLD_SCALE_INTO_WEIGHTS,
    weights=WEIGHTS,
    x="2,3",
)
test_stays = guarded.all_stay(f"""
    Gelu: {GELU} h = Mul(p, 0.5) y = MatMul(h, w)
    0.5 first [x=B,2,3]: {GELU} h = Mul(0.5, p) y = MatMul(h, w)
    Gelu by Tanh: {TANH} h = Mul(p, 0.5) y = MatMul(h, w)
    Gelu, Gemm: {GELU} h = Mul(p, 0.5) y = Gemm(h, w, row)
    Gelu, Conv [x=2,3,5]: {GELU} h = Mul(p, 0.5) y = Conv(h, kernel)
    scale: {RMS} h = Mul(p, gamma) y = MatMul(h, w)
    scale, Gemm: {RMS} h = Mul(gamma, p) y = Gemm(h, w, row)
    shift: {RMS} h = Mul(p, gamma) s = Add(h, beta) y = MatMul(s, w)
    shift, Gemm: {RMS} h = Mul(p, gamma) s = Add(h, beta) y = Gemm(s, w, row)
    shift, sum behind [x=B,2,3]: {RMS} h = Mul(p, gamma) s = Add(beta, h) m = MatMul(s, w) y = Add(m, row)
""")
test_others_become = guarded.using(FOLD_SCALE_INTO_WEIGHTS, FOLD_BIAS).all_become(f"""
    Sigmoid: {SWISH} h = Mul(p, 0.5) y = MatMul(h, w) => {SWISH} y = MatMul(p, k)
    no root divides: {MIXED} h = Mul(p, gamma) y = MatMul(h, w) => {MIXED} y = MatMul(p, k)
    an input: h = Mul(x, 0.5) y = MatMul(h, w) => y = MatMul(x, k)
    Exp: p = Exp(x) h = Mul(p, gamma) y = MatMul(h, w) => p = Exp(x) y = MatMul(p, k)
    no Mul: {ROOTED} h = Div(p, 0.5) y = MatMul(h, w) => {ROOTED} y = MatMul(p, k)
    shift of an unscaled value: {ROOTED} s = Add(p, beta) y = Gemm(s, w, row) => {ROOTED} y = Gemm(p, k, f)
""")


@given(scale=st.floats(-8, 8).filter(bool), swapped=st.booleans(), tanh=st.booleans())
def test_any_scale_stays(scale: float, swapped: bool, tanh: bool) -> None:
    operands = "by, p" if swapped else "p, by"
    body = f"{TANH if tanh else GELU} h = Mul({operands}) y = MatMul(h, w)"
    guarded.using(FOLD_SCALE_INTO_WEIGHTS).stays(body, weights={"by": scale})
