"""Scalar factors of a Gemm or a product of two matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.linear import gemm
from rewriting import becomes, cases, stays

FOLD_SCALE_INTO_GEMM = rule_pass(gemm, "fold-scale-into-gemm")

KINDS = {"float": np.float32, "double": np.float64, "float16": np.float16}
CONSTANTS = (
    "<float h = {0.5}, float t = {2}, float[1,1] f = {4}, float[2,1] two = {4,4}, float[1,1,1] deep = {2},"
    " float[4] row = {1,2,3,4}, float zero = {0}, float nan = {nan}, float[4] same = {2,2,2,2}>"
)


def model(types: str, body: str, dtype: str = "float", result: str = "n,m", constants: str = CONSTANTS) -> str:
    """`types` are the inputs without their element type: `[2,3] a, [3,4] b`."""
    inputs = types.replace("[", f"{dtype}[")
    return f"g ({inputs}) => ({dtype}[{result}] y) {constants.replace('float', dtype)} {{ {body} }}"


AB = "[2,3] a, [3,4] b"
ABC = f"{AB}, [4] c"


@cases(
    ("types", "before", "after"),
    {
        "product times a number": (AB, "m = MatMul(a, b) y = Mul(m, h)", "y = Gemm<alpha=0.5>(a, b)"),
        "a number of rank 2, first": (AB, "m = MatMul(a, b) y = Mul(f, m)", "y = Gemm<alpha=4.0>(a, b)"),
        "a row of one number": (AB, "m = MatMul(a, b) y = Mul(m, same)", "y = Gemm<alpha=2.0>(a, b)"),
        "divided": (AB, "m = MatMul(a, b) y = Div(m, f)", "y = Gemm<alpha=0.25>(a, b)"),
        "negated": (AB, "m = MatMul(a, b) y = Neg(m)", "y = Gemm<alpha=-1.0>(a, b)"),
        "left factor": (AB, "s = Mul(a, h) y = MatMul(s, b)", "y = Gemm<alpha=0.5>(a, b)"),
        "right factor": (AB, "s = Mul(h, b) y = MatMul(a, s)", "y = Gemm<alpha=0.5>(a, b)"),
        "both factors and the product": (
            AB,
            "s = Mul(a, h) r = Mul(f, b) m = MatMul(s, r) y = Neg(m)",
            "y = Gemm<alpha=-2.0>(a, b)",
        ),
        "Gemm without bias": (AB, "m = Gemm(a, b) y = Mul(m, h)", "y = Gemm<alpha=0.5>(a, b)"),
        "Gemm": (ABC, "m = Gemm(a, b, c) y = Mul(m, h)", "y = Gemm<alpha=0.5,beta=0.5>(a, b, c)"),
        "attributes are kept, those that say nothing go": (
            "[3,2] a, [4,3] b, [4] c",
            "m = Gemm<alpha=4.0,beta=0.5,transA=1,transB=1>(a, b, c) y = Div(m, f)",
            "y = Gemm<beta=0.125,transA=1,transB=1>(a, b, c)",
        ),
        "-Gemm": (ABC, "m = Gemm(a, b, c) y = Neg(m)", "y = Gemm<alpha=-1.0,beta=-1.0>(a, b, c)"),
        "left of a Gemm": (ABC, "s = Mul(a, h) y = Gemm(s, b, c)", "y = Gemm<alpha=0.5>(a, b, c)"),
        "right of it": (ABC, "s = Mul(b, t) y = Gemm<beta=3.0>(a, s, c)", "y = Gemm<alpha=2.0,beta=3.0>(a, b, c)"),
        "symbolic extents": ("[N,K] a, [K,M] b", "m = MatMul(a, b) y = Mul(m, h)", "y = Gemm<alpha=0.5>(a, b)"),
        "empty": ("[2,0] a, [0,4] b", "m = MatMul(a, b) y = Mul(m, h)", "y = Gemm<alpha=0.5>(a, b)"),
        "a square": ("[3,3] a", "m = MatMul(a, a) y = Mul(m, h)", "y = Gemm<alpha=0.5>(a, a)"),
    },
)
def test_becomes(types: str, before: str, after: str) -> None:
    becomes(model(types, before), model(types, after), FOLD_SCALE_INTO_GEMM)


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 22])
@pytest.mark.parametrize("dtype", list(KINDS))
def test_every_type_and_opset(dtype: str, opset: int) -> None:
    after = "y = Gemm<alpha=0.5>(a, b)" if opset >= 11 else "y = Gemm<alpha=0.5>(a, b, h)"
    before = model(AB, "m = MatMul(a, b) y = Mul(m, h)", dtype, constants="")
    weights = {"h": np.array(0.5, KINDS[dtype])}
    text = model(AB, after, constants="<float h = {1}>").replace("float[", f"{dtype}[")
    becomes(before, text, FOLD_SCALE_INTO_GEMM, opset=opset, weights=weights)


@cases(
    ("types", "body", "result"),
    {
        "batches of matrices": ("[5,2,3] a, [5,3,4] b", "m = MatMul(a, b) y = Mul(m, h)", "k,n,m"),
        "left batch": ("[5,2,3] a, [3,4] b", "s = Mul(a, h) y = MatMul(s, b)", "k,n,m"),
        "a vector": ("[3] a, [3,4] b", "m = MatMul(a, b) y = Mul(m, h)", "n"),
        "a number for each column": (AB, "m = MatMul(a, b) y = Mul(m, row)", "n,m"),
        "adds a dim": (AB, "m = MatMul(a, b) y = Mul(m, deep)", "k,n,m"),
        "adds rows": ("[1,3] a, [3,4] b", "m = MatMul(a, b) y = Mul(m, two)", "n,m"),
        "adds rows before": ("[1,3] a, [3,4] b", "s = Mul(a, two) y = MatMul(s, b)", "n,m"),
        "adds rows before a Gemm": ("[1,3] a, [3,4] b", "s = Mul(a, two) y = Gemm(s, b)", "n,m"),
        "zero": (AB, "m = MatMul(a, b) y = Mul(m, zero)", "n,m"),
        "not a number": (AB, "m = MatMul(a, b) y = Mul(m, nan)", "n,m"),
        "the product divides": (AB, "m = MatMul(a, b) y = Div(t, m)", "n,m"),
        "apart": (AB, "m = MatMul(a, b) r = Relu(m) y = Mul(r, h)", "n,m"),
        "shared product": (AB, "m = MatMul(a, b) s = Mul(m, h) y = Add(s, m)", "n,m"),
        "the same value twice": (AB, "m = MatMul(a, b) y = Mul(m, m)", "n,m"),
        "Gemm by a row": (ABC, "m = Gemm(a, b, c) y = Mul(m, row)", "n,m"),
        "sums that may be empty": ("[2,K] a, [K,4] b, [4] c", "m = Gemm(a, b, c) y = Neg(m)", "n,m"),
        "computed scale": (ABC, "m = MatMul(a, b) y = Mul(m, c)", "n,m"),
        "the scale is an input": (f"{AB}, [] s", "m = MatMul(a, b) y = Mul(m, s)", "n,m"),
        "no product, graph inputs and outputs at the ends": ("[2,4] a", "y = Mul(a, h)", "n,m"),
    },
)
def test_stays(types: str, body: str, result: str) -> None:
    stays(model(types.replace("[] s", "[1] s"), body, result=result), FOLD_SCALE_INTO_GEMM)


@cases(
    ("text", "opset", "runs"),
    {
        "product is a graph output": (
            (
                "g (float[2,3] a, float[3,4] b) => (float[n,m] m, float[n,m] y) <float h = {2}>"
                " { m = MatMul(a, b) y = Mul(m, h) }"
            ),
            17,
            True,
        ),
        "overridable scale": (
            "g (float[2,3] a, float[3,4] b, float h = {2}) => (float[n,m] y) { m = MatMul(a, b) y = Mul(m, h) }",
            17,
            True,
        ),
        "alpha would round a double": (
            "g (double[2,3] a, double[3,4] b) => (double[n,m] y) <double h = {0.1}> { m = MatMul(a, b) y = Mul(m, h) }",
            17,
            True,
        ),
        "integers": (
            "g (int32[2,3] a, int32[3,4] b) => (int32[n,m] y) <int32 h = {2}> { m = MatMul(a, b) y = Mul(m, h) }",
            17,
            True,
        ),
        "unknown rank": (
            "g (float[] a, float[3,4] b) => (float[] y) <float h = {2}> { m = MatMul(a, b) y = Mul(m, h) }",
            17,
            False,
        ),
        "older opset": (
            "g (float[2,3] a, float[3,4] b) => (float[n,m] y) <float h = {2}> { m = MatMul(a, b) y = Mul(m, h) }",
            6,
            False,
        ),
        "across the border of an If body": (
            (
                "g (bool k, float[2,3] a, float[3,4] b) => (float[n,m] y) <float h = {2}> { m = MatMul(a, b) y = If"
                " (k) <"
                "then_branch = t () => (float[n,m] r) { r = Mul(m, h) }, "
                "else_branch = e () => (float[n,m] s) { n = Neg(a) o = Relu(n) s = MatMul(o, b) }> }"
            ),
            17,
            True,
        ),
    },
)
def test_stays_elsewhere(text: str, opset: int, runs: bool) -> None:
    stays(text, FOLD_SCALE_INTO_GEMM, opset=opset, runs=runs)


NUMBERS = st.sampled_from([-4.0, -0.5, 0.25, 2.0])


@given(alpha=NUMBERS, beta=NUMBERS, s=NUMBERS, op=st.sampled_from(["Mul", "Div"]), bias=st.booleans())
def test_any_numbers(alpha: float, beta: float, s: float, op: str, bias: bool) -> None:
    constants = f"<float s = {{{s}}}>"
    inputs = "a, b, c" if bias else "a, b"
    by = s if op == "Mul" else 1 / s
    attrs = {"alpha": alpha * by, "beta": beta * by if bias else beta}
    written = ", ".join(f"{name}={v}" for name, v in attrs.items() if v != 1)
    before = f"m = Gemm<alpha={alpha}, beta={beta}>({inputs}) y = {op}(m, s)"
    after = f"y = Gemm{f'<{written}>' if written else ''}({inputs})"
    becomes(model(ABC, before, constants=constants), model(ABC, after, constants=constants), FOLD_SCALE_INTO_GEMM)
