"""Scales moved from keys to queries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.linear import weight_scale
from rewriting import becomes, initializers, stays

MOVE_SCALES = rule_pass(weight_scale, "move-scales")

G = "g (float[B,2,S,3] q, float[B,2,P,3] past, float[B,2,S,3] new) => (float[a,b,c,d] y)"
C = "<float r = {0.5}, float s = {0.25}, float rs = {0.125}, float two = {2}, float four = {4}>"
KEYS = "k = Concat<axis=2>(past, new)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "i = Mul(q, r) j = Mul(k, s) t = Transpose<perm=[0,1,3,2]>(j) y = MatMul(i, t)",
            "i = Mul(q, rs) t = Transpose<perm=[0,1,3,2]>(k) y = MatMul(i, t)",
            id="both are scaled",
        ),
        pytest.param(
            "t = Transpose<perm=[0,1,3,2]>(k) j = Mul(s, t) y = MatMul(q, j)",
            "t = Transpose<perm=[0,1,3,2]>(k) i = Mul(q, s) y = MatMul(i, t)",
            id="keys with a past",
        ),
        pytest.param(
            "t = Transpose<perm=[0,1,3,2]>(k) j = Div(t, four) i = Div(q, two) y = MatMul(i, j)",
            "t = Transpose<perm=[0,1,3,2]>(k) i = Mul(q, rs) y = MatMul(i, t)",
            id="divided",
        ),
        pytest.param(
            "t = Transpose<perm=[0,1,3,2]>(k) j = Mul(t, s) i = Mul(new, r) u = Transpose<perm=[1,0,2,3]>(i)"
            " w = Transpose<perm=[1,0,2,3]>(u) y = MatMul(w, j)",
            "t = Transpose<perm=[0,1,3,2]>(k) i = Mul(new, rs) u = Transpose<perm=[1,0,2,3]>(i)"
            " w = Transpose<perm=[1,0,2,3]>(u) y = MatMul(w, t)",
            id="moved behind the scale",
        ),
    ],
)
def test_becomes(before: str, after: str) -> None:
    becomes(f"{G} {C} {{ {KEYS} {before} }}", f"{G} {C} {{ {KEYS} {after} }}", MOVE_SCALES)


def test_repeated_heads() -> None:
    head = "g (float[B,4,S,3] q, float[B,2,T,3] k) => (float[a,b,c,d] y) <float r = {0.5}, int64[1] two = {2},"
    head += " int64[5] e = {1, 1, 2, 1, 1}, int64[4] m = {0, 4, -1, 3}>"
    moved = "u = Unsqueeze({}, two) v = Expand(u, e) w = Reshape(v, m) t = Transpose<perm=[0,1,3,2]>(w)"
    before = f"{head} {{ i = Mul(q, r) j = Mul(k, r) {moved.format('j')} y = MatMul(i, t) }}"
    after = f"{head} {{ i = Mul(q, r) {moved.format('k')} y = MatMul(i, t) }}"
    model = becomes(before, after, MOVE_SCALES)
    assert 0.25 in [float(a) for a in initializers(model).values() if a.ndim == 0]


def test_inside_an_if_body_and_half_precision() -> None:
    head = (
        "g (bool b, float16[S,3] q, float16[3,T] k) => (float16[a,c] y) <float16 r = {{14336}}, float16 rs = {{13312}}>"
    )
    text = (
        f"{head} {{{{ y = If (b) <then_branch = t () => (float16[a,c] z) {{{{ {{}} }}}},"
        " else_branch = f () => (float16[a,c] v) {{ v = MatMul(q, k) }}> }}"
    )
    becomes(
        text.format("i = Mul(q, r) j = Mul(k, r) z = MatMul(i, j)"),
        text.format("i = Mul(q, rs) z = MatMul(i, k)"),
        MOVE_SCALES,
    )


def test_no_elements() -> None:
    head = f"g (float[0,3] q, float[3,T] k) => (float[a,b] y) {C}"
    before = f"{head} {{ i = Mul(q, r) j = Mul(k, s) y = MatMul(i, j) }}"
    becomes(before, f"{head} {{ i = Mul(q, rs) y = MatMul(i, k) }}", MOVE_SCALES)


@pytest.mark.parametrize("opset", [7, 9, 13, 21])
def test_every_opset(opset: int) -> None:
    head = f"g (float[2,3] q, float[3,9] k) => (float[a,b] y) {C}"
    before, after = f"{head} {{ j = Mul(k, r) y = MatMul(q, j) }}", f"{head} {{ i = Mul(q, r) y = MatMul(i, k) }}"
    becomes(before, after, MOVE_SCALES, opset=opset)


M = "g (float[S,3] q, float[3,T] k) => (float[a,b] y)"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{M} {C} {{ j = Mul(k, r) y = MatMul(q, j) }}", id="of any size"),
        pytest.param(f"{M} {C} {{ i = Mul(q, r) y = MatMul(i, k) }}", id="at the first factor"),
        pytest.param(f"{M} {C} {{ i = Mul(q, r) j = Mul(k, two) y = MatMul(i, j) }}", id="larger than 1"),
        pytest.param(f"{M} {C} {{ i = Mul(q, two) j = Mul(k, r) y = MatMul(i, j) }}", id="the first is larger than 1"),
        pytest.param(f"{M} <float r = {{0}}> {{ i = Mul(q, r) j = Mul(k, r) y = MatMul(i, j) }}", id="zero"),
        pytest.param(f"{M} <float r = {{1e-30}}> {{ i = Mul(q, r) j = Mul(k, r) y = MatMul(i, j) }}", id="underflow"),
        pytest.param(f"{M} <float[3] r = {{0.5, 0.5, 0.25}}> {{ i = Mul(q, r) j = Transpose(k) l = Mul(j, r)"
                     " t = Transpose(l) y = MatMul(i, t) }", id="a scale for each column"),
        pytest.param(f"{M.replace('y)', 'y, float[c,d] j)')} {C} {{ i = Mul(q, r) j = Mul(k, r) y = MatMul(i, j) }}",
                     id="the scaled factor is an output"),
        pytest.param(f"{M.replace('y)', 'y, float[c,d] n)')} {C} {{ i = Mul(q, r) j = Mul(k, r) y = MatMul(i, j)"
                     " n = Neg(j) }", id="read elsewhere"),
        pytest.param(f"{M.replace('k)', 'k, float r)')} {{ i = Mul(q, r) j = Mul(k, r) y = MatMul(i, j) }}",
                     id="computed scale"),
        pytest.param(f"{M.replace('k)', 'k, float r = {0.5})')} {{ i = Mul(q, r) j = Mul(k, r) y = MatMul(i, j) }}",
                     id="overridable initializer"),
        pytest.param(f"{M} {C} {{ i = Mul(q, r) j = Mul(k, r) n = Relu(j) y = MatMul(i, n) }}", id="something between"),
        pytest.param("g (float[3,3] q) => (float[a,b] y) <float r = {0.5}> { i = Mul(q, r) y = MatMul(i, i) }",
                     id="one value twice"),
        pytest.param("g (int32[2,3] q, int32[3,9] k) => (int32[a,b] y) <int32 r = {1}> { j = Mul(k, r)"
                     " y = MatMul(q, j) }", id="integers"),
    ],
)  # fmt: skip
def test_stays(text: str) -> None:
    stays(text, MOVE_SCALES)


@given(first=st.floats(2**-10, 1, width=32), second=st.floats(2**-10, 1, width=32), negative=st.booleans())
def test_any_scales(first: float, second: float, negative: bool) -> None:
    weights = {"r": np.float32(-first if negative else first), "s": np.float32(second)}
    head = M.replace("S", "2").replace("T", "4")
    after = f"{head} <float rs = {{1}}> {{ i = Mul(q, rs) y = MatMul(i, k) }}"
    model = becomes(f"{head} {{ i = Mul(q, r) j = Mul(k, s) y = MatMul(i, j) }}", after, MOVE_SCALES, weights=weights)
    (scale,) = initializers(model).values()
    assert np.isclose(scale, float(weights["r"]) * float(weights["s"]), rtol=1e-6)
