"""Gelu fusion."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import activations
from rewrite_tables import Rewrites

FUSE_GELU = rule_pass(activations, "fuse-gelu")

gelus = Rewrites("g (float[{x}] x) => (float[] y)", FUSE_GELU, opset=20, x="n,3")
ERF = "a = Div(x, 1.4142135) e = Erf(a) p = Add(e, 1.0)"
TANH = (
    "d = Mul(x, x) k = Mul(d, x) i = Mul(k, 0.044715) j = Add(i, x) a = Mul(j, 0.79788456) e = Tanh(a) p = Add(e, 1.0)"
)

test_erf_becomes = gelus.all_become(f"""
    half last: {ERF} m = Mul(x, p) y = Mul(m, 0.5) => y = Gelu(x)
    half last, other order: {ERF} m = Mul(p, x) y = Mul(0.5, m) => y = Gelu(x)
    half first: {ERF} m = Mul(x, 0.5) y = Mul(m, p) => y = Gelu(x)
    half first, other order: {ERF} m = Mul(0.5, x) y = Mul(p, m) => y = Gelu(x)
    divided by 2: {ERF} m = Div(x, 2.0) y = Mul(m, p) => y = Gelu(x)
    half of the curve: {ERF} m = Mul(p, 0.5) y = Mul(x, m) => y = Gelu(x)
    times 1/sqrt(2): a = Mul(0.70710677, x) e = Erf(a) p = Add(1.0, e) m = Mul(x, p) y = Mul(m, 0.5) => y = Gelu(x)
    by Sum: a = Div(x, 1.4142135) e = Erf(a) p = Sum(e, 1.0) m = Mul(x, p) y = Mul(0.5, m) => y = Gelu(x)
    no elements [x=0,3]: {ERF} m = Mul(x, p) y = Mul(m, 0.5) => y = Gelu(x)
    the argument of Erf is an output as well [graph=g (float[n,3] x) => (float[n,3] y, float[n,3] a)]: {ERF}
        m = Mul(x, p) y = Mul(m, 0.5) => a = Div(x, 1.4142135) y = Gelu(x)
    inside an If body [in_if]: {ERF} m = Mul(x, p) y = Mul(m, 0.5) => y = Gelu(x)
    half precision [dtype=float16]: {ERF} m = Mul(x, p) y = Mul(m, 0.5) => y = Gelu(x)
    sqrt(2) to five digits is the same half [dtype=float16]: a = Div(x, 1.41421) e = Erf(a) p = Add(e, 1.0)
        m = Mul(x, p) y = Mul(m, 0.5) => y = Gelu(x)
    tanh in half precision [dtype=float16]: {TANH} m = Mul(x, p) y = Mul(m, 0.5) => y = Gelu<approximate="tanh">(x)
""")

# 1 + tanh(x) cancels where all numbers are negative.
test_tanh_becomes = gelus.using(x="64,3").all_become(f"""
    half last: {TANH} m = Mul(x, p) y = Mul(m, 0.5) => y = Gelu<approximate="tanh">(x)
    half first: {TANH} m = Mul(x, 0.5) y = Mul(m, p) => y = Gelu<approximate="tanh">(x)
    half of the curve: {TANH} m = Mul(p, 0.5) y = Mul(m, x) => y = Gelu<approximate="tanh">(x)
    by Pow: k = Pow(x, 3.0) i = Mul(0.044715, k) j = Add(x, i) a = Mul(0.79788456, j) e = Tanh(a) p = Add(1.0, e)
        m = Mul(0.5, x) y = Mul(m, p) => y = Gelu<approximate="tanh">(x)
    factored: t = Mul(x, 0.79788456) i = Mul(x, 0.044715) j = Mul(i, x) k = Add(j, 1.0) a = Mul(t, k) e = Tanh(a)
        p = Add(e, 1.0) m = Mul(x, 0.5) y = Mul(m, p) => y = Gelu<approximate="tanh">(x)
    by Sum: k = Pow(x, 3.0) i = Mul(0.044715, k) j = Sum(x, i) a = Mul(0.79788456, j) e = Tanh(a) p = Sum(1.0, e)
        m = Mul(p, x) y = Mul(0.5, m) => y = Gelu<approximate="tanh">(x)
    multiplied out: t = Mul(x, 0.79788456) k = Pow(x, 3.0) j = Mul(k, 0.035677408) a = Add(t, j) e = Tanh(a)
        p = Add(e, 1.0) m = Mul(x, 0.5) y = Mul(m, p) => y = Gelu<approximate="tanh">(x)
""")

# With sqrt(2) to five digits, results on negative inputs differ by 36 epsilons of the largest one; 16 are allowed.
test_stays = gelus.all_stay(f"""
    another root: a = Div(x, 2.0) e = Erf(a) p = Add(e, 1.0) m = Mul(x, p) y = Mul(m, 0.5)
    upside down: a = Div(1.4142135, x) e = Erf(a) p = Add(e, 1.0) m = Mul(x, p) y = Mul(m, 0.5)
    plus 2: a = Div(x, 1.4142135) e = Erf(a) p = Add(e, 2.0) m = Mul(x, p) y = Mul(m, 0.5)
    times 2: a = Div(x, 1.4142135) e = Erf(a) p = Add(e, 1.0) m = Mul(x, p) y = Mul(m, 2.0)
    half over x: a = Div(x, 1.4142135) e = Erf(a) p = Add(e, 1.0) m = Div(0.5, x) y = Mul(m, p)
    minus 1: a = Div(x, 1.4142135) e = Erf(a) p = Sub(e, 1.0) m = Mul(x, p) y = Mul(m, 0.5)
    of another value: n = Relu(x) a = Div(n, 1.4142135) e = Erf(a) p = Add(e, 1.0) m = Mul(x, p) y = Mul(m, 0.5)
    not cubic: a = Mul(x, 0.79788456) e = Tanh(a) p = Add(e, 1.0) m = Mul(x, p) y = Mul(m, 0.5)
    another cubic factor: k = Pow(x, 3.0) i = Mul(0.79788456, k) j = Add(x, i) a = Mul(0.79788456, j) e = Tanh(a)
        p = Add(1.0, e) m = Mul(0.5, x) y = Mul(m, p)
    a square: k = Pow(x, 2.0) i = Mul(0.044715, k) j = Add(x, i) a = Mul(0.79788456, j) e = Tanh(a) p = Add(1.0, e)
        m = Mul(0.5, x) y = Mul(m, p)
    the quick form: a = Mul(x, 0.79788456) e = Sigmoid(a) y = Mul(x, e)
    shared inner value: {ERF} t = Neg(p) m = Mul(x, p) h = Mul(m, 0.5) y = Add(h, t)
    older opset [opset=19]: {ERF} m = Mul(x, p) y = Mul(m, 0.5)
    inner value is a graph output [graph=g (float[n,3] x) => (float[n,3] y, float[n,3] e)]: {ERF} m = Mul(x, p)
        y = Mul(m, 0.5)
    a constant adds a dim [x=3]: {ERF} m = Mul(x, p) y = Mul(m, [[0.5]])
    several constants: {ERF} m = Mul(x, p) y = Mul(m, [0.5,0.5,0.4])
    overridable initializer [graph=g (float[n,3] x, float half = {{0.5}}) => (float[] y)]: {ERF} m = Mul(x, p)
        y = Mul(m, half)
    another function, sqrt(2) to five digits: a = Div(x, 1.41421) e = Erf(a) p = Add(e, 1.0) m = Mul(x, p)
        y = Mul(m, 0.5)
    doubles have no kernel [dtype=double; runs=False]: {ERF} m = Mul(x, p) y = Mul(m, 0.5)
    doubles have no kernel for tanh [dtype=double]: {TANH} m = Mul(x, p) y = Mul(m, 0.5)
""")


@given(k=st.sampled_from([0.5, 0.7071, 0.70710677, 0.70710678, 0.8, 1.4142135]))
def test_any_argument(k: float) -> None:
    before = "a = Mul(x, k) e = Erf(a) p = Add(e, 1.0) m = Mul(x, p) y = Mul(m, 0.5)"
    if abs(k - 0.5**0.5) < 1e-6:
        gelus.becomes(before, "y = Gelu(x)", weights={"k": k})
    else:
        gelus.stays(before, weights={"k": k})
