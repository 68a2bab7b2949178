"""Transposes before and behind products."""

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

FOLD_TRANSPOSE_INTO_GEMM = rule_pass(gemm, "fold-transpose-into-gemm")

KINDS = {"float": np.float32, "double": np.float64, "float16": np.float16}
WEIGHTS = {
    "w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "w3": np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4),
    "row": np.array([1, -2, 3, 0.5], np.float32),
    "col": np.array([[1], [-2]], np.float32),
    "all": np.arange(8, dtype=np.float32).reshape(2, 4),
    "num": np.array(0.5, np.float32),
    "deep": np.ones((1, 1, 1, 4), np.float32),
}
CONST = "<float k = {1}>"
T = "Transpose<perm=[1,0]>"
T3 = "Transpose<perm=[0,2,1]>"
used = partial(weights_used_in, weights=WEIGHTS)


def model(types: str, body: str, constants: str = "", result: str = "n,m", dtype: str = "float") -> str:
    """`types` are the inputs without their element type: `[2,3] a, [3,4] b`."""
    return f"g ({types.replace('[', f'{dtype}[')}) => ({dtype}[{result}] y) {constants} {{ {body} }}"


@cases(
    ("types", "before", "after"),
    {
        "left": ("[3,2] a, [3,4] b", f"t = {T}(a) y = MatMul(t, b)", "y = Gemm<transA=1>(a, b)"),
        "right": ("[2,3] a, [4,3] b", "t = Transpose(b) y = MatMul(a, t)", "y = Gemm<transB=1>(a, b)"),
        "both": ("[3,2] a, [4,3] b", f"t = {T}(a) u = {T}(b) y = MatMul(t, u)", "y = Gemm<transA=1,transB=1>(a, b)"),
        "open": ("[K,N] a, [M,K] b", f"t = {T}(b) u = {T}(a) y = MatMul(u, t)", "y = Gemm<transA=1,transB=1>(a, b)"),
        "the same twice": ("[3,3] a", f"t = {T}(a) y = MatMul(t, t)", "y = Gemm<transA=1,transB=1>(a, a)"),
        "a Gram matrix": ("[3,2] a", f"t = {T}(a) y = MatMul(t, a)", "y = Gemm<transA=1>(a, a)"),
        "left of a Gemm": (
            "[3,2] a, [3,4] b, [4] c",
            f"t = {T}(a) y = Gemm<alpha=2.0,beta=0.5>(t, b, c)",
            "y = Gemm<alpha=2.0,beta=0.5,transA=1>(a, b, c)",
        ),
        "left, transposed already": ("[2,3] a, [3,4] b", f"t = {T}(a) y = Gemm<transA=1>(t, b)", "y = Gemm(a, b)"),
        "right of a Gemm": ("[2,3] a, [4,3] b, [1] c", f"t = {T}(b) y = Gemm(a, t, c)", "y = Gemm<transB=1>(a, b, c)"),
        "transpose of a Gemm": (
            "[2,3] a, [4,3] b",
            "m = Gemm<alpha=2.0,transB=1>(a, b) y = Transpose(m)",
            "y = Gemm<alpha=2.0,transB=1>(b, a)",
        ),
        "its bias a row": (
            "[2,3] a, [3,4] b",
            "m = Gemm(a, b, row) y = Transpose(m)",
            "y = Gemm<transA=1,transB=1>(b, a, k)",
        ),
        "its bias a column": (
            "[2,3] a, [3,4] b",
            "m = Gemm(a, b, col) y = Transpose(m)",
            "y = Gemm<transA=1,transB=1>(b, a, k)",
        ),
        "its bias a matrix": (
            "[3,2] a, [3,4] b",
            "m = Gemm<transA=1>(a, b, all) y = Transpose(m)",
            "y = Gemm<transA=1>(b, a, k)",
        ),
        "its bias one number": (
            "[2,3] a, [3,4] b",
            "m = Gemm(a, b, num) y = Transpose(m)",
            "y = Gemm<transA=1,transB=1>(b, a, k)",
        ),
        "of a product": ("[2,3] a, [3,4] b", f"m = MatMul(a, b) y = {T}(m)", "y = Gemm<transA=1,transB=1>(b, a)"),
        "around it": ("[3,2] x", f"t = {T}(x) m = MatMul(t, w) y = {T}(m)", "y = Gemm<transA=1>(k, x)"),
        "no rows": ("[3,0] a, [3,4] b", f"t = {T}(a) y = MatMul(t, b)", "y = Gemm<transA=1>(a, b)"),
    },
)
def test_becomes(types: str, before: str, after: str) -> None:
    becomes(model(types, before), model(types, after, CONST), FOLD_TRANSPOSE_INTO_GEMM, weights=used(before))


@cases(
    ("types", "before", "after"),
    {
        "both factors of batches": (
            "[B,K,N] a, [B,4,K] b",
            f"t = {T3}(a) u = {T3}(b) y = MatMul(t, u)",
            f"m = MatMul(b, a) y = {T3}(m)",
        ),
        "of unequal rank": (
            "[5,3,2] a, [4,3] b",
            f"t = {T3}(a) u = {T}(b) y = MatMul(t, u)",
            f"m = MatMul(b, a) y = {T3}(m)",
        ),
        "around a product": ("[5,3,2] x", f"t = {T3}(x) m = MatMul(t, w) y = {T3}(m)", "y = MatMul(k, x)"),
        "in batches": ("[2,3,5] x", f"t = {T3}(x) m = MatMul(t, w3) y = {T3}(m)", "y = MatMul(k, x)"),
        "around a product of two": (
            "[5,3,2] x, [3,4] b",
            f"t = {T3}(x) m = MatMul(t, b) y = {T3}(m)",
            f"t = {T}(b) y = MatMul(t, x)",
        ),
        "around a product and a sum": (
            "[6,3,2] x",
            f"t = {T3}(x) m = MatMul(t, w) s = Add(m, row) y = {T3}(s)",
            "m = MatMul(k, x) y = Add(m, k)",
        ),
        "around a product and a sum with a matrix": (
            "[5,3,2] x",
            f"t = {T3}(x) m = MatMul(t, w) s = Add(all, m) y = {T3}(s)",
            "m = MatMul(k, x) y = Add(m, k)",
        ),
    },
)
def test_becomes_in_batches(types: str, before: str, after: str) -> None:
    want = model(types, after, CONST, "k_,n,m")
    becomes(model(types, before, result="k_,n,m"), want, FOLD_TRANSPOSE_INTO_GEMM, weights=used(before))


def test_a_transpose_for_two_products() -> None:
    before = "t = Transpose(a) p = MatMul(t, b) q = MatMul(b, p) r = MatMul(a, t) y = Concat<axis=1>(q, r)"
    after = "p = Gemm<transA=1>(a, b) q = MatMul(b, p) r = Gemm<transB=1>(a, a) y = Concat<axis=1>(q, r)"
    types = "[4,4] a, [4,4] b"
    becomes(model(types, before), model(types, after), FOLD_TRANSPOSE_INTO_GEMM)


@pytest.mark.parametrize("dtype", list(KINDS))
@pytest.mark.parametrize("opset", [7, 9, 11, 13, 22])
def test_every_type_and_opset(dtype: str, opset: int) -> None:
    types, before = "[3,2] a, [3,4] b", "t = Transpose(a) y = MatMul(t, b)"
    after = "y = Gemm<transA=1>(a, b)" if opset >= 11 else "y = Gemm<transA=1>(a, b, k)"
    want = model(types, after, CONST, dtype=dtype)
    becomes(model(types, before, dtype=dtype), want, FOLD_TRANSPOSE_INTO_GEMM, opset=opset)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32"])
def test_integers_have_no_gemm(dtype: str) -> None:
    types = "[3,2] a, [4,3] b"
    before = "t = Transpose(a) u = Transpose(b) y = MatMul(t, u)"
    after = "m = MatMul(b, a) y = Transpose<perm=[1,0]>(m)"
    becomes(model(types, before, dtype=dtype), model(types, after, dtype=dtype), FOLD_TRANSPOSE_INTO_GEMM)
    stays(model("[3,2] a, [3,4] b", "t = Transpose(a) y = MatMul(t, b)", dtype=dtype), FOLD_TRANSPOSE_INTO_GEMM)


@cases(
    ("types", "body", "result"),
    {
        "left of batches": ("[5,3,2] a, [5,3,4] b", f"t = {T3}(a) y = MatMul(t, b)", "k,n,m"),
        "right of a batch": ("[5,2,3] a, [4,3] b", f"t = {T}(b) y = MatMul(a, t)", "k,n,m"),
        "of a vector": ("[3] a, [4,3] b", f"t = {T}(b) y = MatMul(a, t)", "n"),
        "apart": ("[3,2] a, [3,4] b", f"t = {T}(a) r = Relu(t) y = MatMul(r, b)", "n,m"),
        "read": ("[3,2] a, [3,4] b", f"t = {T}(a) m = MatMul(t, b) s = ReduceSum(t) y = Mul(m, s)", "n,m"),
        "moves nothing": ("[2,3] a, [3,4] b", "t = Transpose<perm=[0,1]>(a) y = MatMul(t, b)", "n,m"),
        "nothing, for a Gemm": ("[2,3] a, [3,4] b", "t = Transpose<perm=[0,1]>(a) y = Gemm(t, b)", "n,m"),
        "computed bias": ("[2,3] a, [3,4] b, [4] c", "m = Gemm(a, b, c) y = Transpose(m)", "n,m"),
        "m": ("[2,3] a, [3,4] b", "m = Gemm(a, b) t = Transpose(m) s = ReduceSum(m) y = Mul(t, s)", "n,m"),
        "of a product of batches": ("[5,2,3] a, [3,4] b", f"m = MatMul(a, b) y = {T3}(m)", "k,n,m"),
        "other axes": (
            "[3,2,5] a, [3,2,5] b",
            "t = Transpose<perm=[1,0,2]>(a) u = Transpose<perm=[1,2,0]>(b) y = MatMul(t, u)",
            "k,n,m",
        ),
        "a batch that may be empty": ("[B,3,2] a, [4,3] b", f"t = {T3}(a) u = {T}(b) y = MatMul(t, u)", "k,n,m"),
        "a batch that may be empty, weights": ("[B,3,2] x", f"t = {T3}(x) m = MatMul(t, w) y = {T3}(m)", "k,n,m"),
        "other axes behind": ("[5,3,2] x", f"t = {T3}(x) m = MatMul(t, w) y = Transpose<perm=[2,0,1]>(m)", "k,n,m"),
        "other axes before": ("[3,5,2] x", f"t = Transpose<perm=[1,2,0]>(x) m = MatMul(t, w) y = {T3}(m)", "k,n,m"),
        "before only": ("[5,3,2] x", f"t = {T3}(x) m = MatMul(t, w) y = Sub(m, num)", "k,n,m"),
        "weights of higher rank": ("[3,2] x", f"t = Transpose(x) m = MatMul(t, w3) y = {T3}(m)", "k,n,m"),
        "a scale between": ("[5,3,2] x", f"t = {T3}(x) m = MatMul(t, w) s = Mul(m, row) y = {T3}(s)", "k,n,m"),
        "a computed sum between": (
            "[5,3,2] x, [4] c",
            f"t = {T3}(x) m = MatMul(t, w) s = Add(m, c) y = {T3}(s)",
            "k,n,m",
        ),
        "shared weights": (
            "[5,3,2] x",
            f"t = {T3}(x) m = MatMul(t, w) s = ReduceSum(w) u = {T3}(m) y = Mul(s, u)",
            "k,n,m",
        ),
        "alone": ("[2,3] a", "y = Transpose(a)", "n,m"),
    },
)
def test_stays(types: str, body: str, result: str) -> None:
    stays(model(types, body, result=result), FOLD_TRANSPOSE_INTO_GEMM, weights=used(body))


@cases(
    ("text", "opset", "weights"),
    {
        "the transpose is a graph output": (
            "g (float[3,2] a, float[3,4] b) => (float[n,m] t, float[n,m] y) { t = Transpose(a) y = MatMul(t, b) }",
            17,
            {},
        ),
        "of a constant": (
            "g (float[2,3] a) => (float[n,m] y) { t = Transpose(w) y = MatMul(a, t) }",
            17,
            {"w": WEIGHTS["w"].reshape(4, 3)},
        ),
        "unknown rank": ("g (float[] a, float[3,4] b) => (float[] y) { t = Transpose(a) y = MatMul(t, b) }", 17, {}),
        "older opset": (
            (
                "g (float[3,2] a, float[3,4] b, float[4] c) => (float[n,m] y)"
                " { t = Transpose(a) y = Gemm<broadcast=1>(t, b, c) }"
            ),
            6,
            {},
        ),
        "across the border of an If body": (
            (
                "g (bool k, float[3,2] a, float[3,4] b) => (float[n,m] y) { t = Transpose(a) y = If (k) <"
                "then_branch = f () => (float[n,m] r) { r = MatMul(t, b) }, "
                "else_branch = e () => (float[n,m] s) { n = Neg(t) s = MatMul(n, b) }> }"
            ),
            17,
            {},
        ),
    },
)
def test_stays_elsewhere(text: str, opset: int, weights: dict[str, np.ndarray]) -> None:
    stays(text, FOLD_TRANSPOSE_INTO_GEMM, opset=opset, weights=weights, runs=opset >= 7 and "[]" not in text)


@given(
    a=st.booleans(),
    b=st.booleans(),
    left=st.booleans(),
    right=st.booleans(),
    behind=st.booleans(),
)
def test_any_sides(a: bool, b: bool, left: bool, right: bool, behind: bool) -> None:
    """The Gemm has transA = a and transB = b; its factors and its result may be transposed."""
    types = f"{[2, 3] if a == left else [3, 2]} a, {[3, 4] if b == right else [4, 3]} b"
    x, y = ("t" if left else "a"), ("u" if right else "b")
    lines = [f"{'t = Transpose(a)' if left else ''} {'u = Transpose(b)' if right else ''}"]
    lines.append(f"m = Gemm<alpha=2.0,transA={int(a)},transB={int(b)}>({x}, {y})")
    lines.append("y = Transpose(m)" if behind else "y = Relu(m)")
    sides = (a != left, b != right)
    written = ",".join(
        f"{name}=1"
        for name, side in zip(("transA", "transB"), (not sides[1], not sides[0]) if behind else sides, strict=True)
        if side
    )
    attrs = f"<alpha=2.0{',' if written else ''}{written}>"
    after = f"y = Gemm{attrs}(b, a)" if behind else f"m = Gemm{attrs}(a, b) y = Relu(m)"
    before = model(types, " ".join(lines))
    if left or right or behind:
        becomes(before, model(types, after), FOLD_TRANSPOSE_INTO_GEMM)
    else:
        stays(before, FOLD_TRANSPOSE_INTO_GEMM)
