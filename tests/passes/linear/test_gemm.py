"""MatMul + Add => Gemm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.passes.linear.gemm import matmul_add_to_gemm
from rewriting import becomes, cases, stays


def model(types: str, body: str, *, dtype: str = "float", result: str = "n,m") -> str:
    """`types` are the inputs without their element type: `[2,3] a, [3,4] b`."""
    inputs = types.replace("[", f"{dtype}[")
    return f"g ({inputs}) => ({dtype}[{result}] y) {{ {body} }}"


MATRICES = "[2,3] a, [3,4] b"
SUM = "m = MatMul(a, b) y = Add(m, c)"
GEMM = "y = Gemm(a, b, c)"


@cases(
    ("types", "before", "after"),
    {
        "a row": (f"{MATRICES}, [4] c", SUM, GEMM),
        "bias first": (f"{MATRICES}, [4] c", "m = MatMul(a, b) y = Add(c, m)", GEMM),
        "a matrix": (f"{MATRICES}, [2,4] c", SUM, GEMM),
        "a row of rank 2": (f"{MATRICES}, [1,4] c", SUM, GEMM),
        "a column": (f"{MATRICES}, [2,1] c", SUM, GEMM),
        "one number of rank 2": (f"{MATRICES}, [1,1] c", SUM, GEMM),
        "one number of rank 1": (f"{MATRICES}, [1] c", SUM, GEMM),
        "a product of one number": ("[1,3] a, [3,1] b, [1] c", SUM, GEMM),
        "symbolic batch": ("[N,3] a, [3,4] b, [4] c", SUM, GEMM),
        "all symbolic": ("[N,K] a, [K,M] b, [N,M] c", SUM, GEMM),
        "symbolic row": ("[N,K] a, [K,M] b, [M] c", SUM, GEMM),
        "the same value thrice": ("[2,2] a", "m = MatMul(a, a) y = Add(m, a)", "y = Gemm(a, a, a)"),
        "nothing to sum over": ("[2,0] a, [0,4] b, [4] c", SUM, GEMM),
        "no rows": ("[0,3] a, [3,4] b, [4] c", SUM, GEMM),
    },
)
def test_becomes(types: str, before: str, after: str) -> None:
    becomes(model(types, before), model(types, after), matmul_add_to_gemm)


@pytest.mark.parametrize("dtype", ["float", "double", "float16"])
def test_every_type_with_a_kernel(dtype: str) -> None:
    types = f"{MATRICES}, [4] c"
    becomes(model(types, SUM, dtype=dtype), model(types, GEMM, dtype=dtype), matmul_add_to_gemm)


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 22])
def test_every_opset_with_broadcasting(opset: int) -> None:
    types = f"{MATRICES}, [4] c"
    becomes(model(types, SUM), model(types, GEMM), matmul_add_to_gemm, opset=opset)


@cases(
    ("before", "after"),
    {
        "constant weights": (
            (
                "g (float[2,3] a, float[4] c) => (float[n,m] y) <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}>"
                " { m = MatMul(a, w) y = Add(m, c) }"
            ),
            (
                "g (float[2,3] a, float[4] c) => (float[n,m] y) <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}>"
                " { y = Gemm(a, w, c) }"
            ),
        ),
        "a scalar": (
            "g (float[2,3] a, float[3,2] b) => (float[n,m] y) <float s = {2.5}> { m = MatMul(a, b) y = Add(m, s) }",
            "g (float[2,3] a, float[3,2] b) => (float[n,m] y) <float s = {2.5}> { y = Gemm(a, b, s) }",
        ),
        "overridable bias": (
            "g (float[2,3] a, float[3,2] b, float[2] c = {1,2}) => (float[n,m] y) { m = MatMul(a, b) y = Add(m, c) }",
            "g (float[2,3] a, float[3,2] b, float[2] c = {1,2}) => (float[n,m] y) { y = Gemm(a, b, c) }",
        ),
        "two products: one of them is the bias": (
            "g (float[2,3] a, float[3,2] b) => (float[n,m] y) { p = MatMul(a, b) q = MatMul(a, b) y = Add(p, q) }",
            "g (float[2,3] a, float[3,2] b) => (float[n,m] y) { q = MatMul(a, b) y = Gemm(a, b, q) }",
        ),
        "inside an If body, of captured values": (
            (
                "g (bool k, float[2,3] a, float[3,2] b) => (float[n,m] y) <float[2] c = {1,2}> { y = If (k) <"
                "then_branch = t () => (float[n,m] r) { m = MatMul(a, b) r = Add(m, c) }, "
                "else_branch = e () => (float[n,m] s) { s = MatMul(a, b) }> }"
            ),
            (
                "g (bool k, float[2,3] a, float[3,2] b) => (float[n,m] y) <float[2] c = {1,2}> { y = If (k) <"
                "then_branch = t () => (float[n,m] r) { r = Gemm(a, b, c) }, "
                "else_branch = e () => (float[n,m] s) { s = MatMul(a, b) }> }"
            ),
        ),
    },
)
def test_becomes_elsewhere(before: str, after: str) -> None:
    becomes(before, after, matmul_add_to_gemm)


@cases(
    ("types", "body", "result"),
    {
        "batches of matrices": ("[5,2,3] a, [5,3,4] b, [4] c", SUM, "k,n,m"),
        "one side of rank 3": ("[5,2,3] a, [3,4] b, [4] c", SUM, "k,n,m"),
        "vector times matrix": ("[3] a, [3,4] b, [4] c", SUM, "n"),
        "matrix times vector": ("[2,3] a, [3] b, [2] c", SUM, "n"),
        "bias of rank 3": (f"{MATRICES}, [1,2,4] c", SUM, "k,n,m"),
        "bias of rank 3 that stretches the product": (f"{MATRICES}, [5,2,4] c", SUM, "k,n,m"),
        "bias with more rows": ("[1,3] a, [3,4] b, [2,4] c", SUM, "n,m"),
        "bias with more columns": ("[2,3] a, [3,1] b, [4] c", SUM, "n,m"),
        "bias with other symbolic rows": ("[N,3] a, [3,4] b, [M,4] c", SUM, "n,m"),
        "symbolic rows, bias with fixed ones": ("[N,3] a, [3,4] b, [2,4] c", SUM, "n,m"),
        "symbolic columns, bias with fixed ones": ("[2,3] a, [3,M] b, [4] c", SUM, "n,m"),
        "the same value twice": (MATRICES, "m = MatMul(a, b) y = Add(m, m)", "n,m"),
        "apart": (f"{MATRICES}, [4] c", "m = MatMul(a, b) r = Relu(m) y = Add(r, c)", "n,m"),
        "a difference": (f"{MATRICES}, [4] c", "m = MatMul(a, b) y = Sub(m, c)", "n,m"),
        "shared inner value": (f"{MATRICES}, [4] c", "m = MatMul(a, b) s = Add(m, c) r = Relu(m) y = Mul(r, s)", "n,m"),
        "no product, graph inputs and output at the ends": ("[2,4] a, [4] c", "y = Add(a, c)", "n,m"),
        "no sum": (MATRICES, "y = MatMul(a, b)", "n,m"),
    },
)
def test_stays(types: str, body: str, result: str) -> None:
    stays(model(types, body, result=result), matmul_add_to_gemm)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_stays_for_integers(dtype: str) -> None:
    stays(model(f"{MATRICES}, [4] c", SUM, dtype=dtype), matmul_add_to_gemm)


@cases(
    ("text", "opset", "runs"),
    {
        "inner value is a graph output": (
            (
                "g (float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] m, float[n,m] y)"
                " { m = MatMul(a, b) y = Add(m, c) }"
            ),
            17,
            True,
        ),
        "opset without broadcasting, non-default attributes": (
            (
                "g (float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] y) { m = MatMul(a, b)"
                " y = Add<axis=1, broadcast=1>(m, c) }"
            ),
            6,
            False,
        ),
        "older opset": (
            "g (float[2,3] a, float[3,4] b, float[2,4] c) => (float[n,m] y) { m = MatMul(a, b) y = Add(m, c) }",
            6,
            False,
        ),
        "unknown rank of a factor": (
            "g (float[] a, float[3,4] b, float[4] c) => (float[] y) { m = MatMul(a, b) y = Add(m, c) }",
            17,
            False,
        ),
        "unknown rank of the bias": (
            "g (float[2,3] a, float[3,4] b, float[] c) => (float[] y) { m = MatMul(a, b) y = Add(m, c) }",
            17,
            True,
        ),
        "unknown rows of the bias": (
            "g (float[2,3] a, float[3,4] b, float[?,4] c) => (float[?,4] y) { m = MatMul(a, b) y = Add(m, c) }",
            17,
            True,
        ),
        "bfloat16 has no kernel": (
            (
                "g (bfloat16[2,3] a, bfloat16[3,4] b, bfloat16[4] c) => (bfloat16[n,m] y)"
                " { m = MatMul(a, b) y = Add(m, c) }"
            ),
            17,
            False,
        ),
        "across the border of an If body": (
            (
                "g (bool k, float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] y) { m = MatMul(a, b) y = If (k) <"
                "then_branch = t () => (float[n,m] r) { r = Add(m, c) }, "
                "else_branch = e () => (float[n,m] s) { n = Neg(a) s = MatMul(n, b) }> }"
            ),
            17,
            True,
        ),
        "inner value captured by an If body": (
            (
                "g (bool k, float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] y) { m = MatMul(a, b) z = Add(m, c)"
                " y = If (k) <then_branch = t () => (float[n,m] r) { r = Relu(m) }, "
                "else_branch = e () => (float[n,m] s) { s = Neg(z) }> }"
            ),
            17,
            True,
        ),
    },
)
def test_stays_elsewhere(text: str, opset: int, runs: bool) -> None:
    stays(text, matmul_add_to_gemm, opset=opset, runs=runs)


EXTENT = st.integers(1, 3)


@given(n=EXTENT, k=EXTENT, m=EXTENT, c=st.lists(EXTENT, max_size=3), body=st.sampled_from(["m, c", "c, m"]))
def test_any_shapes(n: int, k: int, m: int, c: list[int], body: str) -> None:
    try:
        total = list(np.broadcast_shapes((n, m), tuple(c)))
    except ValueError:
        return
    bias = f"float{c}" if c else "float"
    text = f"g (float[{n},{k}] a, float[{k},{m}] b, {bias} c) => (float{total} y)"
    before = f"{text} {{ m = MatMul(a, b) y = Add({body}) }}"
    if total == [n, m]:
        becomes(before, f"{text} {{ {GEMM} }}", matmul_add_to_gemm)
    else:
        stays(before, matmul_add_to_gemm)
