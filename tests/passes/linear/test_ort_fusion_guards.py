"""Guards for Gelus and normalizations that onnxruntime recognizes by their last ops."""

from __future__ import annotations

from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import Pass, rule_pass
from passwright.passes.linear import affine_into_conv, gemm, weight_scale
from rewriting import becomes, cases, stays
from weights import weights_used_in

FOLD_AFFINE_BEFORE_CONV = rule_pass(affine_into_conv, "fold-affine-before-conv")
FOLD_BIAS = rule_pass(gemm, "fold-bias")
FOLD_SCALE_INTO_GEMM = rule_pass(gemm, "fold-scale-into-gemm")
FOLD_SCALE_INTO_WEIGHTS = rule_pass(weight_scale, "fold-scale-into-weights")

WEIGHTS = {
    "w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "kernel": np.linspace(-1, 1, 18, dtype=np.float32).reshape(2, 3, 3),
    "row": np.array([1, -2, 3, 0.5], np.float32),
    "gamma": np.array([1, 2, -3], np.float32),
    "beta": np.array([1, 0.5, 2], np.float32),
    "half": np.array(0.5, np.float32),
    "one": np.array(1, np.float32),
    "root": np.array(np.sqrt(2), np.float32),
    "eps": np.array(1e-5, np.float32),
}
CONST = "<float k = {1}>"
GELU = "q = Div(x, root) e = Erf(q) a = Add(e, one) p = Mul(x, a)"
TANH = "q = Mul(x, half) e = Tanh(q) a = Add(one, e) p = Mul(a, x)"
SWISH = "e = Sigmoid(x) a = Add(e, x) p = Mul(x, a)"
RMS = "q = Mul(x, x) v = ReduceMean<keepdims=1>(q) a = Add(v, eps) e = Sqrt(a) p = Div(x, e)"
MIXED = "q = Exp(x) p = Div(x, q)"
ROOTED = "q = Exp(x) e = Sqrt(q) p = Div(x, e)"
used = partial(weights_used_in, weights=WEIGHTS)


def model(x: str, body: str, y: str = "n,m", constants: str = "") -> str:
    return f"g (float[{x}] x) => (float[{y}] y) {constants} {{ {body} }}"


@cases(
    ("x", "body", "y", "by"),
    {
        "Gelu": ("2,3", f"{GELU} h = Mul(p, half) y = MatMul(h, w)", "n,m", FOLD_SCALE_INTO_WEIGHTS),
        "0.5 first": ("B,2,3", f"{GELU} h = Mul(half, p) y = MatMul(h, w)", "k,n,m", FOLD_SCALE_INTO_WEIGHTS),
        "Gelu by Tanh": ("2,3", f"{TANH} h = Mul(p, half) y = MatMul(h, w)", "n,m", FOLD_SCALE_INTO_WEIGHTS),
        "Gelu, Gemm": ("2,3", f"{GELU} h = Mul(p, half) y = Gemm(h, w, row)", "n,m", FOLD_SCALE_INTO_WEIGHTS),
        "Gelu, alpha": ("2,3", f"{GELU} h = Mul(p, half) y = Gemm(h, w, row)", "n,m", FOLD_SCALE_INTO_GEMM),
        "Gelu, no Gemm yet": ("2,3", f"{GELU} h = Mul(p, half) y = MatMul(h, w)", "n,m", FOLD_SCALE_INTO_GEMM),
        "Gelu, Conv": ("2,3,5", f"{GELU} h = Mul(p, half) y = Conv(h, kernel)", "n,m,l", FOLD_AFFINE_BEFORE_CONV),
        "scale": ("2,3", f"{RMS} h = Mul(p, gamma) y = MatMul(h, w)", "n,m", FOLD_SCALE_INTO_WEIGHTS),
        "scale, Gemm": ("2,3", f"{RMS} h = Mul(gamma, p) y = Gemm(h, w, row)", "n,m", FOLD_SCALE_INTO_WEIGHTS),
        "shift": ("2,3", f"{RMS} h = Mul(p, gamma) s = Add(h, beta) y = MatMul(s, w)", "n,m", FOLD_BIAS),
        "shift, Gemm": ("2,3", f"{RMS} h = Mul(p, gamma) s = Add(h, beta) y = Gemm(s, w, row)", "n,m", FOLD_BIAS),
        "shift, sum behind": (
            "B,2,3",
            f"{RMS} h = Mul(p, gamma) s = Add(beta, h) m = MatMul(s, w) y = Add(m, row)",
            "k,n,m",
            FOLD_BIAS,
        ),
    },
)
def test_stays(x: str, body: str, y: str, by: Pass) -> None:
    stays(model(x, body, y), by, weights=used(body))


@cases(
    ("x", "before", "after"),
    {
        "Sigmoid": ("2,3", f"{SWISH} h = Mul(p, half) y = MatMul(h, w)", f"{SWISH} y = MatMul(p, k)"),
        "no root divides": ("2,3", f"{MIXED} h = Mul(p, gamma) y = MatMul(h, w)", f"{MIXED} y = MatMul(p, k)"),
        "an input": ("2,3", "h = Mul(x, half) y = MatMul(h, w)", "y = MatMul(x, k)"),
        "Exp": ("2,3", "p = Exp(x) h = Mul(p, gamma) y = MatMul(h, w)", "p = Exp(x) y = MatMul(p, k)"),
        "no Mul": ("2,3", f"{ROOTED} h = Div(p, half) y = MatMul(h, w)", f"{ROOTED} y = MatMul(p, k)"),
    },
)
def test_other_scales_fold_into_weights(x: str, before: str, after: str) -> None:
    becomes(model(x, before), model(x, after, constants=CONST), FOLD_SCALE_INTO_WEIGHTS, weights=used(before))


def test_shift_of_unscaled_value_moves() -> None:
    before = f"{ROOTED} s = Add(p, beta) y = Gemm(s, w, row)"
    after = f"{ROOTED} y = Gemm(p, k, f)"
    becomes(
        model("2,3", before),
        model("2,3", after, "n,m", "<float k = {1}, float f = {1}>"),
        FOLD_BIAS,
        weights=used(before),
    )


@given(scale=st.floats(-8, 8).filter(bool), swapped=st.booleans(), tanh=st.booleans())
def test_any_scale_stays(scale: float, swapped: bool, tanh: bool) -> None:
    operands = "half, p" if swapped else "p, half"
    body = f"{TANH if tanh else GELU} h = Mul({operands}) y = MatMul(h, w)"
    stays(model("2,3", body), FOLD_SCALE_INTO_WEIGHTS, weights={**used(body), "half": np.array(scale, np.float32)})
