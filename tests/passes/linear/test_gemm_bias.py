"""Summands before and behind products of matrices."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.linear import gemm
from rewriting import becomes, cases, stays
from weights import weights_used_in

FOLD_BIAS = rule_pass(gemm, "fold-bias")

KINDS = {"float": np.float32, "double": np.float64, "float16": np.float16}
WEIGHTS = {
    "w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "wt": np.linspace(-2, 1, 12, dtype=np.float32).reshape(4, 3),
    "w2": np.linspace(-2, 1, 24, dtype=np.float32).reshape(2, 3, 4),
    "row": np.array([1, -2, 3, 0.5], np.float32),
    "row2": np.array([[4, 3, 2, 1]], np.float32),
    "col": np.array([[1], [2]], np.float32),
    "all": np.arange(8, dtype=np.float32).reshape(2, 4),
    "num": np.array(0.5, np.float32),
    "deep": np.array([[[0.5]]], np.float32),
    "v": np.array([1, 2, -3], np.float32),
    "v2": np.array([1, 2], np.float32),
    "zero": np.zeros(4, np.float32),
    "zeros": np.zeros((2, 4), np.float32),
    "most": np.array(3e38, np.float32),
}
CONST = "<float k = {1}>"
AB = "[2,3] a, [3,4] b"
ABC = f"{AB}, [4] c"
used = partial(weights_used_in, weights=WEIGHTS)


def model(types: str, body: str, constants: str = "", result: str = "n,m", dtype: str = "float") -> str:
    """`types` are the inputs without their element type: `[2,3] a, [3,4] b`."""
    return f"g ({types.replace('[', f'{dtype}[')}) => ({dtype}[{result}] y) {constants} {{ {body} }}"


@cases(
    ("types", "before", "after"),
    {
        "computed bias": (ABC, "m = Gemm(a, b) y = Add(m, c)", "y = Gemm(a, b, c)"),
        "by a Sum": (ABC, "m = Gemm(a, b) y = Sum(c, m)", "y = Gemm(a, b, c)"),
        "matrix": (
            f"{AB}, [2,4] c",
            "m = Gemm<alpha=0.5,beta=3.0>(a, b) y = Add(m, c)",
            "y = Gemm<alpha=0.5>(a, b, c)",
        ),
        "transposed factors": (
            "[3,2] a, [4,3] b, [1] c",
            "m = Gemm<transA=1,transB=1>(a, b) y = Add(c, m)",
            "y = Gemm<transA=1,transB=1>(a, b, c)",
        ),
        "two constants": (AB, "m = Gemm(a, b, row) y = Add(m, row2)", "y = Gemm(a, b, k)"),
        "a matrix and a row": (AB, "m = Gemm(a, b, all) y = Add(m, row)", "y = Gemm(a, b, k)"),
        "beta goes into the constant": (AB, "m = Gemm<beta=2.0>(a, b, row) y = Sub(m, num)", "y = Gemm(a, b, k)"),
        "a bias of no weight": (ABC, "m = Gemm<beta=0.0>(a, b, row) y = Add(m, c)", "y = Gemm(a, b, c)"),
        "minus a computed bias": (ABC, "m = Gemm(a, b) y = Sub(m, c)", "y = Gemm<beta=-1.0>(a, b, c)"),
        "minus a constant": (AB, "m = Gemm(a, b) y = Sub(m, row)", "y = Gemm(a, b, k)"),
        "minus a Gemm": (ABC, "m = Gemm(a, b) y = Sub(c, m)", "y = Gemm<alpha=-1.0>(a, b, c)"),
        "constant minus a Gemm with bias": (
            AB,
            "m = Gemm<alpha=2.0,beta=3.0>(a, b, row) y = Sub(row2, m)",
            "y = Gemm<alpha=-2.0>(a, b, k)",
        ),
        "product - computed": (ABC, "m = MatMul(a, b) y = Sub(m, c)", "y = Gemm<beta=-1.0>(a, b, c)"),
        "product - constant": (AB, "m = MatMul(a, b) y = Sub(m, row)", "y = Gemm(a, b, k)"),
        "something - product": (ABC, "m = MatMul(a, b) y = Sub(c, m)", "y = Gemm<alpha=-1.0>(a, b, c)"),
        "shift of the operand": ("[2,3] x", "s = Add(x, v) y = MatMul(s, w)", "y = Gemm(x, k, k)"),
        "by minus a number": ("[2,3] x", "s = Sub(x, num) y = MatMul(s, w)", "y = Gemm(x, k, k)"),
        "before a Gemm": (
            "[N,3] x",
            "s = Add(v, x) y = Gemm<alpha=0.5,beta=2.0,transB=1>(s, wt, row)",
            "y = Gemm<alpha=0.5,transB=1>(x, k, k)",
        ),
        "before transA": ("[3,2] x", "s = Add(x, num) y = Gemm<transA=1>(s, w)", "y = Gemm<transA=1>(x, k, k)"),
        "no bias": ("[2,3] a", "y = Gemm<alpha=2.0,beta=3.0>(a, w, zero)", "y = Gemm<alpha=2.0>(a, k)"),
        "a matrix of zeros": (AB, "y = Gemm(a, b, zeros)", "y = Gemm(a, b)"),
        "all of it": ("[2,3] x", "s = Sub(x, v) m = MatMul(s, w) n = Sub(m, row) y = Add(n, num)", "y = Gemm(x, k, k)"),
        "no rows": ("[0,3] a, [3,4] b, [4] c", "m = Gemm(a, b) y = Add(m, c)", "y = Gemm(a, b, c)"),
        "symbolic": ("[N,K] a, [K,M] b, [M] c", "m = Gemm(a, b) y = Add(m, c)", "y = Gemm(a, b, c)"),
    },
)
def test_becomes(types: str, before: str, after: str) -> None:
    becomes(model(types, before), model(types, after, CONST), FOLD_BIAS, weights=used(before))


@cases(
    ("types", "before"),
    {
        "batches of matrices": ("[5,2,3] x", "s = Add(x, v) m = MatMul(s, w) y = Add(m, row)"),
        "numbers, symbolic batch": ("[B,T,3] x", "s = Add(num, x) m = MatMul(s, w) y = Add(deep, m)"),
    },
)
def test_a_shift_moves_behind(types: str, before: str) -> None:
    after = model(types, "m = MatMul(x, k) y = Add(m, k)", CONST, "k,n,m")
    becomes(model(types, before, result="k,n,m"), after, FOLD_BIAS, weights=used(before))


@pytest.mark.parametrize("dtype", list(KINDS))
@pytest.mark.parametrize("opset", [7, 9, 11, 13, 22])
def test_every_type_and_opset(dtype: str, opset: int) -> None:
    weights = {name: a.astype(KINDS[dtype]) for name, a in WEIGHTS.items() if name in {"w", "row", "num"}}
    before = model("[2,3] a", "m = Gemm(a, w, row) y = Sub(m, num)", dtype=dtype)
    after = model("[2,3] a", "y = Gemm(a, k, k)", CONST, dtype=dtype)
    becomes(before, after, FOLD_BIAS, opset=opset, weights=weights)


@cases(
    ("types", "body", "result"),
    {
        "two computed": (f"{ABC}, [4] d", "m = Gemm(a, b, c) y = Add(m, d)", "n,m"),
        "computed and constant": (ABC, "m = Gemm(a, b, c) y = Add(m, row)", "n,m"),
        "a row and a column: the sum is larger": (AB, "m = Gemm(a, b, row) y = Add(m, col)", "n,m"),
        "adds a dim": (AB, "m = Gemm(a, b) y = Add(m, deep)", "k,n,m"),
        "adds rows": ("[1,3] a, [3,4] b", "m = Gemm(a, b) y = Add(m, col)", "n,m"),
        "adds columns": ("[2,3] a, [3,1] b", "m = Gemm(a, b) y = Add(m, row)", "n,m"),
        "product that gets rows": ("[1,3] a, [3,4] b", "m = MatMul(a, b) y = Sub(m, col)", "n,m"),
        "batches": ("[5,2,3] a, [3,4] b", "m = MatMul(a, b) y = Sub(m, row)", "k,n,m"),
        "a vector": ("[3] a, [3,4] b", "m = MatMul(a, b) y = Sub(m, row)", "m"),
        "a scale": (ABC, "m = Gemm(a, b) y = Mul(m, c)", "n,m"),
        "apart": (ABC, "m = Gemm(a, b) r = Relu(m) y = Add(r, c)", "n,m"),
        "shared product": (ABC, "m = Gemm(a, b) s = Add(m, c) y = Mul(s, m)", "n,m"),
        "the same value twice": (AB, "m = Gemm(a, b) y = Add(m, m)", "n,m"),
        "a Sum of three": (ABC, "m = Gemm(a, b) y = Sum(m, c, c)", "n,m"),
        "the sum overflows": (AB, "m = Gemm(a, b, most) y = Add(m, most)", "n,m"),
        "computed shift": ("[2,3] x, [3] u", "s = Add(x, u) y = MatMul(s, w)", "n,m"),
        "computed weights": ("[2,3] x, [3,4] b", "s = Add(x, v) y = MatMul(s, b)", "n,m"),
        "a shift for each row": ("[2,3] x", "s = Add(x, col) y = MatMul(s, w)", "n,m"),
        "a shift that adds rows": ("[1,3] x", "s = Add(x, col) y = MatMul(s, w)", "n,m"),
        "a shift that adds columns": ("[2,1] x", "s = Add(x, v) y = MatMul(s, w)", "n,m"),
        "batches, and no sum behind": ("[5,2,3] x", "s = Add(x, v) y = MatMul(s, w)", "k,n,m"),
        "weights in batches": ("[2,5,3] x", "s = Add(x, v) m = MatMul(s, w2) y = Add(m, row)", "k,n,m"),
        "axis not summed over": ("[3,2] x", "s = Add(x, v2) y = Gemm<transA=1>(s, w)", "n,m"),
        "shared sum": ("[2,3] x", "s = Add(x, v) m = MatMul(s, w) r = ReduceSum(s) y = Mul(m, r)", "n,m"),
        "a bias": ("[2,3] x", "y = Gemm(x, w, row)", "n,m"),
        "a computed bias alone": (ABC, "y = Gemm(a, b, c)", "n,m"),
        "sums that may be empty": ("[2,K] a, [K,4] b, [4] c", "m = Gemm(a, b) y = Sub(m, c)", "n,m"),
        "empty, of a product": ("[2,K] a, [K,4] b, [4] c", "m = MatMul(a, b) y = Sub(m, c)", "n,m"),
        "a vector as factor": ("[3] a, [3,4] b, [4] c", "m = MatMul(a, b) y = Sub(m, c)", "m"),
        "empty, with beta": ("[2,K] a, [K,4] b", "m = Gemm<beta=2.0>(a, b, row) y = Add(m, row)", "n,m"),
    },
)
def test_stays(types: str, body: str, result: str) -> None:
    stays(model(types, body, result=result), FOLD_BIAS, weights=used(body), runs="most" not in body)


@cases(
    ("text", "opset", "runs"),
    {
        "a bias that does not fit": (
            (
                "g (float[2,3] a, float[3,4] b, float[2,2] c, float[2,4] d) => (float[n,m] y)"
                " { m = Gemm<beta=2.0>(a, b, c) y = Sub(m, d) }"
            ),
            17,
            False,
        ),
        "product is a graph output": (
            (
                "g (float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] m, float[n,m] y)"
                " { m = Gemm(a, b) y = Add(m, c) }"
            ),
            17,
            True,
        ),
        "zero bias that may be overridden": (
            "g (float[2,3] a, float[3,4] b, float[4] c = {0,0,0,0}) => (float[n,m] y) { y = Gemm(a, b, c) }",
            17,
            True,
        ),
        "zero bias that the opset demands": (
            "g (float[2,3] a, float[3,4] b) => (float[n,m] y) <float[4] c = {0,0,0,0}> { y = Gemm(a, b, c) }",
            9,
            True,
        ),
        "unknown rank of the bias": (
            "g (float[2,3] a, float[3,4] b, float[] c) => (float[] y) { m = Gemm(a, b) y = Add(m, c) }",
            17,
            True,
        ),
        "integers": (
            "g (int32[2,3] a, int32[3,4] b, int32[4] c) => (int32[n,m] y) { m = MatMul(a, b) y = Sub(m, c) }",
            17,
            True,
        ),
        "older opset": (
            (
                "g (float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] y)"
                " { m = MatMul(a, b) y = Sub<axis=1,broadcast=1>(m, c) }"
            ),
            6,
            False,
        ),
        "across the border of an If body": (
            (
                "g (bool k, float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] y) { m = Gemm(a, b) y = If (k) <"
                "then_branch = t () => (float[n,m] r) { r = Add(m, c) }, "
                "else_branch = e () => (float[n,m] s) { n = Neg(a) s = Gemm(n, b) }> }"
            ),
            17,
            True,
        ),
    },
)
def test_stays_elsewhere(text: str, opset: int, runs: bool) -> None:
    stays(text, FOLD_BIAS, opset=opset, runs=runs)


NUMBERS = st.sampled_from([-4.0, -0.5, 0.25, 1.0, 2.0])
DIMS = st.sampled_from([(), (1,), (4,), (1, 4), (2, 4)])


@given(alpha=NUMBERS, beta=NUMBERS, c=DIMS, d=DIMS, op=st.sampled_from(["Add(m, d)", "Sub(m, d)", "Sub(d, m)"]))
def test_any_constants(alpha: float, beta: float, c: tuple[int, ...], d: tuple[int, ...], op: str) -> None:
    weights = {"c": np.full(c, 1.5, np.float32), "d": np.full(d, -0.25, np.float32)}
    sign = -1 if op == "Sub(d, m)" else 1
    attrs = f"<alpha={alpha * sign}>" if alpha * sign != 1 else ""
    before = f"m = Gemm<alpha={alpha},beta={beta}>(a, b, c) y = {op}"
    becomes(model(AB, before), model(AB, f"y = Gemm{attrs}(a, b, k)", CONST), FOLD_BIAS, weights=weights)
