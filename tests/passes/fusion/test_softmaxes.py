"""Fusion of Softmax and LogSoftmax."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import softmaxes
from rewrite_tables import Rewrites

FUSE_SOFTMAX = rule_pass(softmaxes, "fuse-softmax")

fused = Rewrites("g (float[{x}] x) => (float[] y)", FUSE_SOFTMAX, x="n,3,4")
OLD = "m = ReduceMax<axes=[2]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum<axes=[2]>(e)"
MID = "m = ReduceMax<axes=[1]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, [1])"
NEW = "m = ReduceMax(x, [-1]) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, [-1])"

test_becomes = fused.all_become(f"""
    softmax at 11 [opset=11]: {OLD} y = Div(e, s) => y = Softmax<axis=2>(x)
    softmax at 7 [opset=7]: {OLD} y = Div(e, s) => y = Softmax<axis=2>(x)
    softmax at 13 [opset=13]: {MID} y = Div(e, s) => y = Softmax<axis=1>(x)
    softmax at 18 [opset=18]: {NEW} y = Div(e, s) => y = Softmax<axis=2>(x)
    over all that follows, as it was before 13 [opset=12]: m = ReduceMax<axes=[1,2]>(x) d = Sub(x, m) e = Exp(d)
        s = ReduceSum<axes=[1,2]>(e) y = Div(e, s) => y = Softmax<axis=1>(x)
    softmax of exponentials [opset=13]: t = Tanh(x) e = Exp(t) s = ReduceSum(e, [-1]) y = Div(e, s)
        => t = Tanh(x) y = Softmax<axis=2>(t)
    log softmax at 11 [opset=11]: {OLD} l = Log(s) y = Sub(d, l) => y = LogSoftmax<axis=2>(x)
    log softmax at 18 [opset=18]: {NEW} l = Log(s) y = Sub(d, l) => y = LogSoftmax<axis=2>(x)
    log softmax of exponentials [opset=13]: t = Tanh(x) e = Exp(t) s = ReduceSum(e, [-1]) l = Log(s) y = Sub(t, l)
        => t = Tanh(x) y = LogSoftmax<axis=2>(t)
    log softmax of the log of the sum [opset=13]: t = Tanh(x) l = ReduceLogSumExp<axes=[-2]>(t) y = Sub(t, l)
        => t = Tanh(x) y = LogSoftmax<axis=1>(t)
    all of a vector [x=n; opset=18]: m = ReduceMax(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e) y = Div(e, s)
        => y = Softmax<axis=0>(x)
    the difference is an output as well [graph=g (float[n,3] x) => (float[n,3] y, float[n,3] d) <int64[1] a = {{1}}>;
        opset=18]: m = ReduceMax(x, a) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, a) y = Div(e, s)
        => m = ReduceMax(x, a) d = Sub(x, m) y = Softmax<axis=1>(x)
    inside an If body [in_if; x=n,3]: w = Tanh(x) l = ReduceLogSumExp<axes=[-1]>(w) y = Sub(w, l)
        => w = Tanh(x) y = LogSoftmax<axis=1>(w)
    half precision [opset=18; dtype=float16]: {NEW} y = Div(e, s) => y = Softmax<axis=2>(x)
    log softmax in half precision [opset=18; dtype=float16]: {NEW} l = Log(s) y = Sub(d, l) => y = LogSoftmax<axis=2>(x)
    log of softmax, last axis: r = Tanh(x) t = Softmax<axis=-1>(r) y = Log(t) => r = Tanh(x) y = LogSoftmax<axis=-1>(r)
    log of softmax, first axis: r = Tanh(x) t = Softmax<axis=0>(r) y = Log(t) => r = Tanh(x) y = LogSoftmax<axis=0>(r)
    log of softmax, all from one axis on [opset=12]: r = Tanh(x) t = Softmax<axis=1>(r) y = Log(t)
        => r = Tanh(x) y = LogSoftmax<axis=1>(r)
    log of softmax, the oldest with broadcasting [opset=7]: r = Tanh(x) t = Softmax<axis=1>(r) y = Log(t)
        => r = Tanh(x) y = LogSoftmax<axis=1>(r)
""")

test_stays = fused.all_stay(f"""
    upside down [opset=18]: {NEW} y = Div(s, e)
    shared exponential [opset=18]: {NEW} t = Div(e, s) y = Add(t, e)
    another numerator [opset=18]: {NEW} y = Div(d, s)
    taken off the other [opset=18]: {NEW} l = Log(s) y = Sub(l, d)
    taken off another value [opset=18]: {NEW} l = Log(s) y = Sub(x, l)
    two axes since 13 [opset=13]: m = ReduceMax<axes=[1,2]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, [1,2])
        y = Div(e, s)
    an inner axis before 13 [opset=11]: m = ReduceMax<axes=[1]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum<axes=[1]>(e)
        y = Div(e, s)
    sums nothing [opset=13]: e = Exp(x) s = ReduceSum<noop_with_empty_axes=1>(e) y = Div(e, s)
    all axes [opset=13]: e = Exp(x) s = ReduceSum(e) y = Div(e, s)
    no exponential [opset=13]: e = Sigmoid(x) s = ReduceSum(e, [-1]) y = Div(e, s)
    a mean [opset=13]: e = Exp(x) s = ReduceMean<axes=[-1]>(e) y = Div(e, s)
    an inner log softmax [opset=12]: t = Tanh(x) l = ReduceLogSumExp<axes=[1]>(t) y = Sub(t, l)
    of another value [opset=13]: t = Tanh(x) l = ReduceLogSumExp<axes=[1]>(t) y = Sub(x, l)
    a log over two axes [opset=13]: t = Tanh(x) l = ReduceLogSumExp<axes=[1,2]>(t) y = Sub(t, l)
    exp of softmax: t = Softmax(x) y = Exp(t)
    softmax is read elsewhere: t = Softmax(x) u = Log(t) y = Add(t, u)
    the dim is not kept [graph=g (float[3,3,3] x) => (float[3,3,3] y)]: e = Exp(x) s = ReduceSum<keepdims=0>(e, [-1])
        y = Div(e, s)
    axes at run time: g (float[n,3] x, int64[1] a) => (float[n,3] y) {{ e = Exp(x) s = ReduceSum(e, a) y = Div(e, s) }}
    inner value is a graph output [graph=g (float[n,3] x) => (float[n,3] y, float[n,3] e)]: e = Exp(x)
        s = ReduceSum(e, [-1]) y = Div(e, s)
    the sum is a graph output [graph=g (float[n,3] x) => (float[n,3] y, float[n,1] s)]: e = Exp(x)
        s = ReduceSum(e, [-1]) y = Div(e, s)
    doubles [dtype=double]: e = Exp(x) s = ReduceSum(e, [-1]) y = Div(e, s)
    shares in half precision [x=2; dtype=float16]: t = Softmax(x) y = Log(t)
""")


@given(axis=st.integers(-3, 2), other=st.integers(-3, 2))
def test_any_axis(axis: int, other: int) -> None:
    if axis % 3 == other % 3:
        before = "m = ReduceMax(x, b) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, a) y = Div(e, s)"
        fused.becomes(before, f"y = Softmax<axis={axis % 3}>(x)", opset=18, weights={"a": [axis], "b": [other]})


around = fused.using(x="b,3,5", opset=13, weights={})
test_reshapes_around_it_become_nothing = around.all_become(
    {
        f"{op}, {flat}": f"f = {flat} e = {op}<axis=1>(f) y = Reshape(e, [-1,3,5]) => y = {op}<axis=-1>(x)"
        for op in ("Softmax", "LogSoftmax")
        for flat in ("Flatten<axis=2>(x)", "Reshape(x, [-1,5])")
    }
)

test_other_reshapes_around_it_stay = around.using(weights={}).all_stay("""
    another last dim: f = Reshape(x, [-1,15]) e = Softmax<axis=1>(f) y = Reshape(e, [-1,3,5])
    another result: f = Reshape(x, [-1,5]) e = Softmax<axis=1>(f) y = Reshape(e, [-1,5,3])
    another axis: f = Reshape(x, [-1,5]) e = Softmax<axis=0>(f) y = Reshape(e, [-1,3,5])
    older opset [opset=12]: f = Reshape(x, [-1,5]) e = Softmax<axis=1>(f) y = Reshape(e, [-1,3,5])
""")
