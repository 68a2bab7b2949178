"""Fusion of reductions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import reductions
from rewriting import becomes, cases, stays

FUSE_REDUCE_MEAN = rule_pass(reductions, "fuse-reduce-mean")
FUSE_REDUCTIONS = rule_pass(reductions, "fuse-reductions")

G = "g (float[n,3,4] x) => (float[a,b,c] y)"
C = "<int64[1] last = {-1}, int64[2] both = {1, 2}, float two = {2}, float four = {4}, float quarter = {0.25}>"


@cases(
    ("before", "after", "opset"),
    {
        "squares": ("s = Mul(x, x) y = ReduceSum(s, last)", "y = ReduceSumSquare<axes=[-1]>(x)", 13),
        "squares at 18": ("s = Mul(x, x) y = ReduceSum(s, both)", "y = ReduceSumSquare(x, both)", 18),
        "squares of all": ("s = Mul(x, x) y = ReduceSum(s)", "y = ReduceSumSquare(x)", 25),
        "by Pow": ("s = Pow(x, two) y = ReduceSum<axes=[0,2]>(s)", "y = ReduceSumSquare<axes=[0,2]>(x)", 11),
        "an attribute that goes": (
            "s = Pow(x, two) y = ReduceSum<noop_with_empty_axes=0>(s, both)",
            "y = ReduceSumSquare<axes=[1,2]>(x)",
            17,
        ),
        "magnitudes": ("s = Abs(x) y = ReduceSum<axes=[1]>(s)", "y = ReduceL1<axes=[1]>(x)", 7),
        "magnitudes at 18": ("s = Abs(x) y = ReduceSum(s, last)", "y = ReduceL1(x, last)", 18),
        "norm": ("s = ReduceSumSquare(x, last) y = Sqrt(s)", "y = ReduceL2(x, last)", 18),
        "norm, spelled": ("m = Mul(x, x) s = ReduceSum<axes=[2]>(m) y = Sqrt(s)", "y = ReduceL2<axes=[2]>(x)", 12),
        "log of a sum of exponentials": (
            "t = Tanh(x) e = Exp(t) s = ReduceSum(e, last) y = Log(s)",
            "t = Tanh(x) y = ReduceLogSumExp<axes=[-1]>(t)",
            13,
        ),
        "log of a sum": (
            "t = Sigmoid(x) s = ReduceSum(t, last) y = Log(s)",
            "t = Sigmoid(x) y = ReduceLogSum(t, last)",
            18,
        ),
        "mean": ("s = ReduceSum(x, last) y = Div(s, four)", "y = ReduceMean<axes=[-1]>(x)", 13),
        "mean by Mul": ("s = ReduceSum(x, last) y = Mul(quarter, s)", "y = ReduceMean(x, last)", 18),
        "at 7": ("s = ReduceSum<axes=[2]>(x) y = Mul(s, quarter)", "y = ReduceMean<axes=[2]>(x)", 7),
    },
)
def test_becomes(before: str, after: str, opset: int) -> None:
    becomes(f"{G} {C} {{ {before} }}", f"{G} {C} {{ {after} }}", FUSE_REDUCE_MEAN, FUSE_REDUCTIONS, opset=opset)


@cases(
    ("before", "after", "opset"),
    {
        "without the dims": (
            "g (float[n,3] x) => (float[n] y) <int64[1] a = {1}> { s = Mul(x, x) y = ReduceSum<keepdims=0>(s, a) }",
            "g (float[n,3] x) => (float[n] y) { y = ReduceSumSquare<axes=[1], keepdims=0>(x) }",
            13,
        ),
        "axes at run time": (
            "g (float[n,3] x, int64[1] a) => (float[n,1] y) { s = Abs(x) y = ReduceSum(s, a) }",
            "g (float[n,3] x, int64[1] a) => (float[n,1] y) { y = ReduceL1(x, a) }",
            18,
        ),
        "doubles": (
            "g (double[n,3] x) => (double[n,1] y) <int64[1] a = {1}> { s = Mul(x, x) t = ReduceSum(s, a) y = Sqrt(t) }",
            "g (double[n,3] x) => (double[n,1] y) { y = ReduceL2<axes=[1]>(x) }",
            13,
        ),
        "half precision": (
            "g (float16[n,3] x) => (float16[n,1] y) <int64[1] a = {1}> { s = Abs(x) y = ReduceSum(s, a) }",
            "g (float16[n,3] x) => (float16[n,1] y) { y = ReduceL1<axes=[1]>(x) }",
            13,
        ),
        "unknown extents": (
            "g (float[n,m] x) => (float[n,1] y) { s = Mul(x, x) y = ReduceSum<axes=[1]>(s) }",
            "g (float[n,m] x) => (float[n,1] y) { y = ReduceSumSquare<axes=[1]>(x) }",
            11,
        ),
        "of nothing": (
            "g (float[2,0] x) => (float[2,1] y) <int64[1] a = {1}> { s = Mul(x, x) t = ReduceSum(s, a) y = Sqrt(t) }",
            "g (float[2,0] x) => (float[2,1] y) { y = ReduceL2<axes=[1]>(x) }",
            13,
        ),
        "mean of all": (
            "g (float[2,3] x) => (float y) <float n = {6}> { s = ReduceSum<keepdims=0>(x) y = Div(s, n) }",
            "g (float[2,3] x) => (float y) { y = ReduceMean<keepdims=0>(x) }",
            13,
        ),
        "inside an If body": (
            (
                "g (bool b, float[n,3] x) => (float[n,1] y) { y = If (b) <then_branch = t () => (float[n,1] u)"
                " { s = Abs(x) u = ReduceSum<axes=[1]>(s) }, else_branch = f () => (float[n,1] w)"
                " { w = ReduceMax<axes=[1]>(x) }> }"
            ),
            (
                "g (bool b, float[n,3] x) => (float[n,1] y) { y = If (b) <then_branch = t () => (float[n,1] u)"
                " { u = ReduceL1<axes=[1]>(x) }, else_branch = f () => (float[n,1] w) { w = ReduceMax<axes=[1]>(x) }> }"
            ),
            11,
        ),
    },
)
def test_becomes_elsewhere(before: str, after: str, opset: int) -> None:
    becomes(before, after, FUSE_REDUCE_MEAN, FUSE_REDUCTIONS, opset=opset)


@cases(
    ("body", "opset"),
    {
        "not a square": ("s = Mul(x, two) y = ReduceSum(s, last)", 13),
        "two values": ("t = Neg(x) s = Mul(x, t) y = ReduceSum(s, last)", 13),
        "another power": ("s = Pow(x, four) y = ReduceSum(s, last)", 13),
        "a power of 2": ("s = Pow(two, x) y = ReduceSum(s, last)", 13),
        "reduces nothing": ("s = Mul(x, x) y = ReduceSum<noop_with_empty_axes=1>(s)", 13),
        "no sum": ("s = Mul(x, x) y = ReduceMax<axes=[2]>(s)", 13),
        "shared inner value": ("s = Abs(x) t = ReduceSum(s, last) y = Add(s, t)", 13),
        "no magnitude": ("s = Relu(x) y = ReduceSum(s, last)", 13),
        "log of a mean": ("t = Sigmoid(x) s = ReduceMean<axes=[2]>(t) y = Log(s)", 13),
        "half of the mean": ("s = ReduceSum(x, last) y = Div(s, two)", 13),
        "upside down": ("s = ReduceSum(x, last) y = Div(four, s)", 13),
        "multiplied": ("s = ReduceSum(x, last) y = Mul(s, four)", 13),
        "over an unknown extent": ("s = ReduceSum(x) y = Div(s, four)", 13),
        "over more than it is divided by": ("s = ReduceSum(x, both) y = Div(s, four)", 13),
    },
)
def test_stays(body: str, opset: int) -> None:
    stays(f"{G} {C} {{ {body} }}", FUSE_REDUCE_MEAN, FUSE_REDUCTIONS, opset=opset)


@cases(
    ("text", "opset"),
    {
        "axes at run time where they are an attribute": (
            "g (float[n,3] x, int64[1] a) => (float[n,1] y) { s = Abs(x) y = ReduceSum(s, a) }",
            13,
        ),
        "inner value is a graph output": (
            "g (float[n,3] x) => (float[n,3] s, float[n,1] y) { s = Abs(x) y = ReduceSum<axes=[1]>(s) }",
            11,
        ),
        "a quotient of integers": (
            "g (int32[n,4] x) => (int32[n,1] y) <int32 c = {4}> { s = ReduceSum<axes=[1]>(x) y = Div(s, c) }",
            11,
        ),
        "squares of integers": ("g (int64[n,3] x) => (int64[n,1] y) { s = Mul(x, x) y = ReduceSum<axes=[1]>(s) }", 11),
        "magnitudes of integers": ("g (int32[n,3] x) => (int32[n,1] y) { s = Abs(x) y = ReduceSum<axes=[1]>(s) }", 11),
        "overridable initializer": (
            "g (float[n,4] x, float c = {4}) => (float[n,1] y) { s = ReduceSum<axes=[1]>(x) y = Div(s, c) }",
            11,
        ),
        "the divisor stretches it": (
            (
                "g (float[n,4] x) => (float[n,1] y) <float[3,1,1] c = {4, 4, 4}>"
                " { s = ReduceSum<axes=[1]>(x) y = Div(s, c) }"
            ),
            11,
        ),
    },
)
def test_stays_elsewhere(text: str, opset: int) -> None:
    stays(text, FUSE_REDUCE_MEAN, FUSE_REDUCTIONS, opset=opset)


def test_no_axes_named_by_an_input_stays() -> None:
    weights = {"none": np.zeros(0, np.int64)}
    text = "g (float[n,3] x) => (float[a,b] y) { s = Abs(x) y = ReduceSum(s, none) }"
    stays(text, FUSE_REDUCE_MEAN, FUSE_REDUCTIONS, opset=18, weights=weights)


@given(
    axes=st.lists(st.integers(-3, 2), min_size=1, max_size=3, unique_by=lambda a: a % 3),
    keep=st.booleans(),
    opset=st.sampled_from([11, 13, 18]),
)
def test_any_axes(axes: list[int], keep: bool, opset: int) -> None:
    dims = ["2", "3", "4"]
    for a in axes:
        dims[a] = "1" if keep else ""
    g = f"g (float[2,3,4] x) => (float[{','.join(filter(None, dims))}] y)"
    if len(axes) == 3 and not keep:
        g = "g (float[2,3,4] x) => (float y)"
    stated = f"<int64[{len(axes)}] a = {{{','.join(map(str, axes))}}}>" if opset >= 13 else ""
    written = f"<axes={axes}, keepdims={int(keep)}>"
    summed = f"ReduceSum{written}(s)" if opset < 13 else f"ReduceSum<keepdims={int(keep)}>(s, a)"
    fused = f"ReduceL1{written}(x)" if opset < 18 else f"ReduceL1<keepdims={int(keep)}>(x, a)"
    becomes(
        f"{g} {stated} {{ s = Abs(x) y = {summed} }}",
        f"{g} {stated} {{ y = {fused} }}",
        FUSE_REDUCE_MEAN,
        FUSE_REDUCTIONS,
        opset=opset,
    )


def test_empty_axes_are_all_axes() -> None:
    g = "g (float[2,3] x) => (float y)"
    stays(
        f"{g} <float n = {{1}}> {{ s = ReduceSum<axes: ints = [], keepdims = 0>(x) y = Div(s, n) }}",
        FUSE_REDUCE_MEAN,
        opset=12,
    )
    becomes(
        f"{g} <float n = {{6}}> {{ s = ReduceSum<axes: ints = [], keepdims = 0>(x) y = Div(s, n) }}",
        f"{g} {{ y = ReduceMean<axes: ints = [], keepdims = 0>(x) }}",
        FUSE_REDUCE_MEAN,
        opset=12,
    )
