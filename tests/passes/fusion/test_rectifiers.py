"""Fusion of rectifiers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import activations
from rewrite_tables import Rewrites

FUSE_RECTIFIERS = rule_pass(activations, "fuse-rectifiers")

WEIGHTS = {
    "a": 0.25,
    "s": [0.5, -0.25, 2.0],
    "inf": [1.0, np.inf, 2.0],
    "minus_inf": [1.0, -np.inf, 2.0],
    "nan": [1.0, np.nan, 2.0],
}
rectifiers = Rewrites("g (float[{x}] x) => (float[] y)", FUSE_RECTIFIERS, weights=WEIGHTS, x="n,3")
LEAKY = "y = LeakyRelu<alpha=0.25>(x)"

test_becomes = rectifiers.all_become(f"""
    leaky by Max [opset=16]: m = Mul(x, a) y = Max(x, m) => {LEAKY}
    leaky by Max, other order [opset=8]: m = Mul(a, x) y = Max(m, x) => {LEAKY}
    leaky below zero [opset=16]: m = Mul(x, a) c = Less(x, 0.0) y = Where(c, m, x) => {LEAKY}
    leaky above zero [opset=13]: m = Mul(a, x) c = Greater(x, 0.0) y = Where(c, x, m) => {LEAKY}
    steeper below zero [opset=22]: m = Mul(x, 2.0) c = GreaterOrEqual(x, 0.0) y = Where(c, x, m)
        => y = LeakyRelu<alpha=2.0>(x)
    prelu [opset=16]: m = Mul(s, x) c = LessOrEqual(x, 0.0) y = Where(c, m, x) => y = PRelu(x, s)
    a difference [opset=9]: r = Relu(x) n = Neg(x) q = Relu(n) m = Mul(q, s) y = Sub(r, m) => y = PRelu(x, s)
    a negated part [opset=16]: r = Relu(x) n = Neg(x) q = Relu(n) p = Neg(q) m = Mul(s, p) y = Add(m, r)
        => y = PRelu(x, s)
    keras [opset=16]: r = Relu(x) n = Neg(x) q = Relu(n) m = Mul(q, s) y = Add(r, m) => y = PRelu(x, s)
    keras, one slope for all [opset=7]: r = Relu(x) n = Neg(x) q = Relu(n) m = Mul(q, -0.25) y = Add(r, m) => {LEAKY}
    elu [opset=16]: e = Exp(x) m = Sub(e, 1.0) c = Less(x, 0.0) y = Where(c, m, x) => y = Elu<alpha=1.0>(x)
    scaled elu [opset=22]: e = Exp(x) d = Sub(e, 1.0) m = Mul(a, d) c = Greater(x, 0.0) y = Where(c, x, m)
        => y = Elu<alpha=0.25>(x)
    thresholded [opset=10]: c = Greater(x, 2.0) y = Where(c, x, 0.0) => y = ThresholdedRelu<alpha=2.0>(x)
    thresholded at 0 [opset=22]: c = Greater(x, 0.0) y = Where(c, x, 0.0) => y = ThresholdedRelu<alpha=0.0>(x)
    inside an If body [in_if]: m = Mul(x, a) y = Max(x, m) => {LEAKY}
""")

test_half_precision_becomes = rectifiers.using(dtype="float16", weights={"a": 0.3}).all_become("""
    leaky: m = Mul(x, a) y = Max(x, m) => y = LeakyRelu<alpha=0.300048828125>(x)
    prelu: m = Mul(s, x) c = Less(x, 0.0) y = Where(c, m, x) => y = PRelu(x, s)
    elu: e = Exp(x) d = Sub(e, 1.0) m = Mul(d, a) c = Greater(x, 0.0) y = Where(c, x, m)
        => y = Elu<alpha=0.300048828125>(x)
    thresholded: c = Greater(x, a) y = Where(c, x, 0.0) => y = ThresholdedRelu<alpha=0.300048828125>(x)
""")

test_stays = rectifiers.all_stay("""
    steeper than 1: m = Mul(x, 2.0) y = Max(x, m)
    a negative slope: m = Mul(x, -0.25) y = Max(x, m)
    a flat one, NaN where it is infinite: m = Mul(x, 0.0) y = Max(x, m)
    Min: m = Mul(x, a) y = Min(x, m)
    of another value: n = Neg(x) m = Mul(n, a) y = Max(x, m)
    three operands: m = Mul(x, a) y = Max(x, m, 0.0)
    another knee: m = Mul(x, a) c = Less(x, 1.0) y = Where(c, m, x)
    the other way round: m = Mul(x, a) c = Less(x, 0.0) y = Where(c, x, m)
    several knees: m = Mul(x, a) c = Less(x, [0.0,0.0,0.0]) y = Where(c, m, x)
    compared the other way: m = Mul(x, a) c = Less(0.0, x) y = Where(c, m, x)
    shared inner value: m = Mul(x, a) c = Less(x, 0.0) w = Where(c, m, x) y = Add(w, m)
    no Neg: r = Relu(x) q = Relu(x) m = Mul(q, s) y = Sub(r, m)
    taken off the other: r = Relu(x) n = Neg(x) q = Relu(n) m = Mul(q, s) y = Sub(m, r)
    not through 0: e = Exp(x) m = Sub(e, 2.0) c = Less(x, 0.0) y = Where(c, m, x)
    elu upside down: e = Exp(x) m = Sub(1.0, e) c = Greater(x, 0.0) y = Where(c, m, x)
    no exponential: e = Tanh(x) m = Sub(e, 1.0) c = Less(x, 0.0) y = Where(c, m, x)
    cut off above: c = Greater(x, 2.0) y = Where(c, 0.0, x)
    another value below: c = Greater(x, 2.0) y = Where(c, x, 1.0)
    the threshold itself stays: c = GreaterOrEqual(x, 2.0) y = Where(c, x, 0.0)
    a negative threshold: c = Greater(x, -0.25) y = Where(c, x, 0.0)
    older opset [opset=9]: c = Greater(x, 2.0) y = Where(c, x, 0.0)
    the slope stretches it [x=3]: m = Mul([[0.5],[2.0]], x) c = Less(x, 0.0) y = Where(c, m, x)
    the slope may stretch it [graph=g (float[n,3] x, float[k] s) => (float[n,3] y)]: m = Mul(s, x) c = Less(x, 0.0)
        y = Where(c, m, x)
    doubles [dtype=double]: m = Mul(x, a) y = Max(x, m)
    ints [dtype=int32]: m = Mul(x, 1.0) y = Max(x, m)
    overridable initializer: g (float[n,3] x, float a = {0.5}) => (float[n,3] y) { m = Mul(x, a) y = Max(x, m) }
    inner value is a graph output: g (float[n,3] x) => (float[n,3] y, float[n,3] m) <float a = {0.5}> { m = Mul(x, a)
        y = Max(x, m) }
    an infinite slope: r = Relu(x) n = Neg(x) q = Relu(n) m = Mul(q, inf) y = Add(r, m)
    a negative infinite slope: r = Relu(x) n = Neg(x) q = Relu(n) m = Mul(q, minus_inf) y = Add(r, m)
    a slope that is not a number: r = Relu(x) n = Neg(x) q = Relu(n) m = Mul(q, nan) y = Add(r, m)
""")


@given(k=st.floats(-2, 2, width=16).filter(lambda k: abs(k) > 0.01))
def test_any_slope(k: float) -> None:
    before = "m = Mul(x, k) y = Max(x, m)"
    if 0 < k <= 1:
        rectifiers.becomes(before, f"y = LeakyRelu<alpha={k}>(x)", weights={"k": k})
    else:
        rectifiers.stays(before, weights={"k": k})
