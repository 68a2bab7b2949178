"""Fusion of smooth activations."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import activations
from rewrite_tables import Rewrites

FUSE_ACTIVATIONS = rule_pass(activations, "fuse-activations")
FUSE_SWISH = rule_pass(activations, "fuse-swish")

smooth = Rewrites("g (float[{x}] x) => (float[] y)", FUSE_ACTIVATIONS, FUSE_SWISH, weights={"k": 1.5}, x="n,3")
SIGMOID = "m = Neg(x) e = Exp(m) s = Add(e, 1.0)"

test_becomes = smooth.all_become(f"""
    sigmoid by Reciprocal: {SIGMOID} y = Reciprocal(s) => y = Sigmoid(x)
    sigmoid by Div: {SIGMOID} y = Div(1.0, s) => y = Sigmoid(x)
    sigmoid at 7 [opset=7]: m = Neg(x) e = Exp(m) s = Add([1.0], e) y = Div(1.0, s) => y = Sigmoid(x)
    softplus: t = Tanh(x) e = Exp(t) s = Add(e, 1.0) y = Log(s) => t = Tanh(x) y = Softplus(t)
    softplus at 7 [opset=7]: t = Tanh(x) e = Exp(t) s = Add(1.0, e) y = Log(s) => t = Tanh(x) y = Softplus(t)
    softsign: a = Abs(x) s = Add(a, 1.0) y = Div(x, s) => y = Softsign(x)
    softsign at 22 [opset=22]: a = Abs(x) s = Add([1.0], a) y = Div(x, s) => y = Softsign(x)
    mish [opset=18]: a = Softplus(x) b = Tanh(a) y = Mul(x, b) => y = Mish(x)
    mish, other order [opset=25]: a = Softplus(x) b = Tanh(a) y = Mul(b, x) => y = Mish(x)
    mish all spelled out [opset=18]: t = Tanh(x) e = Exp(t) s = Add(e, 1.0) l = Log(s) b = Tanh(l) y = Mul(t, b)
        => t = Tanh(x) y = Mish(t)
    swish [opset=24]: a = Sigmoid(x) y = Mul(x, a) => y = Swish<alpha=1.0>(x)
    swish, other order [opset=24]: a = Sigmoid(x) y = Mul(a, x) => y = Swish<alpha=1.0>(x)
    scaled swish [opset=24]: b = Mul(x, k) a = Sigmoid(b) y = Mul(x, a) => y = Swish<alpha=1.5>(x)
    halved swish [opset=24]: b = Div(x, 2.0) a = Sigmoid(b) y = Mul(x, a) => y = Swish<alpha=0.5>(x)
    no elements [x=0,3; opset=24]: a = Sigmoid(x) y = Mul(x, a) => y = Swish<alpha=1.0>(x)
    the scaled input is an output as well [graph=g (float[n,3] x) => (float[n,3] y, float[n,3] b) <float k = {{1.5}}>;
        opset=24]: b = Mul(x, k) a = Sigmoid(b) y = Mul(x, a) => b = Mul(x, k) y = Swish<alpha=1.5>(x)
    inside an If body [in_if; opset=24]: a = Sigmoid(x) y = Mul(x, a) => y = Swish<alpha=1.0>(x)
""")

test_other_types_become = smooth.all_become(f"""
    half sigmoid [dtype=float16]: {SIGMOID} y = Reciprocal(s) => y = Sigmoid(x)
    half softsign [dtype=float16]: a = Abs(x) s = Add(a, 1.0) y = Div(x, s) => y = Softsign(x)
    half mish [opset=18; dtype=float16]: a = Softplus(x) b = Tanh(a) y = Mul(x, b) => y = Mish(x)
    half swish [opset=24; dtype=float16]: a = Sigmoid(x) y = Mul(x, a) => y = Swish<alpha=1.0>(x)
    double sigmoid [dtype=double]: {SIGMOID} y = Reciprocal(s) => y = Sigmoid(x)
    double swish [opset=24; dtype=double]: a = Sigmoid(x) y = Mul(x, a) => y = Swish<alpha=1.0>(x)
""")

test_stays = smooth.all_stay(f"""
    sigmoid plus 2: m = Neg(x) e = Exp(m) s = Add(e, 2.0) y = Reciprocal(s)
    two over it: {SIGMOID} y = Div(2.0, s)
    x over it: {SIGMOID} y = Div(x, s)
    no Neg: e = Exp(x) s = Add(e, 1.0) y = Reciprocal(s)
    shared inner value: {SIGMOID} a = Reciprocal(s) y = Mul(a, e)
    softplus plus 2: e = Exp(x) s = Add(e, 2.0) y = Log(s)
    softplus minus 1: e = Exp(x) s = Sub(e, 1.0) y = Log(s)
    softsign of another value: n = Neg(x) a = Abs(n) s = Add(a, 1.0) y = Div(x, s)
    softsign upside down: a = Abs(x) s = Add(a, 1.0) y = Div(s, x)
    softsign plus 2: a = Abs(x) s = Add(a, 2.0) y = Div(x, s)
    mish at an older opset: a = Softplus(x) b = Tanh(a) y = Mul(x, b)
    no chain [opset=18]: a = Softplus(x) b = Tanh(x) y = Mul(a, b)
    mish of another value [opset=18]: a = Softplus(x) b = Tanh(a) n = Neg(x) y = Mul(n, b)
    swish at an older opset [opset=23]: a = Sigmoid(x) y = Mul(x, a)
    swish at a newer opset [opset=25]: a = Sigmoid(x) y = Mul(x, a)
    swish of another value [opset=24]: n = Neg(x) a = Sigmoid(n) r = Relu(x) y = Mul(r, a)
    swish of a shifted value [opset=24]: b = Add(x, k) a = Sigmoid(b) y = Mul(x, a)
    shared Sigmoid [opset=24]: a = Sigmoid(x) b = Mul(x, a) y = Add(a, b)
    the same value twice [opset=24]: a = Sigmoid(x) y = Mul(a, a)
    a constant adds a dim [graph=g (float x) => (float[n] y)]: m = Neg(x) e = Exp(m) s = Add(e, [1.0]) y = Reciprocal(s)
    a constant stretches it [x=1]: m = Neg(x) e = Exp(m) s = Add(e, [1.0,1.0]) y = Reciprocal(s)
    overridable initializer [graph=g (float[n,3] x, float one = {{1}}) => (float[] y)]: e = Abs(x) s = Add(e, one)
        y = Div(x, s)
    inner value is a graph output [graph=g (float[n,3] x) => (float[n,3] y, float[n,3] s)]: {SIGMOID} y = Reciprocal(s)
    no kernel for doubles [dtype=double]: e = Abs(x) s = Add(e, 1.0) y = Div(x, s)
    a double does not fit alpha [opset=24; graph=g (double[n,3] x) => (double[n,3] y) <double k = {{1.1}}>]:
        b = Mul(x, k) a = Sigmoid(b) y = Mul(x, a)
    integers [dtype=int32]: e = Abs(x) s = Add(e, 1.0) y = Div(x, s)
""")


@given(k=st.floats(-3, 3, width=16).filter(lambda k: abs(k) > 1e-3))
def test_any_alpha(k: float) -> None:
    before = "b = Mul(k, x) a = Sigmoid(b) y = Mul(x, a)"
    smooth.becomes(before, f"y = Swish<alpha={k}>(x)", opset=24, x="16,3", weights={"k": k})
