"""Scales before and behind products with constant weights."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.linear import weight_scale
from rewriting import becomes, cases, initializers, stays
from weights import weights_used_in

FOLD_SCALE_INTO_WEIGHTS = rule_pass(weight_scale, "fold-scale-into-weights")

WEIGHTS = {
    "w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "wt": np.linspace(-2, 1, 12, dtype=np.float32).reshape(4, 3),
    "wb": np.linspace(-2, 1, 24, dtype=np.float32).reshape(2, 3, 4),
    "w1": np.linspace(-1, 1, 3, dtype=np.float32),
    "row": np.array([1, -2, 3, 0.5], np.float32),
    "one": np.array([[1], [2], [-1]], np.float32),
    "num": np.array(0.25, np.float32),
    "s": np.array(0.5, np.float32),
    "s1": np.array([[4.0]], np.float32),
    "s3": np.array([[[4.0]]], np.float32),
    "s4": np.array([1, 2, -3, 0.25], np.float32),
    "k3": np.array([1, 2, -3], np.float32),
    "rows2": np.array([1, 2], np.float32),
    "rows": np.array([[1], [2]], np.float32),
    "zeros": np.array([1, 0, 1, 0], np.float32),
    "huge": np.array([[1e30], [1], [1]], np.float32),
    "more": np.array([1e30, 1, 1], np.float32),
}
CONST = "<float k = {1}>"
used = partial(weights_used_in, weights=WEIGHTS)


def model(x: str, body: str, constants: str = "", y: str = "") -> str:
    return f"g (float[{x}] x) => (float[{y or 'n,m'}] y) {constants} {{ {body} }}"


@cases(
    ("x", "before", "after"),
    {
        "times a number": ("2,3", "m = MatMul(x, w) y = Mul(m, s)", "y = MatMul(x, k)"),
        "times a row, on the left": ("2,3", "m = MatMul(x, w) y = Mul(s4, m)", "y = MatMul(x, k)"),
        "times a matrix of one number": ("2,3", "m = MatMul(x, w) y = Mul(m, s1)", "y = MatMul(x, k)"),
        "divided by a row": ("2,3", "m = MatMul(x, w) y = Div(m, s4)", "y = MatMul(x, k)"),
        "negated": ("2,3", "m = MatMul(x, w) y = Neg(m)", "y = MatMul(x, k)"),
        "columns of zeros": ("2,3", "m = MatMul(x, w) y = Mul(m, zeros)", "y = MatMul(x, k)"),
        "symbolic batch": ("N,3", "m = MatMul(x, w) y = Mul(m, s4)", "y = MatMul(x, k)"),
        "no rows": ("0,3", "m = MatMul(x, w) y = Mul(m, s4)", "y = MatMul(x, k)"),
        "Gemm without bias": ("2,3", "m = Gemm(x, w) y = Mul(m, s4)", "y = Gemm(x, k)"),
        "Gemm with bias": ("2,3", "m = Gemm(x, w, row) y = Mul(m, s4)", "y = Gemm(x, k, k)"),
        "Gemm by a number": ("2,3", "m = Gemm(x, w, row) y = Div(m, s)", "y = Gemm(x, k, k)"),
        "alpha and beta go into the weights too": (
            "2,3",
            "m = Gemm<alpha=0.5,beta=2.0,transB=1>(x, wt, row) y = Mul(m, s4)",
            "y = Gemm<transB=1>(x, k, k)",
        ),
        "transA, the bias one number": (
            "3,2",
            "m = Gemm<transA=1>(x, w, s) y = Mul(m, s4)",
            "y = Gemm<transA=1>(x, k, k)",
        ),
        "scaled before": ("2,3", "m = Mul(x, k3) y = MatMul(m, w)", "y = MatMul(x, k)"),
        "scaled before by a number": ("2,3", "m = Mul(s, x) y = MatMul(m, w)", "y = MatMul(x, k)"),
        "divided before": ("2,3", "m = Div(x, k3) y = MatMul(m, w)", "y = MatMul(x, k)"),
        "negated before": ("2,3", "m = Neg(x) y = MatMul(m, w)", "y = MatMul(x, k)"),
        "scaled before a Gemm, its bias stays": (
            "2,3",
            "m = Mul(x, k3) y = Gemm<alpha=2.0,beta=0.5,transB=1>(m, wt, row)",
            "y = Gemm<beta=0.5,transB=1>(x, k, k)",
        ),
        "by a number before transA": ("3,2", "m = Mul(x, s) y = Gemm<transA=1>(m, w)", "y = Gemm<transA=1>(x, k)"),
        "before and behind": ("2,3", "a = Mul(x, k3) m = MatMul(a, w) y = Div(m, s4)", "y = MatMul(x, k)"),
    },
)
def test_becomes(x: str, before: str, after: str) -> None:
    becomes(model(x, before), model(x, after, CONST), FOLD_SCALE_INTO_WEIGHTS, weights=used(before))


@cases(
    ("x", "before", "y"),
    {
        "batches of matrices": ("5,2,3", "m = MatMul(x, w) y = Mul(m, s4)", "k,n,m"),
        "batches of matrices, scaled before": ("B,T,3", "m = Mul(x, k3) y = MatMul(m, w)", "k,n,m"),
        "weights for each of a batch": ("2,5,3", "m = MatMul(x, wb) y = Mul(m, s4)", "k,n,m"),
        "a vector": ("3", "m = MatMul(x, w) y = Mul(m, s4)", "n"),
        "a number of rank 3": ("5,2,3", "m = MatMul(x, w) y = Mul(m, s3)", "k,n,m"),
    },
)
def test_becomes_of_other_ranks(x: str, before: str, y: str) -> None:
    becomes(
        model(x, before, y=y), model(x, "y = MatMul(x, k)", CONST, y), FOLD_SCALE_INTO_WEIGHTS, weights=used(before)
    )


@cases(
    ("x", "before", "y"),
    {
        "a row": ("5,2,3", "m = MatMul(x, w) a = Add(m, row) y = Mul(a, s4)", "k_,n,m"),
        "a number, divided": ("B,T,3", "m = MatMul(x, w) a = Add(num, m) y = Div(a, s4)", "k_,n,m"),
        "a sum for each row": ("5,2,3", "m = MatMul(x, w) a = Add(m, rows) y = Mul(s4, a)", "k_,n,m"),
        "matrices": ("2,3", "m = MatMul(x, w) a = Add(m, row) y = Mul(a, s)", "n,m"),
        "a vector": ("3", "m = MatMul(x, w) a = Add(m, row) y = Mul(a, s4)", "n"),
    },
)
def test_becomes_with_a_bias(x: str, before: str, y: str) -> None:
    after = model(x, "m = MatMul(x, k) y = Add(m, f)", "<float k = {1}, float f = {1}>", y)
    becomes(model(x, before, y=y), after, FOLD_SCALE_INTO_WEIGHTS, weights=used(before))


@cases(
    ("x", "body", "y"),
    {
        "by rows": ("5,2,3", "m = MatMul(x, w) a = Add(m, row) y = Mul(a, rows)", "k_,n,m"),
        "a difference": ("5,2,3", "m = MatMul(x, w) a = Sub(m, row) y = Mul(a, s4)", "k_,n,m"),
        "the sum adds columns": ("2,3", "m = MatMul(x, one) a = Add(m, row) y = Mul(a, s4)", "n,m"),
        "the sum adds dims": ("2,3", "m = MatMul(x, w) a = Add(m, s3) y = Mul(a, s4)", "k_,n,m"),
        "shared": ("5,2,3", "m = MatMul(x, w) a = Add(m, row) b = Mul(a, s4) y = Add(a, b)", "k_,n,m"),
        "by zero": ("5,2,3", "m = MatMul(x, w) a = Add(m, row) y = Div(a, zeros)", "k_,n,m"),
        "it divides": ("5,2,3", "m = MatMul(x, w) a = Add(m, row) y = Div(s4, a)", "k_,n,m"),
    },
)
def test_stays_with_a_bias(x: str, body: str, y: str) -> None:
    stays(model(x, body, y=y), FOLD_SCALE_INTO_WEIGHTS, weights=used(body))


@pytest.mark.parametrize("dtype", ["double", "float16"])
@pytest.mark.parametrize("opset", [7, 11, 13, 22])
def test_every_type_and_opset(dtype: str, opset: int) -> None:
    kind = {"double": np.float64, "float16": np.float16}[dtype]
    before = f"g ({dtype}[2,3] x) => ({dtype}[n,m] y) {{ m = MatMul(x, w) y = Mul(m, s4) }}"
    after = f"g ({dtype}[2,3] x) => ({dtype}[n,m] y) {CONST} {{ y = MatMul(x, k) }}"
    weights = {name: a.astype(kind) for name, a in WEIGHTS.items() if name in {"w", "s4"}}
    out = becomes(before, after, FOLD_SCALE_INTO_WEIGHTS, weights=weights, opset=opset)
    assert [a.dtype for a in initializers(out).values()] == [kind]


def test_scalar_of_unknown_rank_input() -> None:
    g = "g (float[2,3] x, int64[n] d) => (float[a,b] y)"
    before = f"{g} {{ r = Reshape(x, d) m = Mul(r, s) y = MatMul(m, w) }}"
    after = f"{g} {CONST} {{ r = Reshape(x, d) y = MatMul(r, k) }}"
    becomes(before, after, FOLD_SCALE_INTO_WEIGHTS, weights=used("w s"), runs=False)


def test_inside_an_if_body() -> None:
    text = (
        "g (bool c, float[2,3] x) => (float[n,m] y) {} {{ y = If (c) <then_branch = a () => (float[n,m] r) {}, "
        "else_branch = b () => (float[n,m] t) {{ t = MatMul(x, v) }}> }}"
    )
    weights = {"w": WEIGHTS["w"], "s": WEIGHTS["s"], "v": WEIGHTS["w"]}
    before = text.format("", "{ m = MatMul(x, w) r = Mul(m, s) }")
    becomes(
        before,
        text.format("<float v = {1}>", f"{CONST} {{ r = MatMul(x, k) }}"),
        FOLD_SCALE_INTO_WEIGHTS,
        weights=weights,
    )


@cases(
    ("x", "body", "y"),
    {
        "a number for each row": ("2,3", "m = MatMul(x, w) y = Mul(m, rows)", "n,m"),
        "adds a dim": ("2,3", "m = MatMul(x, w) y = Mul(m, s3)", "k,n,m"),
        "adds rows": ("1,3", "m = MatMul(x, w) y = Mul(m, rows)", "n,m"),
        "divided by zero": ("2,3", "m = MatMul(x, w) y = Div(m, zeros)", "n,m"),
        "the product divides": ("2,3", "m = MatMul(x, w) y = Div(s4, m)", "n,m"),
        "a difference": ("2,3", "m = MatMul(x, w) y = Sub(m, s4)", "n,m"),
        "the new weights overflow": ("0,3", "m = Mul(x, more) y = MatMul(m, huge)", "n,m"),
        "apart": ("2,3", "m = MatMul(x, w) a = Relu(m) y = Mul(a, s4)", "n,m"),
        "shared product": ("2,3", "m = MatMul(x, w) a = Mul(m, s4) y = Add(a, m)", "n,m"),
        "the same value twice": ("2,3", "m = MatMul(x, w) y = Mul(m, m)", "n,m"),
        "shared weights": ("2,3", "m = MatMul(x, w) a = Mul(m, s4) b = MatMul(x, w) y = Add(a, b)", "n,m"),
        "computed weights": ("3,3", "m = MatMul(x, x) y = Mul(m, s)", "n,m"),
        "a vector of weights": ("2,3", "m = MatMul(x, w1) y = Mul(m, s)", "n"),
        "axis not summed over": ("3,2", "m = Mul(x, rows2) y = Gemm<transA=1>(m, w)", "n,m"),
        "rows before": ("2,3", "m = Mul(x, rows) y = MatMul(m, w)", "n,m"),
        "adds rows before": ("1,3", "m = Mul(x, rows) y = MatMul(m, w)", "n,m"),
        "adds columns before": ("2,1", "m = Mul(x, k3) y = MatMul(m, w)", "n,m"),
        "a bias for each row": ("2,3", "m = Gemm(x, w, rows) y = Mul(m, s4)", "n,m"),
        "scaled value is needed itself": (
            "2,3",
            "m = Mul(x, k3) a = MatMul(m, w) b = ReduceSum<keepdims=1>(m) y = Add(a, b)",
            "n,m",
        ),
    },
)
def test_stays(x: str, body: str, y: str) -> None:
    stays(model(x, body, y=y), FOLD_SCALE_INTO_WEIGHTS, weights=used(body))


@pytest.mark.parametrize("opset", [7, 10])
def test_no_gemm_without_bias_before_opset_11(opset: int) -> None:
    text = "g (float[2,3] x) => (float[n,m] y) { m = Gemm<beta=0.0>(x, w, s) y = Mul(m, s) }"
    stays(text, FOLD_SCALE_INTO_WEIGHTS, weights=used("w s"), opset=opset)


@cases(
    ("text", "weights"),
    {
        "product is a graph output": (
            "g (float[2,3] x) => (float[n,m] m, float[n,m] y) { m = MatMul(x, w) y = Mul(m, s) }",
            {"w": WEIGHTS["w"], "s": WEIGHTS["s"]},
        ),
        "overridable scale": (
            "g (float[2,3] x, float[4] s = {1,2,3,4}) => (float[n,m] y) { m = MatMul(x, w) y = Mul(m, s) }",
            {"w": WEIGHTS["w"]},
        ),
        "overridable weights": (
            "g (float[2,3] x, float[3,1] w = {1,2,3}) => (float[n,m] y) { m = MatMul(x, w) y = Mul(m, s) }",
            {"s": WEIGHTS["s"]},
        ),
        "computed bias": (
            "g (float[2,3] x, float[4] b) => (float[n,m] y) { m = Gemm(x, w, b) y = Mul(m, s4) }",
            {"w": WEIGHTS["w"], "s4": WEIGHTS["s4"]},
        ),
        "integers": (
            "g (int32[2,3] x) => (int32[n,m] y) { m = MatMul(x, w) y = Mul(m, s) }",
            {"w": np.ones((3, 4), np.int32), "s": np.array(2, np.int32)},
        ),
        "unknown rank of a result that may get dims": (
            "g (float[] x) => (float[] y) { m = Mul(x, s1) y = MatMul(m, w) }",
            {"w": WEIGHTS["w"], "s1": WEIGHTS["s1"]},
        ),
        "unknown rank": (
            "g (float[] x) => (float[] y) { m = MatMul(x, w) y = Mul(m, s4) }",
            {"w": WEIGHTS["w"], "s4": WEIGHTS["s4"]},
        ),
    },
)
def test_stays_elsewhere(text: str, weights: dict[str, np.ndarray]) -> None:
    stays(text, FOLD_SCALE_INTO_WEIGHTS, weights=weights)


NUMBERS = st.sampled_from([-3.0, -0.5, 0.25, 1.0, 8.0])


@given(
    scale=st.lists(NUMBERS, min_size=4, max_size=4),
    bias=st.booleans(),
    alpha=NUMBERS,
    op=st.sampled_from(["Mul", "Div"]),
    trans=st.booleans(),
)
def test_any_scale(scale: list[float], bias: bool, alpha: float, op: str, trans: bool) -> None:
    weights = {"s": np.array(scale, np.float32), "w": WEIGHTS["wt" if trans else "w"], "b": WEIGHTS["row"]}
    if not bias:
        del weights["b"]
    gemm = f"Gemm<alpha={alpha},transB={int(trans)}>(x, w{', b' if bias else ''})"
    after = f"y = Gemm{'<transB=1>' if trans else ''}(x, k{', k' if bias else ''})"
    becomes(
        model("2,3", f"m = {gemm} y = {op}(m, s)"), model("2,3", after, CONST), FOLD_SCALE_INTO_WEIGHTS, weights=weights
    )
