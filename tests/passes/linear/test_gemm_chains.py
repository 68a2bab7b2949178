"""Products with constant weights that follow one another or meet in a sum."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.folding import folding_limits
from passwright.passes.linear import matmul_merging
from rewriting import becomes, cases, stays
from weights import matrix, weights_used_in

MERGE_MATMULS = rule_pass(matmul_merging, "merge-matmuls")

KINDS = {"float": np.float32, "double": np.float64, "float16": np.float16}
WEIGHTS = {
    "v": matrix(3, 4),
    "vt": matrix(4, 3),
    "v1": matrix(3, 1),
    "v0": matrix(3, 0),
    "w": matrix(4, 2),
    "wt": matrix(2, 4),
    "w9": matrix(1, 9),
    "w0": matrix(0, 2),
    "u": matrix(3, 4) * 2 - 1,
    "u2": matrix(3, 2),
    "v3": matrix(5, 3, 4),
    "w3": matrix(5, 4, 2),
    "b4": matrix(4),
    "b2": matrix(2),
    "num": np.array(0.5, np.float32),
    "col": matrix(2, 1),
    "most": np.full((3, 4), 3e38, np.float32),
    "most2": np.full((3, 4), 3e38, np.float32),
}
CONST = "<float k = {1}>"
used = partial(weights_used_in, weights=WEIGHTS)


def model(types: str, body: str, constants: str = "", result: str = "n,m", dtype: str = "float") -> str:
    """`types` are the inputs without their element type: `[2,3] x_, [2,3] z`. Finite values come from `x_`."""
    body = f"x = Tanh(x_) {body}" if "x_" in types else body
    return f"g ({types.replace('[', f'{dtype}[')}) => ({dtype}[{result}] y) {constants} {{ {body} }}"


@cases(
    ("x", "before", "after"),
    {
        "two products": ("2,3", "a = MatMul(x, v) y = MatMul(a, w)", "y = MatMul(x, k)"),
        "symbolic batch": ("N,3", "a = MatMul(x, v) y = MatMul(a, w)", "y = MatMul(x, k)"),
        "no rows": ("0,3", "a = MatMul(x, v) y = MatMul(a, w)", "y = MatMul(x, k)"),
        "two Gemms": ("2,3", "a = Gemm(x, v, b4) y = Gemm(a, w, b2)", "y = Gemm(x, k, k)"),
        "a Gemm and a product": ("2,3", "a = Gemm(x, v, b4) y = MatMul(a, w)", "y = Gemm(x, k, k)"),
        "a product and a Gemm": ("2,3", "a = MatMul(x, v) y = Gemm(a, w, num)", "y = Gemm(x, k, k)"),
        "a Gemm without bias": ("2,3", "a = MatMul(x, v) y = Gemm<alpha=2.0>(a, w)", "y = MatMul(x, k)"),
        "no biases": ("2,3", "a = Gemm(x, v) y = Gemm(a, w)", "y = Gemm(x, k)"),
        "attributes": (
            "3,2",
            (
                "a = Gemm<alpha=2.0,beta=3.0,transA=1,transB=1>(x, vt, num)"
                " y = Gemm<alpha=0.5,beta=4.0,transB=1>(a, wt, b2)"
            ),
            "y = Gemm<transA=1,transB=1>(x, k, k)",
        ),
        "a sum between": ("2,3", "a = MatMul(x, v) b = Add(a, b4) y = MatMul(b, w)", "a = MatMul(x, k) y = Add(a, k)"),
        "a sum of two": ("2,3", "a = MatMul(x, v) b = MatMul(x, u) y = Add(a, b)", "y = MatMul(x, k)"),
        "the same value twice": ("2,3", "a = MatMul(x, v) y = Add(a, a)", "y = MatMul(x, k)"),
        "a Sum of two": ("2,3", "a = MatMul(x, v) b = MatMul(x, u) y = Sum(a, b)", "y = MatMul(x, k)"),
    },
)
def test_becomes(x: str, before: str, after: str) -> None:
    becomes(model(f"[{x}] x_", before), model(f"[{x}] x_", after, CONST), MERGE_MATMULS, weights=used(before))


@cases(
    ("types", "before", "after", "result"),
    {
        "batches": ("[5,2,3] x_", "a = MatMul(x, v) y = MatMul(a, w)", "y = MatMul(x, k)", "k,n,m"),
        "a vector": ("[3] x_", "a = MatMul(x, v) y = MatMul(a, w)", "y = MatMul(x, k)", "n"),
        "batches, a sum between": (
            "[B,T,3] x_",
            "a = MatMul(x, v) b = Add(num, a) y = MatMul(b, w)",
            "a = MatMul(x, k) y = Add(a, k)",
            "k,n,m",
        ),
        "one matrix of weights": (
            "[2,3] x, [2,3] z",
            "a = MatMul(x, v) b = MatMul(z, v) y = Add(a, b)",
            "a = Add(x, z) y = MatMul(a, k)",
            "n,m",
        ),
        "one computed factor": (
            "[N,T,K] q, [N,T,K] z, [K,M] x_",
            "a = MatMul(q, x) b = MatMul(z, x) y = Add(a, b)",
            "a = Add(q, z) y = MatMul(a, x)",
            "k,n,m",
        ),
        "one left factor": (
            "[3,2] q, [3,2] z, [4,3] x_",
            "a = MatMul(x, q) b = MatMul(x, z) y = Add(b, a)",
            "a = Add(z, q) y = MatMul(x, a)",
            "n,m",
        ),
    },
)
def test_becomes_of_other_ranks(types: str, before: str, after: str, result: str) -> None:
    want = model(types, after, CONST, result)
    becomes(model(types, before, result=result), want, MERGE_MATMULS, weights=used(before))


def test_integers_are_distributed_too() -> None:
    types, after = "[2,3] x, [2,3] z, [3,4] m", "a = Add(x, z) y = MatMul(a, m)"
    before = "a = MatMul(x, m) b = MatMul(z, m) y = Add(a, b)"
    becomes(model(types, before, dtype="int32"), model(types, after, dtype="int32"), MERGE_MATMULS)


@pytest.mark.parametrize("dtype", list(KINDS))
@pytest.mark.parametrize("opset", [7, 11, 13, 22])
def test_every_type_and_opset(dtype: str, opset: int) -> None:
    before = "a = Gemm(x, v, b4) y = MatMul(a, w)"
    weights = {name: a.astype(KINDS[dtype]) for name, a in used(before).items()}
    after = model("[2,3] x_", "y = Gemm(x, k, k)", CONST, dtype=dtype)
    becomes(model("[2,3] x_", before, dtype=dtype), after, MERGE_MATMULS, opset=opset, weights=weights)


@cases(
    ("types", "body", "result"),
    {
        "through few, the product is larger": ("[2,3] x_", "a = MatMul(x, v1) y = MatMul(a, w9)", "n,m"),
        "through none": ("[2,3] x_", "a = MatMul(x, v0) y = MatMul(a, w0)", "n,m"),
        "apart": ("[2,3] x_", "a = MatMul(x, v) r = Relu(a) y = MatMul(r, w)", "n,m"),
        "computed weights": ("[2,3] x_, [4,2] m", "a = MatMul(x, v) y = MatMul(a, m)", "n,m"),
        "shared": ("[2,3] x_", "a = MatMul(x, v) b = MatMul(a, w) c = ReduceSum(a) y = Add(b, c)", "n,m"),
        "weights in batches": ("[2,3] x_", "a = MatMul(x, v3) y = MatMul(a, w3)", "k,n,m"),
        "the first is transposed": ("[4,3] x_", "a = MatMul(x, v) y = Gemm<transA=1>(a, w)", "n,m"),
        "computed bias": ("[2,3] x_, [4] c", "a = Gemm(x, v, c) y = Gemm(a, w)", "n,m"),
        "a bias for each row": ("[2,3] x_", "a = Gemm(x, v, col) y = Gemm(a, w)", "n,m"),
        "a sum for each row": ("[2,3] x_", "a = MatMul(x, v) b = Add(a, col) y = MatMul(b, w)", "n,m"),
        "the sum adds rows": ("[1,3] x_", "a = MatMul(x, v) b = Add(a, col) y = MatMul(b, w)", "n,m"),
        "a difference": ("[5,2,3] x_", "a = MatMul(x, v) b = Sub(a, b4) y = MatMul(b, w)", "k,n,m"),
        "weights of other shape": ("[2,3] x_", "a = MatMul(x, v1) b = MatMul(x, u2) y = Add(a, b)", "n,m"),
        "nothing shared": ("[2,3] x, [2,3] z", "a = MatMul(x, v) b = MatMul(z, u) y = Add(a, b)", "n,m"),
        "overflow": ("[0,3] x_", "a = MatMul(x, most) b = MatMul(x, most2) y = Add(a, b)", "n,m"),
        "other rows": ("[2,3] x, [1,3] z", "a = MatMul(x, v) b = MatMul(z, v) y = Add(a, b)", "n,m"),
        "other symbols": ("[N,3] x, [M,3] z", "a = MatMul(x, v) b = MatMul(z, v) y = Add(a, b)", "n,m"),
        "other rank": ("[2,3] x, [3] z", "a = MatMul(x, v) b = MatMul(z, v) y = Add(a, b)", "n,m"),
        "the same value twice": ("[2,3] x_, [3,4] m", "a = MatMul(x, m) y = Add(a, a)", "n,m"),
        "one": ("[2,3] x_", "y = MatMul(x, v)", "n,m"),
        "possibly infinite values": ("[2,3] z", "a = MatMul(z, v) y = MatMul(a, w)", "n,m"),
        "a sum of such": ("[2,3] z", "a = MatMul(z, v) b = MatMul(z, u) y = Add(a, b)", "n,m"),
        "by such": ("[2,3] q, [2,3] z, [3,4] m", "a = MatMul(q, m) b = MatMul(z, m) y = Add(a, b)", "n,m"),
    },
)
def test_stays(types: str, body: str, result: str) -> None:
    stays(model(types, body, result=result), MERGE_MATMULS, weights=used(body))


@cases(
    ("text", "weights"),
    {
        "the first is a graph output": (
            "g (float[2,3] x) => (float[n,m] a, float[n,m] y) { a = MatMul(x, v) y = MatMul(a, w) }",
            used("v w"),
        ),
        "overridable weights": (
            "g (float[2,3] x, float[3,2] v = {1,2,3,4,5,6}) => (float[n,m] y) { a = MatMul(x, v) y = MatMul(a, w) }",
            {"w": matrix(2, 2)},
        ),
        "the same weights twice": (
            "g (float[2,4] x) => (float[n,m] y) { a = MatMul(x, w) y = MatMul(a, w) }",
            {"w": matrix(4, 4)},
        ),
        "integers": (
            "g (int32[2,3] x) => (int32[n,m] y) { a = MatMul(x, v) y = MatMul(a, w) }",
            {"v": np.ones((3, 4), np.int32), "w": np.ones((4, 2), np.int32)},
        ),
        "across the border of an If body": (
            (
                "g (bool k, float[2,3] x) => (float[n,m] y) { a = MatMul(x, v) y = If (k) <"
                "then_branch = t () => (float[n,m] r) { r = MatMul(a, w) }, "
                "else_branch = e () => (float[n,m] s) { s = MatMul(x, u2) }> }"
            ),
            used("v w u2"),
        ),
    },
)
def test_stays_elsewhere(text: str, weights: dict[str, np.ndarray]) -> None:
    stays(text, MERGE_MATMULS, weights=weights)


EXTENT = st.integers(1, 4)


@given(k=EXTENT, m=EXTENT, n=EXTENT, first=st.booleans(), second=st.booleans())
def test_any_extents(k: int, m: int, n: int, first: bool, second: bool) -> None:
    weights = {"v": matrix(k, m), "w": matrix(m, n), "b": matrix(m), "c": matrix(n)}
    one = "Gemm(x, v, b)" if first else "MatMul(x, v)"
    two = "Gemm(a, w, c)" if second else "MatMul(a, w)"
    before = model(f"[2,{k}] x_", f"a = {one} y = {two}")
    given_weights = {name: a for name, a in weights.items() if f"{name})" in before or name in "vw"}
    if k * n > k * m + m * n:
        stays(before, MERGE_MATMULS, weights=given_weights)
    else:
        after = "y = Gemm(x, k, k)" if first or second else "y = MatMul(x, k)"
        becomes(before, model(f"[2,{k}] x_", after, CONST), MERGE_MATMULS, weights=given_weights)


def test_a_run_multiplies_so_many_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of weights are counted with the work of folding: the first one fits, the second one does not."""
    monkeypatch.setattr(folding_limits, "MAX_MULTIPLICATIONS", 3 * 4 * 2)
    monkeypatch.setattr(folding_limits, "MULTIPLICATIONS_PER_WEIGHT_BYTE", 0)
    text = "a = MatMul(x, v) b = MatMul(a, w) c = MatMul(b, e) y = MatMul(c, f)"
    weights = {"v": WEIGHTS["v"], "w": WEIGHTS["w"], "e": matrix(2, 3), "f": matrix(3, 2)}
    becomes(
        model("[2,3] x_", text),
        model("[2,3] x_", "b = MatMul(x, k) c = MatMul(b, k) y = MatMul(c, k)", CONST),
        MERGE_MATMULS,
        weights=weights,
    )
