"""MatMul + Add => Gemm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.passes.linear.gemm import matmul_add_to_gemm
from rewriting import becomes, stays


def model(types: str, body: str, *, dtype: str = "float", result: str = "n,m") -> str:
    """`types` are the inputs without their element type: `[2,3] a, [3,4] b`."""
    inputs = types.replace("[", f"{dtype}[")
    return f"g ({inputs}) => ({dtype}[{result}] y) {{ {body} }}"


MATRICES = "[2,3] a, [3,4] b"
SUM = "m = MatMul(a, b) y = Add(m, c)"
GEMM = "y = Gemm(a, b, c)"


@pytest.mark.parametrize(
    ("types", "before", "after"),
    [
        pytest.param(f"{MATRICES}, [4] c", SUM, GEMM, id="a row"),
        pytest.param(f"{MATRICES}, [4] c", "m = MatMul(a, b) y = Add(c, m)", GEMM, id="bias first"),
        pytest.param(f"{MATRICES}, [2,4] c", SUM, GEMM, id="a matrix"),
        pytest.param(f"{MATRICES}, [1,4] c", SUM, GEMM, id="a row of rank 2"),
        pytest.param(f"{MATRICES}, [2,1] c", SUM, GEMM, id="a column"),
        pytest.param(f"{MATRICES}, [1,1] c", SUM, GEMM, id="one number of rank 2"),
        pytest.param(f"{MATRICES}, [1] c", SUM, GEMM, id="one number of rank 1"),
        pytest.param("[1,3] a, [3,1] b, [1] c", SUM, GEMM, id="a product of one number"),
        pytest.param("[N,3] a, [3,4] b, [4] c", SUM, GEMM, id="symbolic batch"),
        pytest.param("[N,K] a, [K,M] b, [N,M] c", SUM, GEMM, id="all symbolic"),
        pytest.param("[N,K] a, [K,M] b, [M] c", SUM, GEMM, id="symbolic row"),
        pytest.param("[2,2] a", "m = MatMul(a, a) y = Add(m, a)", "y = Gemm(a, a, a)", id="the same value thrice"),
        pytest.param("[2,0] a, [0,4] b, [4] c", SUM, GEMM, id="nothing to sum over"),
        pytest.param("[0,3] a, [3,4] b, [4] c", SUM, GEMM, id="no rows"),
    ],
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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "g (float[2,3] a, float[4] c) => (float[n,m] y) <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}>"
            " { m = MatMul(a, w) y = Add(m, c) }",
            "g (float[2,3] a, float[4] c) => (float[n,m] y) <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}>"
            " { y = Gemm(a, w, c) }",
            id="constant weights",
        ),
        pytest.param(
            "g (float[2,3] a, float[3,2] b) => (float[n,m] y) <float s = {2.5}> { m = MatMul(a, b) y = Add(m, s) }",
            "g (float[2,3] a, float[3,2] b) => (float[n,m] y) <float s = {2.5}> { y = Gemm(a, b, s) }",
            id="a scalar",
        ),
        pytest.param(
            "g (float[2,3] a, float[3,2] b, float[2] c = {1,2}) => (float[n,m] y) { m = MatMul(a, b) y = Add(m, c) }",
            "g (float[2,3] a, float[3,2] b, float[2] c = {1,2}) => (float[n,m] y) { y = Gemm(a, b, c) }",
            id="overridable bias",
        ),
        pytest.param(
            "g (float[2,3] a, float[3,2] b) => (float[n,m] y) { p = MatMul(a, b) q = MatMul(a, b) y = Add(p, q) }",
            "g (float[2,3] a, float[3,2] b) => (float[n,m] y) { q = MatMul(a, b) y = Gemm(a, b, q) }",
            id="two products: one of them is the bias",
        ),
        pytest.param(
            "g (bool k, float[2,3] a, float[3,2] b) => (float[n,m] y) <float[2] c = {1,2}> { y = If (k) <"
            "then_branch = t () => (float[n,m] r) { m = MatMul(a, b) r = Add(m, c) }, "
            "else_branch = e () => (float[n,m] s) { s = MatMul(a, b) }> }",
            "g (bool k, float[2,3] a, float[3,2] b) => (float[n,m] y) <float[2] c = {1,2}> { y = If (k) <"
            "then_branch = t () => (float[n,m] r) { r = Gemm(a, b, c) }, "
            "else_branch = e () => (float[n,m] s) { s = MatMul(a, b) }> }",
            id="inside an If body, of captured values",
        ),
    ],
)
def test_becomes_elsewhere(before: str, after: str) -> None:
    becomes(before, after, matmul_add_to_gemm)


@pytest.mark.parametrize(
    ("types", "body", "result"),
    [
        pytest.param("[5,2,3] a, [5,3,4] b, [4] c", SUM, "k,n,m", id="batches of matrices"),
        pytest.param("[5,2,3] a, [3,4] b, [4] c", SUM, "k,n,m", id="one side of rank 3"),
        pytest.param("[3] a, [3,4] b, [4] c", SUM, "n", id="vector times matrix"),
        pytest.param("[2,3] a, [3] b, [2] c", SUM, "n", id="matrix times vector"),
        pytest.param(f"{MATRICES}, [1,2,4] c", SUM, "k,n,m", id="bias of rank 3"),
        pytest.param(f"{MATRICES}, [5,2,4] c", SUM, "k,n,m", id="bias of rank 3 that stretches the product"),
        pytest.param("[1,3] a, [3,4] b, [2,4] c", SUM, "n,m", id="bias with more rows"),
        pytest.param("[2,3] a, [3,1] b, [4] c", SUM, "n,m", id="bias with more columns"),
        pytest.param("[N,3] a, [3,4] b, [M,4] c", SUM, "n,m", id="bias with other symbolic rows"),
        pytest.param("[N,3] a, [3,4] b, [2,4] c", SUM, "n,m", id="symbolic rows, bias with fixed ones"),
        pytest.param("[2,3] a, [3,M] b, [4] c", SUM, "n,m", id="symbolic columns, bias with fixed ones"),
        pytest.param(MATRICES, "m = MatMul(a, b) y = Add(m, m)", "n,m", id="the same value twice"),
        pytest.param(f"{MATRICES}, [4] c", "m = MatMul(a, b) r = Relu(m) y = Add(r, c)", "n,m", id="apart"),
        pytest.param(f"{MATRICES}, [4] c", "m = MatMul(a, b) y = Sub(m, c)", "n,m", id="a difference"),
        pytest.param(
            f"{MATRICES}, [4] c",
            "m = MatMul(a, b) s = Add(m, c) r = Relu(m) y = Mul(r, s)",
            "n,m",
            id="shared inner value",
        ),
        pytest.param("[2,4] a, [4] c", "y = Add(a, c)", "n,m", id="no product, graph inputs and output at the ends"),
        pytest.param(MATRICES, "y = MatMul(a, b)", "n,m", id="no sum"),
    ],
)
def test_stays(types: str, body: str, result: str) -> None:
    stays(model(types, body, result=result), matmul_add_to_gemm)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_stays_for_integers(dtype: str) -> None:
    stays(model(f"{MATRICES}, [4] c", SUM, dtype=dtype), matmul_add_to_gemm)


@pytest.mark.parametrize(
    ("text", "opset", "runs"),
    [
        pytest.param(
            "g (float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] m, float[n,m] y)"
            " { m = MatMul(a, b) y = Add(m, c) }",
            17,
            True,
            id="inner value is a graph output",
        ),
        pytest.param(
            "g (float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] y) { m = MatMul(a, b)"
            " y = Add<axis=1, broadcast=1>(m, c) }",
            6,
            False,
            id="opset without broadcasting, non-default attributes",
        ),
        pytest.param(
            "g (float[2,3] a, float[3,4] b, float[2,4] c) => (float[n,m] y) { m = MatMul(a, b) y = Add(m, c) }",
            6,
            False,
            id="older opset",
        ),
        pytest.param(
            "g (float[] a, float[3,4] b, float[4] c) => (float[] y) { m = MatMul(a, b) y = Add(m, c) }",
            17,
            False,
            id="unknown rank of a factor",
        ),
        pytest.param(
            "g (float[2,3] a, float[3,4] b, float[] c) => (float[] y) { m = MatMul(a, b) y = Add(m, c) }",
            17,
            True,
            id="unknown rank of the bias",
        ),
        pytest.param(
            "g (float[2,3] a, float[3,4] b, float[?,4] c) => (float[?,4] y) { m = MatMul(a, b) y = Add(m, c) }",
            17,
            True,
            id="unknown rows of the bias",
        ),
        pytest.param(
            "g (bfloat16[2,3] a, bfloat16[3,4] b, bfloat16[4] c) => (bfloat16[n,m] y)"
            " { m = MatMul(a, b) y = Add(m, c) }",
            17,
            False,
            id="bfloat16 has no kernel",
        ),
        pytest.param(
            "g (bool k, float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] y) { m = MatMul(a, b) y = If (k) <"
            "then_branch = t () => (float[n,m] r) { r = Add(m, c) }, "
            "else_branch = e () => (float[n,m] s) { n = Neg(a) s = MatMul(n, b) }> }",
            17,
            True,
            id="across the border of an If body",
        ),
        pytest.param(
            "g (bool k, float[2,3] a, float[3,4] b, float[4] c) => (float[n,m] y) { m = MatMul(a, b) z = Add(m, c)"
            " y = If (k) <then_branch = t () => (float[n,m] r) { r = Relu(m) }, "
            "else_branch = e () => (float[n,m] s) { s = Neg(z) }> }",
            17,
            True,
            id="inner value captured by an If body",
        ),
    ],
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
