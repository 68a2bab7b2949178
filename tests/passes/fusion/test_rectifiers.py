"""Fusion of rectifiers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import activations
from rewriting import becomes, cases, stays

FUSE_RECTIFIERS = rule_pass(activations, "fuse-rectifiers")

G = "g (float[n,3] x) => (float[n,3] y)"
C = (
    "<float zero = {0}, float one = {1}, float a = {0.25}, float b = {-0.25}, float two = {2},"
    " float[3] s = {0.5, -0.25, 2}, float[3] zeros = {0, 0, 0}>"
)
LEAKY = "y = LeakyRelu<alpha=0.25>(x)"


@cases(
    ("before", "after", "opset"),
    {
        "leaky by Max": ("m = Mul(x, a) y = Max(x, m)", LEAKY, 16),
        "leaky by Max, other order": ("m = Mul(a, x) y = Max(m, x)", LEAKY, 8),
        "leaky below zero": ("m = Mul(x, a) c = Less(x, zero) y = Where(c, m, x)", LEAKY, 16),
        "leaky above zero": ("m = Mul(a, x) c = Greater(x, zero) y = Where(c, x, m)", LEAKY, 13),
        "steeper below zero": (
            "m = Mul(x, two) c = GreaterOrEqual(x, zero) y = Where(c, x, m)",
            "y = LeakyRelu<alpha=2.0>(x)",
            22,
        ),
        "prelu": ("m = Mul(s, x) c = LessOrEqual(x, zero) y = Where(c, m, x)", "y = PRelu(x, s)", 16),
        "a difference": ("r = Relu(x) n = Neg(x) q = Relu(n) m = Mul(q, s) y = Sub(r, m)", "y = PRelu(x, s)", 9),
        "a negated part": (
            "r = Relu(x) n = Neg(x) q = Relu(n) p = Neg(q) m = Mul(s, p) y = Add(m, r)",
            "y = PRelu(x, s)",
            16,
        ),
        "keras": ("r = Relu(x) n = Neg(x) q = Relu(n) m = Mul(q, s) y = Add(r, m)", "y = PRelu(x, s)", 16),
        "keras, one slope for all": ("r = Relu(x) n = Neg(x) q = Relu(n) m = Mul(q, b) y = Add(r, m)", LEAKY, 7),
        "elu": ("e = Exp(x) m = Sub(e, one) c = Less(x, zero) y = Where(c, m, x)", "y = Elu<alpha=1.0>(x)", 16),
        "scaled elu": (
            "e = Exp(x) d = Sub(e, one) m = Mul(a, d) c = Greater(x, zero) y = Where(c, x, m)",
            "y = Elu<alpha=0.25>(x)",
            22,
        ),
        "thresholded": ("c = Greater(x, two) y = Where(c, x, zero)", "y = ThresholdedRelu<alpha=2.0>(x)", 10),
        "thresholded at 0": ("c = Greater(x, zero) y = Where(c, x, zero)", "y = ThresholdedRelu<alpha=0.0>(x)", 22),
    },
)
def test_becomes(before: str, after: str, opset: int) -> None:
    becomes(f"{G} {C} {{ {before} }}", f"{G} {C} {{ {after} }}", FUSE_RECTIFIERS, opset=opset)


@cases(
    ("before", "after"),
    {
        "leaky": ("m = Mul(x, a) y = Max(x, m)", "y = LeakyRelu<alpha=0.300048828125>(x)"),
        "prelu": ("m = Mul(s, x) c = Less(x, zero) y = Where(c, m, x)", "y = PRelu(x, s)"),
        "elu": (
            "e = Exp(x) d = Sub(e, one) m = Mul(d, a) c = Greater(x, zero) y = Where(c, x, m)",
            "y = Elu<alpha=0.300048828125>(x)",
        ),
        "thresholded": ("c = Greater(x, a) y = Where(c, x, zero)", "y = ThresholdedRelu<alpha=0.300048828125>(x)"),
    },
)
def test_half_precision_becomes(before: str, after: str) -> None:
    g = "g (float16[n,3] x) => (float16[n,3] y)"
    weights = {
        name: np.asarray(n, np.float16) for name, n in {"a": 0.3, "one": 1, "zero": 0, "s": [0.5, -0.25, 2]}.items()
    }
    slopes = "<float16[3] s = {1, 2, 3}>"  # which ones is not compared
    becomes(f"{g} {{ {before} }}", f"{g} {slopes} {{ {after} }}", FUSE_RECTIFIERS, opset=16, weights=weights)


@cases(
    ("body", "opset"),
    {
        "steeper than 1": ("m = Mul(x, two) y = Max(x, m)", 16),
        "a negative slope": ("m = Mul(x, b) y = Max(x, m)", 16),
        "a flat one, NaN where it is infinite": ("m = Mul(x, zero) y = Max(x, m)", 16),
        "Min": ("m = Mul(x, a) y = Min(x, m)", 16),
        "of another value": ("n = Neg(x) m = Mul(n, a) y = Max(x, m)", 16),
        "three operands": ("m = Mul(x, a) y = Max(x, m, zero)", 16),
        "another knee": ("m = Mul(x, a) c = Less(x, one) y = Where(c, m, x)", 16),
        "the other way round": ("m = Mul(x, a) c = Less(x, zero) y = Where(c, x, m)", 16),
        "several knees": ("m = Mul(x, a) c = Less(x, zeros) y = Where(c, m, x)", 16),
        "compared the other way": ("m = Mul(x, a) c = Less(zero, x) y = Where(c, m, x)", 16),
        "shared inner value": ("m = Mul(x, a) c = Less(x, zero) w = Where(c, m, x) y = Add(w, m)", 16),
        "no Neg": ("r = Relu(x) q = Relu(x) m = Mul(q, s) y = Sub(r, m)", 16),
        "taken off the other": ("r = Relu(x) n = Neg(x) q = Relu(n) m = Mul(q, s) y = Sub(m, r)", 16),
        "not through 0": ("e = Exp(x) m = Sub(e, two) c = Less(x, zero) y = Where(c, m, x)", 16),
        "elu upside down": ("e = Exp(x) m = Sub(one, e) c = Greater(x, zero) y = Where(c, m, x)", 16),
        "no exponential": ("e = Tanh(x) m = Sub(e, one) c = Less(x, zero) y = Where(c, m, x)", 16),
        "cut off above": ("c = Greater(x, two) y = Where(c, zero, x)", 16),
        "another value below": ("c = Greater(x, two) y = Where(c, x, one)", 16),
        "the threshold itself stays": ("c = GreaterOrEqual(x, two) y = Where(c, x, zero)", 16),
        "a negative threshold": ("c = Greater(x, b) y = Where(c, x, zero)", 16),
        "older opset": ("c = Greater(x, two) y = Where(c, x, zero)", 9),
    },
)
def test_stays(body: str, opset: int) -> None:
    stays(f"{G} {C} {{ {body} }}", FUSE_RECTIFIERS, opset=opset)


@cases(
    "text",
    {
        "the slope stretches it": (
            "g (float[3] x) => (float[2,3] y) <float[2,1] s = {0.5, 2}, float zero = {0}>"
            " { m = Mul(s, x) c = Less(x, zero) y = Where(c, m, x) }"
        ),
        "the slope may stretch it": (
            "g (float[n,3] x, float[k] s) => (float[n,3] y) <float zero = {0}>"
            " { m = Mul(s, x) c = Less(x, zero) y = Where(c, m, x) }"
        ),
        "doubles": ("g (double[n,3] x) => (double[n,3] y) <double a = {0.5}> { m = Mul(x, a) y = Max(x, m) }"),
        "ints": ("g (int32[n,3] x) => (int32[n,3] y) <int32 a = {1}> { m = Mul(x, a) y = Max(x, m) }"),
        "overridable initializer": (
            "g (float[n,3] x, float a = {0.5}) => (float[n,3] y) { m = Mul(x, a) y = Max(x, m) }"
        ),
        "inner value is a graph output": (
            "g (float[n,3] x) => (float[n,3] y, float[n,3] m) <float a = {0.5}> { m = Mul(x, a) y = Max(x, m) }"
        ),
    },
)
def test_stays_elsewhere(text: str) -> None:
    stays(text, FUSE_RECTIFIERS)


@pytest.mark.parametrize("slope", [np.inf, -np.inf, np.nan])
def test_stays_where_a_slope_is_infinite(slope: float) -> None:
    body = "r = Relu(x) n = Neg(x) q = Relu(n) m = Mul(q, w) y = Add(r, m)"
    text = f"g (float[n,3] x) => (float[n,3] y) {{ {body} }}"
    stays(text, FUSE_RECTIFIERS, weights={"w": np.array([1, slope, 2], np.float32)})


def test_inside_an_if_body() -> None:
    text = (
        "g (bool b, float[n,3] x) => (float[n,3] y) <float a = {{0.25}}> {{ y = If (b) <then_branch = t () =>"
        " (float[n,3] u) {{ {} }}, else_branch = f () => (float[n,3] w) {{ w = Neg(x) }}> }}"
    )
    after = text.format("u = LeakyRelu<alpha=0.25>(x)")
    becomes(text.format("m = Mul(x, a) u = Max(x, m)"), after, FUSE_RECTIFIERS)


@given(k=st.floats(-2, 2, width=16).filter(lambda k: abs(k) > 0.01))
def test_any_slope(k: float) -> None:
    before = f"{G} <float k = {{{k}}}> {{ m = Mul(x, k) y = Max(x, m) }}"
    if 0 < k <= 1:
        becomes(before, f"{G} {{ y = LeakyRelu<alpha={k}>(x) }}", FUSE_RECTIFIERS)
    else:
        stays(before, FUSE_RECTIFIERS)
