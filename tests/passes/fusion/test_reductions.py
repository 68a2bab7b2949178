"""Fusion of reductions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import reductions
from rewrite_tables import Rewrites

FUSE_REDUCE_MEAN = rule_pass(reductions, "fuse-reduce-mean")
FUSE_REDUCTIONS = rule_pass(reductions, "fuse-reductions")

sums = Rewrites(
    "g (float[{x}] x) => (float[] y)",
    FUSE_REDUCE_MEAN,
    FUSE_REDUCTIONS,
    weights={"none": np.zeros(0, np.int64)},
    opset=13,
    x="n,3,4",
)

test_becomes = sums.all_become("""
    squares: s = Mul(x, x) y = ReduceSum(s, [-1]) => y = ReduceSumSquare<axes=[-1]>(x)
    squares at 18 [opset=18]: s = Mul(x, x) y = ReduceSum(s, [1,2]) => y = ReduceSumSquare(x, [1,2])
    squares of all [opset=25]: s = Mul(x, x) y = ReduceSum(s) => y = ReduceSumSquare(x)
    by Pow [opset=11]: s = Pow(x, 2.0) y = ReduceSum<axes=[0,2]>(s) => y = ReduceSumSquare<axes=[0,2]>(x)
    an attribute that goes [opset=17]: s = Pow(x, 2.0) y = ReduceSum<noop_with_empty_axes=0>(s, [1,2])
        => y = ReduceSumSquare<axes=[1,2]>(x)
    magnitudes [opset=7]: s = Abs(x) y = ReduceSum<axes=[1]>(s) => y = ReduceL1<axes=[1]>(x)
    magnitudes at 18 [opset=18]: s = Abs(x) y = ReduceSum(s, [-1]) => y = ReduceL1(x, [-1])
    norm [opset=18]: s = ReduceSumSquare(x, [-1]) y = Sqrt(s) => y = ReduceL2(x, [-1])
    norm, spelled [opset=12]: m = Mul(x, x) s = ReduceSum<axes=[2]>(m) y = Sqrt(s) => y = ReduceL2<axes=[2]>(x)
    log of a sum of exponentials: t = Tanh(x) e = Exp(t) s = ReduceSum(e, [-1]) y = Log(s)
        => t = Tanh(x) y = ReduceLogSumExp<axes=[-1]>(t)
    log of a sum [opset=18]: t = Sigmoid(x) s = ReduceSum(t, [-1]) y = Log(s)
        => t = Sigmoid(x) y = ReduceLogSum(t, [-1])
    mean: s = ReduceSum(x, [-1]) y = Div(s, 4.0) => y = ReduceMean<axes=[-1]>(x)
    mean by Mul [opset=18]: s = ReduceSum(x, [-1]) y = Mul(0.25, s) => y = ReduceMean(x, [-1])
    at 7 [opset=7]: s = ReduceSum<axes=[2]>(x) y = Mul(s, 0.25) => y = ReduceMean<axes=[2]>(x)
    without the dims: s = Mul(x, x) y = ReduceSum<keepdims=0>(s, [-1]) => y = ReduceSumSquare<axes=[-1], keepdims=0>(x)
    axes at run time [graph=g (float[n,3] x, int64[1] a) => (float[n,m] y); opset=18]: s = Abs(x) y = ReduceSum(s, a)
        => y = ReduceL1(x, a)
    doubles [dtype=double]: s = Mul(x, x) t = ReduceSum(s, [-1]) y = Sqrt(t) => y = ReduceL2<axes=[-1]>(x)
    half precision [dtype=float16]: s = Abs(x) y = ReduceSum(s, [-1]) => y = ReduceL1<axes=[-1]>(x)
    unknown extents [x=n,m; opset=11]: s = Mul(x, x) y = ReduceSum<axes=[1]>(s) => y = ReduceSumSquare<axes=[1]>(x)
    of nothing [x=2,0]: s = Mul(x, x) t = ReduceSum(s, [-1]) y = Sqrt(t) => y = ReduceL2<axes=[-1]>(x)
    mean of all [graph=g (float[2,2] x) => (float y)]: s = ReduceSum<keepdims=0>(x) y = Div(s, 4.0)
        => y = ReduceMean<keepdims=0>(x)
    mean of all, whose list is empty [graph=g (float[2,2] x) => (float y); opset=12]:
        s = ReduceSum<axes: ints = [], keepdims = 0>(x) y = Div(s, 4.0)
        => y = ReduceMean<axes: ints = [], keepdims = 0>(x)
    inside an If body [in_if; opset=11]: s = Abs(x) y = ReduceSum<axes=[1]>(s) => y = ReduceL1<axes=[1]>(x)
""")

test_stays = sums.all_stay("""
    not a square: s = Mul(x, 2.0) y = ReduceSum(s, [-1])
    two values: t = Neg(x) s = Mul(x, t) y = ReduceSum(s, [-1])
    another power: s = Pow(x, 4.0) y = ReduceSum(s, [-1])
    a power of 2: s = Pow(2.0, x) y = ReduceSum(s, [-1])
    reduces nothing: s = Mul(x, x) y = ReduceSum<noop_with_empty_axes=1>(s)
    no sum: s = Mul(x, x) y = ReduceMax<axes=[2]>(s)
    shared inner value: s = Abs(x) t = ReduceSum(s, [-1]) y = Add(s, t)
    no magnitude: s = Relu(x) y = ReduceSum(s, [-1])
    log of a mean: t = Sigmoid(x) s = ReduceMean<axes=[2]>(t) y = Log(s)
    half of the mean: s = ReduceSum(x, [-1]) y = Div(s, 2.0)
    upside down: s = ReduceSum(x, [-1]) y = Div(4.0, s)
    multiplied: s = ReduceSum(x, [-1]) y = Mul(s, 4.0)
    over an unknown extent: s = ReduceSum(x) y = Div(s, 4.0)
    over more than it is divided by: s = ReduceSum(x, [1,2]) y = Div(s, 4.0)
    axes at run time where they are an attribute [graph=g (float[n,3] x, int64[1] a) => (float[n,1] y)]: s = Abs(x)
        y = ReduceSum(s, a)
    inner value is a graph output [graph=g (float[n,3] x) => (float[n,3] s, float[n,1] y); opset=11]: s = Abs(x)
        y = ReduceSum<axes=[1]>(s)
    a quotient of integers [dtype=int32; opset=11]: s = ReduceSum<axes=[2]>(x) y = Div(s, 4.0)
    squares of integers [dtype=int64; opset=11]: s = Mul(x, x) y = ReduceSum<axes=[1]>(s)
    magnitudes of integers [dtype=int32; opset=11]: s = Abs(x) y = ReduceSum<axes=[1]>(s)
    overridable initializer [graph=g (float[n,4] x, float four = {4}) => (float[] y); opset=11]:
        s = ReduceSum<axes=[1]>(x) y = Div(s, four)
    the divisor stretches it [x=n,4; opset=11]: s = ReduceSum<axes=[1]>(x) y = Div(s, [[[4.0]],[[4.0]],[[4.0]]])
    no axes named by an input [opset=18]: s = Abs(x) y = ReduceSum(s, none)
    an empty list of axes is all [graph=g (float[2,3] x) => (float y); opset=12]:
        s = ReduceSum<axes: ints = [], keepdims = 0>(x) y = Div(s, 2.0)
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
