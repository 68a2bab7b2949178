"""Fusion of HardSigmoid and HardSwish."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import activations
from rewrite_tables import Rewrites

FUSE_HARD_ACTIVATIONS = rule_pass(activations, "fuse-hard-activations")

WEIGHTS = {
    "low": [0.0],
    "high": [6.0],
    "shifts": [0.5, 0.25, 0.5],
    "half_of_rank_2": [[0.5]],
    "zero": 0.0,
    "one": 1.0,
    "half": 0.5,
    "fifth": 0.2,
    "three": 3.0,
    "six": 6.0,
    "sixth": 0.16666667,
    "five": 5.0,
    "minus": -3.0,
}
hard = Rewrites("g (float[{x}] x) => (float[] y)", FUSE_HARD_ACTIVATIONS, weights=WEIGHTS, x="n,3")
SHIFTED = "a = Add(x, three) b = Clip(a, zero, six)"
SIXTH = "alpha=0.1666666716337204, beta=0.5"

test_becomes = hard.all_become(f"""
    divided [opset=13]: {SHIFTED} y = Div(b, six) => y = HardSigmoid<{SIXTH}>(x)
    multiplied [opset=13]: {SHIFTED} y = Mul(b, sixth) => y = HardSigmoid<{SIXTH}>(x)
    multiplied from the left [opset=13]: {SHIFTED} y = Mul(sixth, b) => y = HardSigmoid<{SIXTH}>(x)
    by Sub [opset=13]: a = Sub(x, minus) b = Clip(a, zero, six) y = Div(b, six) => y = HardSigmoid<{SIXTH}>(x)
    keras: a = Mul(x, fifth) b = Add(a, half) y = Clip(b, zero, one) => y = HardSigmoid<alpha=0.2, beta=0.5>(x)
    shift only [opset=11]: b = Add(half, x) y = Clip(b, zero, one) => y = HardSigmoid<alpha=1.0, beta=0.5>(x)
    scale only [opset=11]: b = Div(x, five) y = Clip(b, zero, one) => y = HardSigmoid<alpha=0.2, beta=0.0>(x)
    no line [opset=11]: b = Clip(x, zero, six) y = Div(b, six) => y = HardSigmoid<alpha=0.16666667, beta=0.0>(x)
    swish of the quotient [opset=14]: {SHIFTED} c = Div(b, six) y = Mul(x, c) => y = HardSwish(x)
    swish divided [opset=14]: {SHIFTED} c = Mul(x, b) y = Div(c, six) => y = HardSwish(x)
    swish multiplied [opset=22]: {SHIFTED} c = Mul(b, x) y = Mul(c, sixth) => y = HardSwish(x)
    swish, other order [opset=14]: {SHIFTED} c = Mul(b, x) y = Mul(sixth, c) => y = HardSwish(x)
    swish before it has a name [opset=13]: {SHIFTED} c = Mul(x, b) y = Div(c, six)
        => a = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(x, a)
    half named [opset=14]: a = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(a, x) => y = HardSwish(x)
    attributes of older opsets [opset=7]: a = Add(x, three) b = Clip<min=0.0, max=6.0>(a) y = Div(b, six)
        => y = HardSigmoid<alpha=0.16666667, beta=0.5>(x)
    half precision [opset=14; dtype=float16]: {SHIFTED} c = Mul(x, b) y = Div(c, six) => y = HardSwish(x)
    bounds of rank 1: a = Add(x, three) b = Clip(a, low, high) y = Div(b, high) => y = HardSigmoid<{SIXTH}>(x)
    swish with bounds of rank 1: a = Add(x, three) b = Clip(a, low, high) c = Mul(x, b) y = Div(c, six) =>
        y = HardSwish(x)
""")

test_stays = hard.all_stay(f"""
    a Clip alone: y = Clip(x, zero, one)
    another height: a = Add(x, three) y = Clip(a, zero, six)
    another floor: a = Add(x, three) y = Clip(a, minus, one)
    no ceiling: a = Add(x, three) y = Clip(a, zero)
    no floor: a = Add(x, three) y = Clip(a, , one)
    divided by less: {SHIFTED} y = Div(b, three)
    upside down: {SHIFTED} y = Div(six, b)
    multiplied instead of divided: {SHIFTED} y = Mul(b, six)
    not a constant: a = Add(x, x) y = Clip(a, zero, one)
    the line is read elsewhere: a = Add(x, half) b = Clip(a, zero, one) y = Add(a, b)
    swish divided by less: {SHIFTED} c = Mul(x, b) y = Div(c, three)
    swish shifted further: a = Add(x, five) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)
    mirrored: n = Neg(x) a = Add(n, three) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)
    another slope: a = HardSigmoid<alpha=0.2, beta=0.5>(x) y = Mul(a, x)
    older opset [opset=13]: a = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(a, x)
    of another value [opset=14]: n = Neg(x) a = HardSigmoid<alpha=0.16666667, beta=0.5>(n) y = Mul(a, x)
    other bounds of a swish: a = Add(x, three) b = Clip(a, zero, five) c = Mul(x, b) y = Div(c, six)
    doubles [dtype=double]: a = Add(x, half) y = Clip(a, zero, one)
    integers [dtype=int32]: a = Add(x, three) y = Clip(a, zero, one)
    several shifts: a = Add(x, shifts) y = Clip(a, zero, one)
    the shift adds a dim [x=3]: a = Add(x, half_of_rank_2) y = Clip(a, zero, one)
    overridable initializer [graph=g (float[n,3] x, float one = {{1}}) => (float[] y)]: a = Add(x, half)
        y = Clip(a, zero, one)
    inner value is a graph output [graph=g (float[n,3] x) => (float[n,3] y, float[n,3] b)]: {SHIFTED} y = Div(b, six)
    the line is a graph output [graph=g (float[n,3] x) => (float[n,3] y, float[n,3] a)]: a = Add(x, half)
        y = Clip(a, zero, one)
""")


@given(a=st.floats(-2, 2, width=16).filter(lambda a: abs(a) > 0.01), b=st.floats(-2, 2, width=16))
def test_any_line(a: float, b: float) -> None:
    before = "s = Mul(a, x) t = Add(s, b) y = Clip(t, zero, one)"
    hard.becomes(before, f"y = HardSigmoid<alpha={a}, beta={b + 0.0}>(x)", weights={"a": a, "b": b + 0.0})
