"""Fusion of LpNormalization."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import norms
from rewriting import becomes, cases, stays

FUSE_LP_NORM = rule_pass(norms, "fuse-lp-norm")

G = "g (float[n,3] x) => (float[a,b] y)"
C = (
    "<int64[1] last = {-1}, int64[0] none = {}, int64[2] both = {0, 1}, float e = {1e-12}, float big = {0.5},"
    " float one = {1}>"
)
T = "s = Sigmoid(x) t = Add(s, one)"  # no length is 0


@cases(
    ("before", "after", "opset"),
    {
        "plain": ("l = ReduceL2<axes=[-1]>(t) y = Div(t, l)", "y = LpNormalization<axis=1, p=2>(t)", 13),
        "at 7": ("l = ReduceL2<axes=[0]>(t) y = Div(t, l)", "y = LpNormalization<axis=0, p=2>(t)", 7),
        "nothing reduced if there were no axes": (
            "l = ReduceL2<noop_with_empty_axes=1>(t, last) y = Div(t, l)",
            "y = LpNormalization<axis=1, p=2>(t)",
            18,
        ),
        "magnitudes": ("l = ReduceL1(t, last) y = Div(t, l)", "y = LpNormalization<axis=1, p=1>(t)", 18),
        "bounded": ("l = ReduceL2(t, last) m = Max(l, e) y = Div(t, m)", "y = LpNormalization<axis=1, p=2>(t)", 22),
        "clipped": ("l = ReduceL2(t, last) m = Clip(l, e) y = Div(t, m)", "y = LpNormalization<axis=1, p=2>(t)", 18),
        "rooted": (
            "l = ReduceSumSquare(t, last) m = Max(l, e) r = Sqrt(m) y = Div(t, r)",
            "y = LpNormalization<axis=1, p=2>(t)",
            18,
        ),
        "inverted": (
            "l = ReduceSumSquare<axes=[1]>(t) m = Max(e, l) r = Sqrt(m) i = Reciprocal(r) y = Mul(i, t)",
            "y = LpNormalization<axis=1, p=2>(t)",
            11,
        ),
    },
)
def test_becomes(before: str, after: str, opset: int) -> None:
    becomes(f"{G} {C} {{ {T} {before} }}", f"{G} {C} {{ {T} {after} }}", FUSE_LP_NORM, opset=opset)


@cases(
    ("body", "opset"),
    {
        "upside down": ("l = ReduceL2<axes=[1]>(t) y = Div(l, t)", 13),
        "the length of another value": ("l = ReduceL2<axes=[1]>(t) y = Div(s, l)", 13),
        "of all": ("l = ReduceL2<axes=[0,1]>(t) y = Div(t, l)", 13),
        "no axes": ("l = ReduceL2(t) y = Div(t, l)", 13),
        "an empty list of axes": ("l = ReduceL2(t, none) y = Div(t, l)", 18),
        "nothing reduced": ("l = ReduceL2<noop_with_empty_axes=1>(t, none) y = Div(t, l)", 18),
        "no length": ("l = ReduceLogSum<axes=[1]>(t) y = Div(t, l)", 13),
        "a bound that matters": ("l = ReduceL2<axes=[1]>(t) m = Max(l, big) y = Div(t, m)", 13),
        "a bound above": ("l = ReduceL2<axes=[1]>(t) m = Min(l, e) y = Div(t, m)", 13),
        "two bounds": ("l = ReduceL2<axes=[1]>(t) m = Clip(l, e, one) y = Div(t, m)", 13),
        "rooted higher": ("l = ReduceSumSquare<axes=[1]>(t) m = Max(l, big) r = Sqrt(m) y = Div(t, r)", 13),
        "no root": ("l = ReduceSumSquare<axes=[1]>(t) m = Max(l, e) y = Div(t, m)", 13),
        "a clip that matters": ("l = ReduceL2<axes=[1]>(t) m = Clip(l, big) y = Div(t, m)", 13),
        "shared length": ("l = ReduceL2<axes=[1]>(t) d = Div(t, l) y = Add(d, l)", 13),
        "reduces nothing": ("l = ReduceL2<noop_with_empty_axes=1>(t) y = Div(t, l)", 18),
    },
)
def test_stays(body: str, opset: int) -> None:
    stays(f"{G} {C} {{ {T} {body} }}", FUSE_LP_NORM, opset=opset)


@cases(
    "text",
    {
        "the dim is not kept": (
            "g (float[3,3] x) => (float[3,3] y) { l = ReduceL2<axes=[1], keepdims=0>(x) y = Div(x, l) }"
        ),
        "doubles": ("g (double[n,3] x) => (double[n,3] y) { l = ReduceL2<axes=[1]>(x) y = Div(x, l) }"),
        "a quotient of ints": ("g (int32[n,3] x) => (int32[n,3] y) { l = ReduceL1<axes=[1]>(x) y = Div(x, l) }"),
        "the length is a graph output": (
            "g (float[n,3] x) => (float[n,3] y, float[n,1] l) { l = ReduceL2<axes=[1]>(x) y = Div(x, l) }"
        ),
        "overridable initializer": (
            "g (float[n,3] x, float e = {1e-12}) => (float[n,3] y)"
            " { l = ReduceL2<axes=[1]>(x) m = Max(l, e) y = Div(x, m) }"
        ),
    },
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
