"""Fusion of LayerNormalization and RMSNormalization."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import norms, reductions
from rewrite_tables import Rewrites
from rewriting import initializers

FUSE_NORM = rule_pass(norms, "fuse-norm")
FUSE_NORM_WEIGHTS = rule_pass(norms, "fuse-norm-weights")
FUSE_REDUCE_MEAN = rule_pass(reductions, "fuse-reduce-mean")

WEIGHTS = {
    "eps": np.array(1e-5, np.float32),
    "large": np.full(3, 3e38, np.float32),
    "e": 1e-05,
    "w": [1.0, -2.0, 0.5],
    "z": [0.5, 1.0, -1.0],
    "many": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
}
spelled = Rewrites("g (float[{x}] x) => (float[] y)", FUSE_NORM, FUSE_NORM_WEIGHTS, weights=WEIGHTS, x="n,2,3")
MEAN = "m = ReduceMean<axes=[-1]>(x) d = Sub(x, m)"
VARIANCE = "q = Mul(d, d) v = ReduceMean<axes=[-1]>(q) f = Add(v, e)"
LN = "y = LayerNormalization<axis=-1, epsilon=0.00001>(x, [1.0,1.0,1.0])"

test_layer_norm_becomes = spelled.all_become(f"""
    quotient: {MEAN} {VARIANCE} s = Sqrt(f) y = Div(d, s) => {LN}
    reciprocal: {MEAN} {VARIANCE} s = Sqrt(f) r = Reciprocal(s) y = Mul(r, d) => {LN}
    inverse: {MEAN} {VARIANCE} s = Sqrt(f) r = Div(1.0, s) y = Mul(d, r) => {LN}
    power: {MEAN} {VARIANCE} r = Pow(f, -0.5) y = Mul(d, r) => {LN}
    square by Pow: m = ReduceMean<axes=[2]>(x) d = Sub(x, m) q = Pow(d, 2.0) v = ReduceMean<axes=[-1]>(q) f = Add(e, v)
        s = Sqrt(f) y = Div(d, s) => {LN}
    two axes [opset=18]: m = ReduceMean(x, [1,2]) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, [1,2]) f = Add(v, e)
        s = Sqrt(f) y = Div(d, s) => y = LayerNormalization<axis=-2, epsilon=0.00001>(x, many)
    weights and bias: {MEAN} {VARIANCE} s = Sqrt(f) n = Div(d, s) t = Mul(n, w) y = Add(t, z)
        => y = LayerNormalization<axis=-1, epsilon=0.00001>(x, w, z)
    weights of more dims: {MEAN} {VARIANCE} s = Sqrt(f) n = Div(d, s) t = Mul([[[1.0,2.0,3.0]]], n) u = Add(z, t)
        y = Relu(u)
        => t = LayerNormalization<axis=-1, epsilon=0.00001>(x, w, z) y = Relu(t)
    one weight for all: {MEAN} {VARIANCE} s = Sqrt(f) n = Div(d, s) y = Mul(n, 2.0) => {LN}
    twice: n = LayerNormalization(x, w, z) t = Mul(n, 2.0) y = Add(t, w) => y = LayerNormalization(x, w, z)
    weights and bias at run time [graph=g (float[n,3] x, float[3] w, float[3] z) => (float[] y)]:
        n = LayerNormalization(x, [1.0,1.0,1.0]) t = Mul(n, w) y = Add(t, z) => y = LayerNormalization(x, w, z)
    over one number [x=n,1]: n = LayerNormalization(x, [2.0]) y = Mul(n, [2.0]) =>
        y = LayerNormalization(x, i)
    the mean is an output as well [graph=g (float[n,3] x) => (float[n,3] y, float[n,1] m)]: {MEAN} {VARIANCE}
        s = Sqrt(f) y = Div(d, s) => m = ReduceMean<axes=[-1]>(x) {LN}
    inside an If body [in_if]: r = LayerNormalization(x, w) y = Mul(r, w) => y = LayerNormalization(x, i)
""")

RMS = "y = RMSNormalization<axis=-1, epsilon=0.00001>(x, w)"
SQUARES = "q = Pow(x, 2.0) v = ReduceMean(q, [-1]) f = Add(v, e)"

test_rms_norm_becomes = spelled.all_become(f"""
    quotient [opset=23]: {SQUARES} s = Sqrt(f) n = Div(x, s) y = Mul(w, n) => {RMS}
    reciprocal [opset=23]: {SQUARES} s = Sqrt(f) r = Reciprocal(s) n = Mul(x, r) y = Mul(w, n) => {RMS}
    inverse [opset=24]: {SQUARES} s = Sqrt(f) r = Div(1.0, s) n = Mul(x, r) y = Mul(n, w) => {RMS}
    power [opset=26]: {SQUARES} r = Pow(f, -0.5) n = Mul(x, r) y = Mul(w, n) => {RMS}
    two axes, no weights [opset=23]: q = Mul(x, x) v = ReduceMean(q, [1,2]) f = Add(v, e) s = Sqrt(f) y = Div(x, s)
        => y = RMSNormalization<axis=-2, epsilon=0.00001>(x, many)
    the centred value has a name [opset=23]: m = ReduceMean(x, [-1]) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, [-1])
        f = Add(v, e) s = Sqrt(f) n = Div(d, s) y = Mul(n, w) => y = LayerNormalization<axis=-1, epsilon=0.00001>(x, w)
    the centred value is shared [opset=23]: m = ReduceMean(x, [-1]) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, [-1])
        f = Add(v, e) s = Sqrt(f) n = Div(d, s) y = Add(n, d)
        => m = ReduceMean(x, [-1]) d = Sub(x, m) n = RMSNormalization<axis=-1, epsilon=0.00001>(d, [1.0,1.0,1.0])
        y = Add(n, d)
""")

HALVES = {name: np.array(WEIGHTS[name], np.float16) for name in "ewz"}
HALF = "g (float16[n,2,3] x) => (float16[] y)"
test_half_precision_becomes = spelled.using(graph=HALF, weights=HALVES).all_become(f"""
    in half precision: {MEAN} {VARIANCE} s = Sqrt(f) n = Div(d, s) t = Mul(n, w) y = Add(t, z)
        => y = LayerNormalization<axis=-1, epsilon=0.000010013580322265625>(x, w, z)
    in single precision: h = Cast<to=1>(x) m = ReduceMean<axes=[-1]>(h) d = Sub(h, m) q = Mul(d, d)
        v = ReduceMean<axes=[-1]>(q) f = Add(v, eps) s = Sqrt(f) n = Div(d, s) u = Cast<to=10>(n) t = Mul(u, w)
        y = Add(t, z) => y = LayerNormalization<axis=-1, epsilon=0.00001>(x, w, z)
    rms in single precision [opset=23]: h = Cast<to=1>(x) q = Mul(h, h) v = ReduceMean(q, [-1]) f = Add(v, eps)
        s = Sqrt(f) r = Reciprocal(s) n = Mul(h, r) u = Cast<to=10>(n) y = Mul(w, u)
        => y = RMSNormalization<axis=-1, epsilon=0.00001>(x, w)
    weights in single precision stay: h = Cast<to=1>(x) n = LayerNormalization(h, [1.0,2.0,3.0]) y = Cast<to=10>(n)
        => h = Cast<to=1>(x) n = LayerNormalization(h, [1.0,2.0,3.0]) y = Cast<to=10>(n)
""")

test_stays = spelled.all_stay(f"""
    older opset [opset=16]: {MEAN} {VARIANCE} s = Sqrt(f) y = Div(d, s)
    rms at 22 [opset=22]: q = Mul(x, x) v = ReduceMean(q, [-1]) f = Add(v, e) s = Sqrt(f) y = Div(x, s)
    shared difference: {MEAN} {VARIANCE} s = Sqrt(f) t = Div(d, s) y = Add(t, d)
    shared deviation: {MEAN} {VARIANCE} s = Sqrt(f) t = Div(d, s) y = Add(t, s)
    upside down: {MEAN} {VARIANCE} s = Sqrt(f) y = Div(s, d)
    two over it: {MEAN} {VARIANCE} s = Sqrt(f) r = Div(2.0, s) y = Mul(d, r)
    divided by the power: {MEAN} {VARIANCE} r = Pow(f, -0.5) y = Div(d, r)
    an axis inside: m = ReduceMean<axes=[1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[1]>(q) f = Add(v, e)
        s = Sqrt(f) y = Div(d, s)
    two means: m = ReduceMean<axes=[1]>(x) d = Sub(x, m) {VARIANCE} s = Sqrt(f) y = Div(d, s)
    mean minus x: m = ReduceMean<axes=[-1]>(x) d = Sub(m, x) {VARIANCE} s = Sqrt(f) y = Div(d, s)
    no square: {MEAN} q = Mul(d, x) v = ReduceMean<axes=[-1]>(q) f = Add(v, e) s = Sqrt(f) y = Div(d, s)
    no root: {MEAN} {VARIANCE} y = Div(d, f)
    an epsilon of 0: {MEAN} {VARIANCE.replace("Add(v, e)", "Add(v, 0.0)")} s = Sqrt(f) y = Div(d, s)
    times a value: n = LayerNormalization(x, w) y = Mul(n, x)
    plus a value: n = LayerNormalization(x, w) y = Add(n, x)
    weights along another axis: n = LayerNormalization(x, w) y = Mul(n, [[1.0],[2.0]])
    shared normalization: n = LayerNormalization(x, w) t = Mul(n, w) y = Add(t, n)
    rms has no bias [opset=23]: n = RMSNormalization(x, w) y = Add(n, w)
    Sub: n = LayerNormalization(x, w) y = Sub(n, w)
    unknown extent [x=n,m]: {MEAN} {VARIANCE} s = Sqrt(f) y = Div(d, s)
    doubles [dtype=double]: {MEAN} {VARIANCE} s = Sqrt(f) y = Div(d, s)
    overridable initializer [graph=g (float[n,3] x, float e = {{0.00001}}) => (float[] y)]: {MEAN} {VARIANCE}
        s = Sqrt(f) y = Div(d, s)
    inner value is a graph output [graph=g (float[n,3] x) => (float[n,3] y, float[n,1] s)]: {MEAN} {VARIANCE}
        s = Sqrt(f) y = Div(d, s)
    the mean of a normalization is a graph output [graph=g (float[n,3] x) => (float[n,3] y, float[n,1] m)]:
        r, m = LayerNormalization(x, w) y = Mul(r, w)
    weights add a dim [x=3]: r = LayerNormalization(x, w) y = Mul(r, [[[1.0,2.0,3.0]]])
    a second weight at run time [graph=g (float[n,3] x, float[3] c) => (float[] y)]: r = LayerNormalization(x, w)
        y = Mul(r, c)
    too many weights [x=1,300,300; runs=False]: m = ReduceMean<axes=[1,2]>(x) d = Sub(x, m) q = Mul(d, d)
        v = ReduceMean<axes=[1,2]>(q) f = Add(v, e) s = Sqrt(f) y = Div(d, s)
    an overflow: t = LayerNormalization(x, large) y = Mul(t, [10.0,10.0,10.0])
""")

test_mean_by_sum_and_div_becomes = spelled.using(FUSE_REDUCE_MEAN, FUSE_NORM, FUSE_NORM_WEIGHTS).all_become(f"""
    sums: m = ReduceSum(x, [-1]) n = Div(m, 3.0) d = Sub(x, n) q = Mul(d, d) v = ReduceSum(q, [-1]) w0 = Div(v, 3.0)
        f = Add(w0, e) s = Sqrt(f) y = Div(d, s) => {LN}
""")


@given(rank=st.integers(1, 4), count=st.integers(1, 4), epsilon=st.sampled_from([1e-12, 1e-6, 1e-5, 1e-3]))
def test_any_suffix(rank: int, count: int, epsilon: float) -> None:
    axes = list(range(max(rank - count, 0), rank))
    dims = ",".join(["2", "3", "4", "5"][:rank])
    moments = f"m = ReduceMean<axes={axes}>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes={axes}>(q)"
    out = spelled.becomes(
        f"{moments} f = Add(v, e) s = Sqrt(f) y = Div(d, s)",
        f"y = LayerNormalization<axis={axes[0] - rank}, epsilon={np.float32(epsilon)}>(x, i)",
        x=dims,
        weights={"e": epsilon},
    )
    assert [w.shape for w in initializers(out).values()] == [(2, 3, 4, 5)[axes[0] : rank]]
