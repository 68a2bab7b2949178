"""Fusion of LpNormalization."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import norms
from rewriting import becomes, stays

FUSE_LP_NORM = rule_pass(norms, "fuse-lp-norm")

G = "g (float[n,3] x) => (float[a,b] y)"
C = "<int64[1] last = {-1}, int64[2] both = {0, 1}, float e = {1e-12}, float big = {0.5}, float one = {1}>"
T = "s = Sigmoid(x) t = Add(s, one)"  # no length is 0


@pytest.mark.parametrize(
    ("before", "after", "opset"),
    [
        pytest.param("l = ReduceL2<axes=[-1]>(t) y = Div(t, l)", "y = LpNormalization<axis=1, p=2>(t)", 13, id="plain"),
        pytest.param("l = ReduceL2<axes=[0]>(t) y = Div(t, l)", "y = LpNormalization<axis=0, p=2>(t)", 7, id="at 7"),
        pytest.param("l = ReduceL1(t, last) y = Div(t, l)", "y = LpNormalization<axis=1, p=1>(t)", 18, id="magnitudes"),
        pytest.param(
            "l = ReduceL2(t, last) m = Max(l, e) y = Div(t, m)", "y = LpNormalization<axis=1, p=2>(t)", 22, id="bounded"
        ),
        pytest.param(
            "l = ReduceL2(t, last) m = Clip(l, e) y = Div(t, m)",
            "y = LpNormalization<axis=1, p=2>(t)",
            18,
            id="clipped",
        ),
        pytest.param(
            "l = ReduceSumSquare(t, last) m = Max(l, e) r = Sqrt(m) y = Div(t, r)",
            "y = LpNormalization<axis=1, p=2>(t)",
            18,
            id="rooted",
        ),
        pytest.param(
            "l = ReduceSumSquare<axes=[1]>(t) m = Max(e, l) r = Sqrt(m) i = Reciprocal(r) y = Mul(i, t)",
            "y = LpNormalization<axis=1, p=2>(t)",
            11,
            id="inverted",
        ),
    ],
)
def test_becomes(before: str, after: str, opset: int) -> None:
    becomes(f"{G} {C} {{ {T} {before} }}", f"{G} {C} {{ {T} {after} }}", FUSE_LP_NORM, opset=opset)


@pytest.mark.parametrize(
    ("body", "opset"),
    [
        pytest.param("l = ReduceL2<axes=[1]>(t) y = Div(l, t)", 13, id="upside down"),
        pytest.param("l = ReduceL2<axes=[1]>(t) y = Div(s, l)", 13, id="the length of another value"),
        pytest.param("l = ReduceL2<axes=[0,1]>(t) y = Div(t, l)", 13, id="of all"),
        pytest.param("l = ReduceL2(t) y = Div(t, l)", 13, id="no axes"),
        pytest.param("l = ReduceLogSum<axes=[1]>(t) y = Div(t, l)", 13, id="no length"),
        pytest.param("l = ReduceL2<axes=[1]>(t) m = Max(l, big) y = Div(t, m)", 13, id="a bound that matters"),
        pytest.param("l = ReduceL2<axes=[1]>(t) m = Min(l, e) y = Div(t, m)", 13, id="a bound above"),
        pytest.param("l = ReduceL2<axes=[1]>(t) m = Clip(l, e, one) y = Div(t, m)", 13, id="two bounds"),
        pytest.param(
            "l = ReduceSumSquare<axes=[1]>(t) m = Max(l, big) r = Sqrt(m) y = Div(t, r)", 13, id="rooted higher"
        ),
        pytest.param("l = ReduceSumSquare<axes=[1]>(t) m = Max(l, e) y = Div(t, m)", 13, id="no root"),
        pytest.param("l = ReduceL2<axes=[1]>(t) m = Clip(l, big) y = Div(t, m)", 13, id="a clip that matters"),
        pytest.param("l = ReduceL2<axes=[1]>(t) d = Div(t, l) y = Add(d, l)", 13, id="shared length"),
        pytest.param("l = ReduceL2<noop_with_empty_axes=1>(t) y = Div(t, l)", 18, id="reduces nothing"),
    ],
)
def test_stays(body: str, opset: int) -> None:
    stays(f"{G} {C} {{ {T} {body} }}", FUSE_LP_NORM, opset=opset)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "g (float[3,3] x) => (float[3,3] y) { l = ReduceL2<axes=[1], keepdims=0>(x) y = Div(x, l) }",
            id="the dim is not kept",
        ),
        pytest.param("g (double[n,3] x) => (double[n,3] y) { l = ReduceL2<axes=[1]>(x) y = Div(x, l) }", id="doubles"),
        pytest.param(
            "g (int32[n,3] x) => (int32[n,3] y) { l = ReduceL1<axes=[1]>(x) y = Div(x, l) }", id="a quotient of ints"
        ),
        pytest.param(
            "g (float[n,3] x) => (float[n,3] y, float[n,1] l) { l = ReduceL2<axes=[1]>(x) y = Div(x, l) }",
            id="the length is a graph output",
        ),
        pytest.param(
            "g (float[n,3] x, float e = {1e-12}) => (float[n,3] y)"
            " { l = ReduceL2<axes=[1]>(x) m = Max(l, e) y = Div(x, m) }",
            id="overridable initializer",
        ),
    ],
)
def test_stays_elsewhere(text: str) -> None:
    stays(text, FUSE_LP_NORM, runs="int32" not in text)


def test_inside_an_if_body() -> None:
    text = (
        "g (bool b, float[n,3] x) => (float[n,3] y) {{ y = If (b) <then_branch = t () => (float[n,3] u)"
        " {{ s = Exp(x) {} }}, else_branch = f () => (float[n,3] w) {{ w = Neg(x) }}> }}"
    )
    before = text.format("t = Sigmoid(s) l = ReduceL1<axes=[1]>(t) u = Div(t, l)")
    becomes(before, text.format("t = Sigmoid(s) u = LpNormalization<axis=1, p=1>(t)"), FUSE_LP_NORM)


@given(axis=st.integers(-3, 2), p=st.integers(1, 2))
def test_any_axis(axis: int, p: int) -> None:
    g = "g (float[2,3,4] x) => (float[2,3,4] y)"
    before = f"{g} {{ s = Tanh(x) t = Exp(s) l = ReduceL{p}<axes=[{axis}]>(t) y = Div(t, l) }}"
    becomes(before, f"{g} {{ s = Tanh(x) t = Exp(s) y = LpNormalization<axis={axis % 3}, p={p}>(t) }}", FUSE_LP_NORM)
