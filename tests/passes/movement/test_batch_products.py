"""Matrix products between reshapes of batch dims."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.cleanup.no_ops import RemoveUnused
from passwright.passes.movement import reshapes
from passwright.passes.movement.reshapes import multiply_without_batch_reshapes
from rewriting import becomes, stays

MULTIPLY_WITHOUT_RESHAPES = rule_pass(reshapes, "multiply-without-reshapes")

G = "g (float[2,3,S,5] x, float[2,3,5,4] w) => (float[a,b,c,d] y)"
C = "<int64[3] m = {6, -1, 5}, int64[3] n = {6, 5, 4}, int64[4] o = {2, 3, -1, 4}>"
MERGED = "p = Reshape(x, m) q = Reshape(w, n) t = MatMul(p, q) y = Reshape(t, o)"
KEYS = "g (float[2,3,S,5] x, float[2,3,7,5] w) => (float[a,b,c,d] y)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(f"{G} {C} {{ {MERGED} }}", f"{G} {{ y = MatMul(x, w) }}", id="merged and split"),
        pytest.param(
            "g (float[6,S,5] x, float[6,5,4] w) => (float[a,b,c] y) <int64[4] m = {2, 3, -1, 5},"
            " int64[4] n = {2, 3, 5, 4}, int64[3] o = {6, -1, 4}>"
            " { p = Reshape(x, m) q = Reshape(w, n) t = MatMul(p, q) y = Reshape(t, o) }",
            "g (float[6,S,5] x, float[6,5,4] w) => (float[a,b,c] y) { y = MatMul(x, w) }",
            id="split and merged",
        ),
        pytest.param(
            "g (float[1,3,S,5] x, float[1,3,5,4] w) => (float[a,b,c,d] y) <int64[1] m = {0}>"
            " { p = Squeeze(x, m) q = Squeeze(w, m) t = MatMul(p, q) y = Unsqueeze(t, m) }",
            "g (float[1,3,S,5] x, float[1,3,5,4] w) => (float[a,b,c,d] y) { y = MatMul(x, w) }",
            id="a leading one squeezed",
        ),
        pytest.param(
            "g (float[1,6,S,5] x, float[6,5,4] w) => (float[a,b,c,d] y) <int64[4] m = {2, 3, -1, 5},"
            " int64[4] n = {2, 3, 5, 4}, int64[4] o = {1, 6, -1, 4}>"
            " { p = Reshape(x, m) q = Reshape(w, n) t = MatMul(p, q) y = Reshape(t, o) }",
            "g (float[1,6,S,5] x, float[6,5,4] w) => (float[a,b,c,d] y) { y = MatMul(x, w) }",
            id="a leading one on one side",
        ),
        pytest.param(
            f"{KEYS} <int64[3] m = {{6, -1, 5}}, int64[4] o = {{2, 3, -1, 7}}> {{ p = Reshape(x, m) q = Reshape(w, m)"
            " k = Transpose<perm=[0,2,1]>(q) t = MatMul(p, k) y = Reshape(t, o) }",
            f"{KEYS} {{ k = Transpose<perm=[0,1,3,2]>(w) y = MatMul(x, k) }}",
            id="transposed keys",
        ),
        pytest.param(
            f"{G} {C} {{ p = Reshape(x, m) e = Softmax<axis=2>(p) q = Reshape(w, n) t = MatMul(e, q)"
            " y = Reshape(t, o) }",
            f"{G} {{ e = Softmax<axis=3>(x) y = MatMul(e, w) }}",
            id="behind Softmax",
        ),
        pytest.param(
            f"{G.replace('y)', 'y, float[e,f,g] u)')} {C} {{ {MERGED} u = Neg(p) }}",
            f"{G.replace('y)', 'y, float[e,f,g] u)')} {C} {{ p = Reshape(x, m) y = MatMul(x, w) u = Neg(p) }}",
            id="a merged factor is read elsewhere",
        ),
        pytest.param(
            G.replace("S", "0") + f" {C} {{ {MERGED} }}", G.replace("S", "0") + " { y = MatMul(x, w) }", id="no rows"
        ),
        pytest.param(
            f"g (bool b, float[2,3,S,5] x, float[2,3,5,4] w) => (float[a,b,c,d] y) {C} {{ y = If (b) <then_branch ="
            f" t () => (float[a,b,c,d] z) {{ {MERGED.replace('y =', 'z =')} }},"
            " else_branch = f () => (float[a,b,c,d] v) { v = MatMul(x, w) }> }",
            "g (bool b, float[2,3,S,5] x, float[2,3,5,4] w) => (float[a,b,c,d] y) { y = If (b) <then_branch ="
            " t () => (float[a,b,c,d] z) { z = MatMul(x, w) },"
            " else_branch = f () => (float[a,b,c,d] v) { v = MatMul(x, w) }> }",
            id="inside an If body",
        ),
    ],
)
def test_becomes(before: str, after: str) -> None:
    becomes(before, after, MULTIPLY_WITHOUT_RESHAPES, RemoveUnused())


@pytest.mark.parametrize("opset", [5, 9, 13, 21])
def test_every_opset(opset: int) -> None:
    becomes(f"{G} {C} {{ {MERGED} }}", f"{G} {{ y = MatMul(x, w) }}", MULTIPLY_WITHOUT_RESHAPES, opset=opset)


@pytest.mark.parametrize("opset", [11, 12])
def test_softmax_before_opset_13(opset: int) -> None:
    text = "p = Reshape(x, m) e = Softmax<axis=-1>(p) q = Reshape(w, n) t = MatMul(e, q) y = Reshape(t, o)"
    after = f"{G} {{ e = Softmax<axis=3>(x) y = MatMul(e, w) }}"
    becomes(f"{G} {C} {{ {text} }}", after, MULTIPLY_WITHOUT_RESHAPES, opset=opset)
    stays(f"{G} {C} {{ {text.replace('<axis=-1>', '')} }}", MULTIPLY_WITHOUT_RESHAPES, opset=opset)


@pytest.mark.parametrize("kind", ["float16", "double", "int32"])
def test_other_types(kind: str) -> None:
    text = G.replace("float[", f"{kind}[")
    becomes(f"{text} {C} {{ {MERGED} }}", f"{text} {{ y = MatMul(x, w) }}", MULTIPLY_WITHOUT_RESHAPES)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{G} {C.replace('{2, 3, -1, 4}', '{3, 2, -1, 4}')} {{ {MERGED} }}", id="split otherwise"),
        pytest.param("g (float[2,3,4,5] x, float[3,2,5,4] w) => (float[a,b,c,d] y) <int64[3] m = {6, 4, 5},"
                     f" int64[3] n = {{6, 5, 4}}, int64[4] o = {{2, 3, 4, 4}}> {{ {MERGED} }}", id="other batch"),
        pytest.param("g (float[2,3,4,5] x, float[2,3,4,5] w) => (float[a,b,c,d] y) <int64[3] m = {6, 4, 5},"
                     f" int64[3] n = {{6, 5, 4}}, int64[4] o = {{2, 3, 4, 4}}> {{ {MERGED} }}", id="rows as columns"),
        pytest.param("g (float[2,3,4,5] x, float[2,3,5,4] w) => (float[a,b,c] y) <int64[3] m = {6, 4, 5},"
                     f" int64[3] n = {{6, 5, 4}}, int64[3] o = {{2, 3, 16}}> {{ {MERGED} }}", id="columns merged"),
        pytest.param("g (float[2,3,4,5] x, float[1,5,4] w) => (float[a,b,c,d] y) <int64[3] m = {6, 4, 5},"
                     " int64[2] n = {5, 4}, int64[4] o = {2, 3, 4, 4}, int64[3] k = {1, 5, 4}> { p = Reshape(x, m)"
                     " t = MatMul(p, w) y = Reshape(t, o) }", id="broadcast"),
        pytest.param(f"{G.replace('y)', 'y, float[e,f,g] t)')} {C} {{ {MERGED} }}", id="the product is an output"),
        pytest.param(f"{G.replace('y)', 'y, float[e,f,g] u)')} {C} {{ {MERGED} u = Neg(t) }}", id="read elsewhere"),
        pytest.param(f"{G.replace('y)', 'y, float[e,f,g] u)')} {C} {{ p = Reshape(x, m) e = Softmax(p)"
                     " q = Reshape(w, n) t = MatMul(e, q) y = Reshape(t, o) u = Neg(e) }", id="Softmax read elsewhere"),
        pytest.param(f"{G} {C} {{ p = Reshape(x, m) e = Softmax<axis=0>(p) q = Reshape(w, n) t = MatMul(e, q)"
                     " y = Reshape(t, o) }", id="Softmax along the batch"),
        pytest.param("g (float[2,3,S,5] x, float[2,3,5,4] w, int64[4] o) => (float[a,b,c,d] y)"
                     f" {C.replace(', int64[4] o = {2, 3, -1, 4}', '')} {{ {MERGED} }}", id="computed shape"),
        pytest.param("g (float[2,3,S,5] x, float[2,3,5,4] w, int64[4] o = {2,3,-1,4}) => (float[a,b,c,d] y)"
                     f" {C.replace(', int64[4] o = {2, 3, -1, 4}', '')} {{ {MERGED} }}", id="overridable shape"),
        pytest.param("g (float[5] x, float[5,4] w) => (float[a,b] y) <int64[2] m = {1, 5}, int64[3] n = {1, 5, 4},"
                     f" int64[2] o = {{1, 4}}> {{ {MERGED} }}", id="a vector"),
    ],
)  # fmt: skip
def test_stays(text: str) -> None:
    stays(text, MULTIPLY_WITHOUT_RESHAPES, runs=False)


@given(
    batch=st.lists(st.integers(1, 3), max_size=3),
    inner=st.lists(st.integers(1, 3), max_size=3),
    rows=st.integers(1, 3),
    columns=st.integers(1, 3),
)
def test_any_batch(batch: list[int], inner: list[int], rows: int, columns: int) -> None:
    if prod(batch) != prod(inner):
        inner = [prod(batch)]
    shapes = {"m": [*inner, rows, 2], "n": [*inner, 2, columns], "o": [*batch, rows, columns]}
    dims = ",".join("abcde"[: len(batch) + 2])
    text = f"g (float{[*batch, rows, 2]} x, float{[*batch, 2, columns]} w) => (float[{dims}] y)"
    weights = {name: np.array(shape) for name, shape in shapes.items()}
    after = f"{text} <int64[1] m = {{1}}, int64[1] n = {{1}}, int64[1] o = {{1}}> {{ y = MatMul(x, w) }}"
    becomes(f"{text} {{ {MERGED} }}", after, multiply_without_batch_reshapes, weights=weights)
