"""Fusion of HardSigmoid and HardSwish."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import activations
from rewrite_tables import Rewrites

FUSE_HARD_ACTIVATIONS = rule_pass(activations, "fuse-hard-activations")

hard = Rewrites("g (float[{x}] x) => (float[] y)", FUSE_HARD_ACTIVATIONS, x="n,3")
SHIFTED = "a = Add(x, 3.0) b = Clip(a, 0.0, 6.0)"
SIXTH = "alpha=0.1666666716337204, beta=0.5"

test_becomes = hard.all_become(f"""
    divided [opset=13]: {SHIFTED} y = Div(b, 6.0) => y = HardSigmoid<{SIXTH}>(x)
    multiplied [opset=13]: {SHIFTED} y = Mul(b, 0.16666667) => y = HardSigmoid<{SIXTH}>(x)
    multiplied from the left [opset=13]: {SHIFTED} y = Mul(0.16666667, b) => y = HardSigmoid<{SIXTH}>(x)
    by Sub [opset=13]: a = Sub(x, -3.0) b = Clip(a, 0.0, 6.0) y = Div(b, 6.0) => y = HardSigmoid<{SIXTH}>(x)
    keras: a = Mul(x, 0.2) b = Add(a, 0.5) y = Clip(b, 0.0, 1.0) => y = HardSigmoid<alpha=0.2, beta=0.5>(x)
    shift only [opset=11]: b = Add(0.5, x) y = Clip(b, 0.0, 1.0) => y = HardSigmoid<alpha=1.0, beta=0.5>(x)
    scale only [opset=11]: b = Div(x, 5.0) y = Clip(b, 0.0, 1.0) => y = HardSigmoid<alpha=0.2, beta=0.0>(x)
    no line [opset=11]: b = Clip(x, 0.0, 6.0) y = Div(b, 6.0) => y = HardSigmoid<alpha=0.16666667, beta=0.0>(x)
    swish of the quotient [opset=14]: {SHIFTED} c = Div(b, 6.0) y = Mul(x, c) => y = HardSwish(x)
    swish divided [opset=14]: {SHIFTED} c = Mul(x, b) y = Div(c, 6.0) => y = HardSwish(x)
    swish multiplied [opset=22]: {SHIFTED} c = Mul(b, x) y = Mul(c, 0.16666667) => y = HardSwish(x)
    swish, other order [opset=14]: {SHIFTED} c = Mul(b, x) y = Mul(0.16666667, c) => y = HardSwish(x)
    swish before it has a name [opset=13]: {SHIFTED} c = Mul(x, b) y = Div(c, 6.0)
        => a = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(x, a)
    half named [opset=14]: a = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(a, x) => y = HardSwish(x)
    attributes of older opsets [opset=7]: a = Add(x, 3.0) b = Clip<min=0.0, max=6.0>(a) y = Div(b, 6.0)
        => y = HardSigmoid<alpha=0.16666667, beta=0.5>(x)
    half precision [opset=14; dtype=float16]: {SHIFTED} c = Mul(x, b) y = Div(c, 6.0) => y = HardSwish(x)
    bounds of rank 1: a = Add(x, 3.0) b = Clip(a, [0.0], [6.0]) y = Div(b, [6.0]) => y = HardSigmoid<{SIXTH}>(x)
    swish with bounds of rank 1: a = Add(x, 3.0) b = Clip(a, [0.0], [6.0]) c = Mul(x, b) y = Div(c, 6.0) =>
        y = HardSwish(x)
""")

test_stays = hard.all_stay(f"""
    a Clip alone: y = Clip(x, 0.0, 1.0)
    another height: a = Add(x, 3.0) y = Clip(a, 0.0, 6.0)
    another floor: a = Add(x, 3.0) y = Clip(a, -3.0, 1.0)
    no ceiling: a = Add(x, 3.0) y = Clip(a, 0.0)
    no floor: a = Add(x, 3.0) y = Clip(a, , 1.0)
    divided by less: {SHIFTED} y = Div(b, 3.0)
    upside down: {SHIFTED} y = Div(6.0, b)
    multiplied instead of divided: {SHIFTED} y = Mul(b, 6.0)
    not a constant: a = Add(x, x) y = Clip(a, 0.0, 1.0)
    the line is read elsewhere: a = Add(x, 0.5) b = Clip(a, 0.0, 1.0) y = Add(a, b)
    swish divided by less: {SHIFTED} c = Mul(x, b) y = Div(c, 3.0)
    swish shifted further: a = Add(x, 5.0) b = Clip(a, 0.0, 6.0) c = Mul(x, b) y = Div(c, 6.0)
    mirrored: n = Neg(x) a = Add(n, 3.0) b = Clip(a, 0.0, 6.0) c = Mul(x, b) y = Div(c, 6.0)
    another slope: a = HardSigmoid<alpha=0.2, beta=0.5>(x) y = Mul(a, x)
    older opset [opset=13]: a = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(a, x)
    of another value [opset=14]: n = Neg(x) a = HardSigmoid<alpha=0.16666667, beta=0.5>(n) y = Mul(a, x)
    other bounds of a swish: a = Add(x, 3.0) b = Clip(a, 0.0, 5.0) c = Mul(x, b) y = Div(c, 6.0)
    doubles [dtype=double]: a = Add(x, 0.5) y = Clip(a, 0.0, 1.0)
    integers [dtype=int32]: a = Add(x, 3.0) y = Clip(a, 0.0, 1.0)
    several shifts: a = Add(x, [0.5,0.25,0.5]) y = Clip(a, 0.0, 1.0)
    the shift adds a dim [x=3]: a = Add(x, [[0.5]]) y = Clip(a, 0.0, 1.0)
    overridable initializer [graph=g (float[n,3] x, float one = {{1}}) => (float[] y)]: a = Add(x, 0.5)
        y = Clip(a, 0.0, one)
    inner value is a graph output [graph=g (float[n,3] x) => (float[n,3] y, float[n,3] b)]: {SHIFTED} y = Div(b, 6.0)
    the line is a graph output [graph=g (float[n,3] x) => (float[n,3] y, float[n,3] a)]: a = Add(x, 0.5)
        y = Clip(a, 0.0, 1.0)
""")


@given(a=st.floats(-2, 2, width=16).filter(lambda a: abs(a) > 0.01), b=st.floats(-2, 2, width=16))
def test_any_line(a: float, b: float) -> None:
    before = "s = Mul(a, x) t = Add(s, b) y = Clip(t, 0.0, 1.0)"
    hard.becomes(before, f"y = HardSigmoid<alpha={a}, beta={b + 0.0}>(x)", weights={"a": a, "b": b + 0.0})
