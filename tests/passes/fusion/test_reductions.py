"""Fusion of reductions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import reductions
from rewrite_tables import Rewrites

FUSE_REDUCE_MEAN = rule_pass(reductions, "fuse-reduce-mean")
FUSE_REDUCTIONS = rule_pass(reductions, "fuse-reductions")

WEIGHTS = {
    "last": [-1],
    "both": [1, 2],
    "two": 2.0,
    "four": 4.0,
    "quarter": 0.25,
    "fours": [[[4.0]], [[4.0]], [[4.0]]],
    "none": np.zeros(0, np.int64),
}
sums = Rewrites(
    "g (float[{x}] x) => (float[] y)", FUSE_REDUCE_MEAN, FUSE_REDUCTIONS, weights=WEIGHTS, opset=13, x="n,3,4"
)

test_becomes = sums.all_become("""
    squares: s = Mul(x, x) y = ReduceSum(s, last) => y = ReduceSumSquare<axes=[-1]>(x)
    squares at 18 [opset=18]: s = Mul(x, x) y = ReduceSum(s, both) => y = ReduceSumSquare(x, both)
    squares of all [opset=25]: s = Mul(x, x) y = ReduceSum(s) => y = ReduceSumSquare(x)
    by Pow [opset=11]: s = Pow(x, two) y = ReduceSum<axes=[0,2]>(s) => y = ReduceSumSquare<axes=[0,2]>(x)
    an attribute that goes [opset=17]: s = Pow(x, two) y = ReduceSum<noop_with_empty_axes=0>(s, both)
        => y = ReduceSumSquare<axes=[1,2]>(x)
    magnitudes [opset=7]: s = Abs(x) y = ReduceSum<axes=[1]>(s) => y = ReduceL1<axes=[1]>(x)
    magnitudes at 18 [opset=18]: s = Abs(x) y = ReduceSum(s, last) => y = ReduceL1(x, last)
    norm [opset=18]: s = ReduceSumSquare(x, last) y = Sqrt(s) => y = ReduceL2(x, last)
    norm, spelled [opset=12]: m = Mul(x, x) s = ReduceSum<axes=[2]>(m) y = Sqrt(s) => y = ReduceL2<axes=[2]>(x)
    log of a sum of exponentials: t = Tanh(x) e = Exp(t) s = ReduceSum(e, last) y = Log(s)
        => t = Tanh(x) y = ReduceLogSumExp<axes=[-1]>(t)
    log of a sum [opset=18]: t = Sigmoid(x) s = ReduceSum(t, last) y = Log(s)
        => t = Sigmoid(x) y = ReduceLogSum(t, last)
    mean: s = ReduceSum(x, last) y = Div(s, four) => y = ReduceMean<axes=[-1]>(x)
    mean by Mul [opset=18]: s = ReduceSum(x, last) y = Mul(quarter, s) => y = ReduceMean(x, last)
    at 7 [opset=7]: s = ReduceSum<axes=[2]>(x) y = Mul(s, quarter) => y = ReduceMean<axes=[2]>(x)
    without the dims: s = Mul(x, x) y = ReduceSum<keepdims=0>(s, last) => y = ReduceSumSquare<axes=[-1], keepdims=0>(x)
    axes at run time [graph=g (float[n,3] x, int64[1] a) => (float[n,m] y); opset=18]: s = Abs(x) y = ReduceSum(s, a)
        => y = ReduceL1(x, a)
    doubles [dtype=double]: s = Mul(x, x) t = ReduceSum(s, last) y = Sqrt(t) => y = ReduceL2<axes=[-1]>(x)
    half precision [dtype=float16]: s = Abs(x) y = ReduceSum(s, last) => y = ReduceL1<axes=[-1]>(x)
    unknown extents [x=n,m; opset=11]: s = Mul(x, x) y = ReduceSum<axes=[1]>(s) => y = ReduceSumSquare<axes=[1]>(x)
    of nothing [x=2,0]: s = Mul(x, x) t = ReduceSum(s, last) y = Sqrt(t) => y = ReduceL2<axes=[-1]>(x)
    mean of all [graph=g (float[2,2] x) => (float y)]: s = ReduceSum<keepdims=0>(x) y = Div(s, four)
        => y = ReduceMean<keepdims=0>(x)
    mean of all, whose list is empty [graph=g (float[2,2] x) => (float y); opset=12]:
        s = ReduceSum<axes: ints = [], keepdims = 0>(x) y = Div(s, four)
        => y = ReduceMean<axes: ints = [], keepdims = 0>(x)
    inside an If body [in_if; opset=11]: s = Abs(x) y = ReduceSum<axes=[1]>(s) => y = ReduceL1<axes=[1]>(x)
""")

test_stays = sums.all_stay("""
    not a square: s = Mul(x, two) y = ReduceSum(s, last)
    two values: t = Neg(x) s = Mul(x, t) y = ReduceSum(s, last)
    another power: s = Pow(x, four) y = ReduceSum(s, last)
    a power of 2: s = Pow(two, x) y = ReduceSum(s, last)
    reduces nothing: s = Mul(x, x) y = ReduceSum<noop_with_empty_axes=1>(s)
    no sum: s = Mul(x, x) y = ReduceMax<axes=[2]>(s)
    shared inner value: s = Abs(x) t = ReduceSum(s, last) y = Add(s, t)
    no magnitude: s = Relu(x) y = ReduceSum(s, last)
    log of a mean: t = Sigmoid(x) s = ReduceMean<axes=[2]>(t) y = Log(s)
    half of the mean: s = ReduceSum(x, last) y = Div(s, two)
    upside down: s = ReduceSum(x, last) y = Div(four, s)
    multiplied: s = ReduceSum(x, last) y = Mul(s, four)
    over an unknown extent: s = ReduceSum(x) y = Div(s, four)
    over more than it is divided by: s = ReduceSum(x, both) y = Div(s, four)
    axes at run time where they are an attribute [graph=g (float[n,3] x, int64[1] a) => (float[n,1] y)]: s = Abs(x)
        y = ReduceSum(s, a)
    inner value is a graph output [graph=g (float[n,3] x) => (float[n,3] s, float[n,1] y); opset=11]: s = Abs(x)
        y = ReduceSum<axes=[1]>(s)
    a quotient of integers [dtype=int32; opset=11]: s = ReduceSum<axes=[2]>(x) y = Div(s, four)
    squares of integers [dtype=int64; opset=11]: s = Mul(x, x) y = ReduceSum<axes=[1]>(s)
    magnitudes of integers [dtype=int32; opset=11]: s = Abs(x) y = ReduceSum<axes=[1]>(s)
    overridable initializer [graph=g (float[n,4] x, float four = {4}) => (float[] y); opset=11]:
        s = ReduceSum<axes=[1]>(x) y = Div(s, four)
    the divisor stretches it [x=n,4; opset=11]: s = ReduceSum<axes=[1]>(x) y = Div(s, fours)
    no axes named by an input [opset=18]: s = Abs(x) y = ReduceSum(s, none)
    an empty list of axes is all [graph=g (float[2,3] x) => (float y); opset=12]:
        s = ReduceSum<axes: ints = [], keepdims = 0>(x) y = Div(s, two)
""")


@given(
    axes=st.lists(st.integers(-3, 2), min_size=1, max_size=3, unique_by=lambda a: a % 3),
    keep=st.booleans(),
    opset=st.sampled_from([11, 13, 18]),
)
def test_any_axes(axes: list[int], keep: bool, opset: int) -> None:
    written = f"<axes={axes}, keepdims={int(keep)}>"
    summed = f"ReduceSum{written}(s)" if opset < 13 else f"ReduceSum<keepdims={int(keep)}>(s, a)"
    fused = f"ReduceL1{written}(x)" if opset < 18 else f"ReduceL1<keepdims={int(keep)}>(x, a)"
    graph = f"g (float[2,3,4] x) => (float{'[]' if keep or len(axes) < 3 else ''} y)"
    sums.becomes(f"s = Abs(x) y = {summed}", f"y = {fused}", graph=graph, opset=opset, weights={"a": axes})
