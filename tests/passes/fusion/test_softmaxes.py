"""Fusion of Softmax and LogSoftmax."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import softmaxes
from rewriting import becomes, cases, stays

FUSE_SOFTMAX = rule_pass(softmaxes, "fuse-softmax")

G = "g (float[n,3,4] x) => (float[a,b,c] y)"
C = "<int64[1] last = {-1}, int64[1] middle = {1}, int64[2] both = {1, 2}, float two = {2}>"
OLD = "m = ReduceMax<axes=[2]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum<axes=[2]>(e)"
MID = "m = ReduceMax<axes=[1]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, middle)"
NEW = "m = ReduceMax(x, last) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, last)"


@cases(
    ("before", "after", "opset"),
    {
        "softmax at 11": (f"{OLD} y = Div(e, s)", "y = Softmax<axis=2>(x)", 11),
        "softmax at 7": (f"{OLD} y = Div(e, s)", "y = Softmax<axis=2>(x)", 7),
        "softmax at 13": (f"{MID} y = Div(e, s)", "y = Softmax<axis=1>(x)", 13),
        "softmax at 18": (f"{NEW} y = Div(e, s)", "y = Softmax<axis=2>(x)", 18),
        "over all that follows, as it was before 13": (
            "m = ReduceMax<axes=[1,2]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum<axes=[1,2]>(e) y = Div(e, s)",
            "y = Softmax<axis=1>(x)",
            12,
        ),
        "softmax of exponentials": (
            "t = Tanh(x) e = Exp(t) s = ReduceSum(e, last) y = Div(e, s)",
            "t = Tanh(x) y = Softmax<axis=2>(t)",
            13,
        ),
        "log softmax at 11": (f"{OLD} l = Log(s) y = Sub(d, l)", "y = LogSoftmax<axis=2>(x)", 11),
        "log softmax at 18": (f"{NEW} l = Log(s) y = Sub(d, l)", "y = LogSoftmax<axis=2>(x)", 18),
        "log softmax of exponentials": (
            "t = Tanh(x) e = Exp(t) s = ReduceSum(e, last) l = Log(s) y = Sub(t, l)",
            "t = Tanh(x) y = LogSoftmax<axis=2>(t)",
            13,
        ),
        "log softmax of the log of the sum": (
            "t = Tanh(x) l = ReduceLogSumExp<axes=[-2]>(t) y = Sub(t, l)",
            "t = Tanh(x) y = LogSoftmax<axis=1>(t)",
            13,
        ),
    },
)
def test_becomes(before: str, after: str, opset: int) -> None:
    becomes(f"{G} {C} {{ {before} }}", f"{G} {C} {{ {after} }}", FUSE_SOFTMAX, opset=opset)


def test_half_precision_becomes() -> None:
    g = "g (float16[n,3,4] x) => (float16[a,b,c] y)"
    becomes(f"{g} {C} {{ {NEW} y = Div(e, s) }}", f"{g} {{ y = Softmax<axis=2>(x) }}", FUSE_SOFTMAX, opset=18)
    before = f"{g} {C} {{ {NEW} l = Log(s) y = Sub(d, l) }}"
    becomes(before, f"{g} {{ y = LogSoftmax<axis=2>(x) }}", FUSE_SOFTMAX, opset=18)


@cases(
    ("before", "after"),
    {
        "all of a vector": (
            (
                "g (float[n] x) => (float[n] y) { m = ReduceMax(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e)"
                " y = Div(e, s) }"
            ),
            "g (float[n] x) => (float[n] y) { y = Softmax<axis=0>(x) }",
        ),
        "the difference is an output as well": (
            (
                "g (float[n,3] x) => (float[n,3] y, float[n,3] d) <int64[1] a = {1}>"
                " { m = ReduceMax(x, a) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, a) y = Div(e, s) }"
            ),
            (
                "g (float[n,3] x) => (float[n,3] y, float[n,3] d) <int64[1] a = {1}>"
                " { m = ReduceMax(x, a) d = Sub(x, m) y = Softmax<axis=1>(x) }"
            ),
        ),
        "inside an If body": (
            (
                "g (bool b, float[n,3] x) => (float[n,3] y) { y = If (b) <then_branch = t () => (float[n,3] u)"
                " { w = Tanh(x) l = ReduceLogSumExp<axes=[-1]>(w) u = Sub(w, l) },"
                " else_branch = f () => (float[n,3] v) { v = Relu(x) }> }"
            ),
            (
                "g (bool b, float[n,3] x) => (float[n,3] y) { y = If (b) <then_branch = t () => (float[n,3] u)"
                " { w = Tanh(x) u = LogSoftmax<axis=1>(w) }, else_branch = f () => (float[n,3] v) { v = Relu(x) }> }"
            ),
        ),
    },
)
def test_becomes_elsewhere(before: str, after: str) -> None:
    opset = 17 if "ReduceLogSumExp" in before else 18
    becomes(before, after, FUSE_SOFTMAX, opset=opset)


@cases(
    ("axis", "opset"),
    {
        "last axis": (-1, 17),
        "first axis": (0, 17),
        "all from one axis on": (1, 12),
        "the oldest with broadcasting": (1, 7),
    },
)
def test_log_of_softmax(axis: int, opset: int) -> None:
    before = f"r = Tanh(x) t = Softmax<axis={axis}>(r) y = Log(t)"
    becomes(f"{G} {{ {before} }}", f"{G} {{ r = Tanh(x) y = LogSoftmax<axis={axis}>(r) }}", FUSE_SOFTMAX, opset=opset)


@cases(
    ("body", "opset"),
    {
        "upside down": (f"{NEW} y = Div(s, e)", 18),
        "shared exponential": (f"{NEW} t = Div(e, s) y = Add(t, e)", 18),
        "another numerator": (f"{NEW} y = Div(d, s)", 18),
        "taken off the other": (f"{NEW} l = Log(s) y = Sub(l, d)", 18),
        "taken off another value": (f"{NEW} l = Log(s) y = Sub(x, l)", 18),
        "two axes since 13": (
            "m = ReduceMax<axes=[1,2]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, both) y = Div(e, s)",
            13,
        ),
        "an inner axis before 13": (
            "m = ReduceMax<axes=[1]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum<axes=[1]>(e) y = Div(e, s)",
            11,
        ),
        "sums nothing": ("e = Exp(x) s = ReduceSum<noop_with_empty_axes=1>(e) y = Div(e, s)", 13),
        "all axes": ("e = Exp(x) s = ReduceSum(e) y = Div(e, s)", 13),
        "no exponential": ("e = Sigmoid(x) s = ReduceSum(e, last) y = Div(e, s)", 13),
        "a mean": ("e = Exp(x) s = ReduceMean<axes=[-1]>(e) y = Div(e, s)", 13),
        "an inner log softmax": ("t = Tanh(x) l = ReduceLogSumExp<axes=[1]>(t) y = Sub(t, l)", 12),
        "of another value": ("t = Tanh(x) l = ReduceLogSumExp<axes=[1]>(t) y = Sub(x, l)", 13),
        "a log over two axes": ("t = Tanh(x) l = ReduceLogSumExp<axes=[1,2]>(t) y = Sub(t, l)", 13),
        "exp of softmax": ("t = Softmax(x) y = Exp(t)", 17),
        "softmax is read elsewhere": ("t = Softmax(x) u = Log(t) y = Add(t, u)", 17),
    },
)
def test_stays(body: str, opset: int) -> None:
    stays(f"{G} {C} {{ {body} }}", FUSE_SOFTMAX, opset=opset)


@cases(
    "text",
    {
        "the dim is not kept": (
            "g (float[3,3] x) => (float[3,3] y) <int64[1] a = {1}>"
            " { e = Exp(x) s = ReduceSum<keepdims=0>(e, a) y = Div(e, s) }"
        ),
        "axes at run time": (
            "g (float[n,3] x, int64[1] a) => (float[n,3] y) { e = Exp(x) s = ReduceSum(e, a) y = Div(e, s) }"
        ),
        "inner value is a graph output": (
            "g (float[n,3] x) => (float[n,3] y, float[n,3] e) <int64[1] a = {1}>"
            " { e = Exp(x) s = ReduceSum(e, a) y = Div(e, s) }"
        ),
        "the sum is a graph output": (
            "g (float[n,3] x) => (float[n,3] y, float[n,1] s) <int64[1] a = {1}>"
            " { e = Exp(x) s = ReduceSum(e, a) y = Div(e, s) }"
        ),
        "doubles": (
            "g (double[n,3] x) => (double[n,3] y) <int64[1] a = {1}> { e = Exp(x) s = ReduceSum(e, a) y = Div(e, s) }"
        ),
        "shares in half precision": ("g (float16[2] x) => (float16[2] y) { t = Softmax(x) y = Log(t) }"),
    },
)
def test_stays_elsewhere(text: str) -> None:
    stays(text, FUSE_SOFTMAX)


@given(axis=st.integers(-3, 2), other=st.integers(-3, 2))
def test_any_axis(axis: int, other: int) -> None:
    c = f"<int64[1] a = {{{axis}}}, int64[1] b = {{{other}}}>"
    before = f"{G} {c} {{ m = ReduceMax(x, b) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, a) y = Div(e, s) }}"
    if axis % 3 == other % 3:
        becomes(before, f"{G} {{ y = Softmax<axis={axis % 3}>(x) }}", FUSE_SOFTMAX, opset=18)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("flat", ["f = Flatten<axis=2>(x)", "f = Reshape(x, rows)"])
def test_reshapes_around_it_become_nothing(op: str, flat: str) -> None:
    shapes = "<int64[2] rows = {-1, 5}, int64[3] back = {-1, 3, 5}>"
    text = "g (float[b,3,5] x) => (float[b,3,5] y)"
    before = f"{text} {shapes} {{ {flat} e = {op}<axis=1>(f) y = Reshape(e, back) }}"
    becomes(before, f"{text} {{ y = {op}<axis=-1>(x) }}", FUSE_SOFTMAX, opset=13)


@cases(
    ("shapes", "axis", "opset"),
    {
        "another last dim": ("rows = {-1, 15}, int64[3] back = {-1, 3, 5}", 1, 13),
        "another result": ("rows = {-1, 5}, int64[3] back = {-1, 5, 3}", 1, 13),
        "another axis": ("rows = {-1, 5}, int64[3] back = {-1, 3, 5}", 0, 13),
        "older opset": ("rows = {-1, 5}, int64[3] back = {-1, 3, 5}", 1, 12),
    },
)
def test_other_reshapes_around_it_stay(shapes: str, axis: int, opset: int) -> None:
    text = f"g (float[b,3,5] x) => (float[b,k,l] y) <int64[2] {shapes}>"
    stays(
        f"{text} {{ f = Reshape(x, rows) e = Softmax<axis={axis}>(f) y = Reshape(e, back) }}", FUSE_SOFTMAX, opset=opset
    )
