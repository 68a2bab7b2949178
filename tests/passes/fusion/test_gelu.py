"""Gelu fusion."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import activations
from rewrite_tables import Rewrites

FUSE_GELU = rule_pass(activations, "fuse-gelu")

WEIGHTS = {
    "rounded": 1.41421,  # on negative inputs, the results differ by 36 epsilons of the largest one; 16 are allowed
    "half_of_rank_2": [[0.5]],
    "halves": [0.5, 0.5, 0.4],
    "r": 1.4142135,
    "q": 0.70710677,
    "one": 1.0,
    "half": 0.5,
    "two": 2.0,
    "three": 3.0,
    "c": 0.044715,
    "s": 0.79788456,
    "cs": 0.035677408,
}
gelus = Rewrites("g (float[{x}] x) => (float[] y)", FUSE_GELU, weights=WEIGHTS, opset=20, x="n,3")
ERF = "a = Div(x, r) e = Erf(a) p = Add(e, one)"
TANH = "d = Mul(x, x) k = Mul(d, x) i = Mul(k, c) j = Add(i, x) a = Mul(j, s) e = Tanh(a) p = Add(e, one)"

test_erf_becomes = gelus.all_become(f"""
    half last: {ERF} m = Mul(x, p) y = Mul(m, half) => y = Gelu(x)
    half last, other order: {ERF} m = Mul(p, x) y = Mul(half, m) => y = Gelu(x)
    half first: {ERF} m = Mul(x, half) y = Mul(m, p) => y = Gelu(x)
    half first, other order: {ERF} m = Mul(half, x) y = Mul(p, m) => y = Gelu(x)
    divided by 2: {ERF} m = Div(x, two) y = Mul(m, p) => y = Gelu(x)
    half of the curve: {ERF} m = Mul(p, half) y = Mul(x, m) => y = Gelu(x)
    times 1/sqrt(2): a = Mul(q, x) e = Erf(a) p = Add(one, e) m = Mul(x, p) y = Mul(m, half) => y = Gelu(x)
    by Sum: a = Div(x, r) e = Erf(a) p = Sum(e, one) m = Mul(x, p) y = Mul(half, m) => y = Gelu(x)
    no elements [x=0,3]: {ERF} m = Mul(x, p) y = Mul(m, half) => y = Gelu(x)
    the argument of Erf is an output as well [graph=g (float[n,3] x) => (float[n,3] y, float[n,3] a)]: {ERF}
        m = Mul(x, p) y = Mul(m, half) => a = Div(x, r) y = Gelu(x)
    inside an If body [in_if]: {ERF} m = Mul(x, p) y = Mul(m, half) => y = Gelu(x)
    half precision [dtype=float16]: {ERF} m = Mul(x, p) y = Mul(m, half) => y = Gelu(x)
    sqrt(2) to five digits is the same half [dtype=float16]: a = Div(x, rounded) e = Erf(a) p = Add(e, one)
        m = Mul(x, p) y = Mul(m, half) => y = Gelu(x)
    tanh in half precision [dtype=float16]: {TANH} m = Mul(x, p) y = Mul(m, half) => y = Gelu<approximate="tanh">(x)
""")

# 1 + tanh(x) cancels where all numbers are negative.
test_tanh_becomes = gelus.using(x="64,3").all_become(f"""
    half last: {TANH} m = Mul(x, p) y = Mul(m, half) => y = Gelu<approximate="tanh">(x)
    half first: {TANH} m = Mul(x, half) y = Mul(m, p) => y = Gelu<approximate="tanh">(x)
    half of the curve: {TANH} m = Mul(p, half) y = Mul(m, x) => y = Gelu<approximate="tanh">(x)
    by Pow: k = Pow(x, three) i = Mul(c, k) j = Add(x, i) a = Mul(s, j) e = Tanh(a) p = Add(one, e) m = Mul(half, x)
        y = Mul(m, p) => y = Gelu<approximate="tanh">(x)
    factored: t = Mul(x, s) i = Mul(x, c) j = Mul(i, x) k = Add(j, one) a = Mul(t, k) e = Tanh(a) p = Add(e, one)
        m = Mul(x, half) y = Mul(m, p) => y = Gelu<approximate="tanh">(x)
    by Sum: k = Pow(x, three) i = Mul(c, k) j = Sum(x, i) a = Mul(s, j) e = Tanh(a) p = Sum(one, e) m = Mul(p, x)
        y = Mul(half, m) => y = Gelu<approximate="tanh">(x)
    multiplied out: t = Mul(x, s) k = Pow(x, three) j = Mul(k, cs) a = Add(t, j) e = Tanh(a) p = Add(e, one)
        m = Mul(x, half) y = Mul(m, p) => y = Gelu<approximate="tanh">(x)
""")

test_stays = gelus.all_stay(f"""
    another root: a = Div(x, two) e = Erf(a) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)
    upside down: a = Div(r, x) e = Erf(a) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)
    plus 2: a = Div(x, r) e = Erf(a) p = Add(e, two) m = Mul(x, p) y = Mul(m, half)
    times 2: a = Div(x, r) e = Erf(a) p = Add(e, one) m = Mul(x, p) y = Mul(m, two)
    half over x: a = Div(x, r) e = Erf(a) p = Add(e, one) m = Div(half, x) y = Mul(m, p)
    minus 1: a = Div(x, r) e = Erf(a) p = Sub(e, one) m = Mul(x, p) y = Mul(m, half)
    of another value: n = Relu(x) a = Div(n, r) e = Erf(a) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)
    not cubic: a = Mul(x, s) e = Tanh(a) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)
    another cubic factor: k = Pow(x, three) i = Mul(s, k) j = Add(x, i) a = Mul(s, j) e = Tanh(a) p = Add(one, e)
        m = Mul(half, x) y = Mul(m, p)
    a square: k = Pow(x, two) i = Mul(c, k) j = Add(x, i) a = Mul(s, j) e = Tanh(a) p = Add(one, e) m = Mul(half, x)
        y = Mul(m, p)
    the quick form: a = Mul(x, s) e = Sigmoid(a) y = Mul(x, e)
    shared inner value: {ERF} t = Neg(p) m = Mul(x, p) h = Mul(m, half) y = Add(h, t)
    older opset [opset=19]: {ERF} m = Mul(x, p) y = Mul(m, half)
    inner value is a graph output [graph=g (float[n,3] x) => (float[n,3] y, float[n,3] e)]: {ERF} m = Mul(x, p)
        y = Mul(m, half)
    a constant adds a dim [x=3]: {ERF} m = Mul(x, p) y = Mul(m, half_of_rank_2)
    several constants: {ERF} m = Mul(x, p) y = Mul(m, halves)
    overridable initializer [graph=g (float[n,3] x, float half = {{0.5}}) => (float[] y)]: {ERF} m = Mul(x, p)
        y = Mul(m, half)
    another function, sqrt(2) to five digits: a = Div(x, rounded) e = Erf(a) p = Add(e, one) m = Mul(x, p)
        y = Mul(m, half)
    doubles have no kernel [dtype=double; runs=False]: {ERF} m = Mul(x, p) y = Mul(m, half)
    doubles have no kernel for tanh [dtype=double]: {TANH} m = Mul(x, p) y = Mul(m, half)
""")


@given(k=st.sampled_from([0.5, 0.7071, 0.70710677, 0.70710678, 0.8, 1.4142135]))
def test_any_argument(k: float) -> None:
    before = "a = Mul(x, k) e = Erf(a) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)"
    if abs(k - 0.5**0.5) < 1e-6:
        gelus.becomes(before, "y = Gelu(x)", weights={"k": k})
    else:
        gelus.stays(before, weights={"k": k})
