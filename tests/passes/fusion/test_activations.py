"""Fusion of smooth activations."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import activations
from rewriting import becomes, cases, stays

FUSE_ACTIVATIONS = rule_pass(activations, "fuse-activations")
FUSE_SWISH = rule_pass(activations, "fuse-swish")

G = "g (float[n,3] x) => (float[n,3] y)"
C = "<float one = {1}, float[1] ones = {1}, float[2] pair = {1, 1}, float two = {2}, float k = {1.5}>"
SIGMOID = "m = Neg(x) e = Exp(m) s = Add(e, one)"


@cases(
    ("before", "after", "opset"),
    {
        "sigmoid by Reciprocal": (f"{SIGMOID} y = Reciprocal(s)", "y = Sigmoid(x)", 17),
        "sigmoid by Div": (f"{SIGMOID} y = Div(one, s)", "y = Sigmoid(x)", 17),
        "sigmoid at 7": ("m = Neg(x) e = Exp(m) s = Add(ones, e) y = Div(one, s)", "y = Sigmoid(x)", 7),
        "softplus": ("t = Tanh(x) e = Exp(t) s = Add(e, one) y = Log(s)", "t = Tanh(x) y = Softplus(t)", 17),
        "softplus at 7": ("t = Tanh(x) e = Exp(t) s = Add(one, e) y = Log(s)", "t = Tanh(x) y = Softplus(t)", 7),
        "softsign": ("a = Abs(x) s = Add(a, one) y = Div(x, s)", "y = Softsign(x)", 17),
        "softsign at 22": ("a = Abs(x) s = Add(ones, a) y = Div(x, s)", "y = Softsign(x)", 22),
        "mish": ("a = Softplus(x) b = Tanh(a) y = Mul(x, b)", "y = Mish(x)", 18),
        "mish, other order": ("a = Softplus(x) b = Tanh(a) y = Mul(b, x)", "y = Mish(x)", 25),
        "mish all spelled out": (
            "t = Tanh(x) e = Exp(t) s = Add(e, one) l = Log(s) b = Tanh(l) y = Mul(t, b)",
            "t = Tanh(x) y = Mish(t)",
            18,
        ),
        "swish": ("a = Sigmoid(x) y = Mul(x, a)", "y = Swish<alpha=1.0>(x)", 24),
        "swish, other order": ("a = Sigmoid(x) y = Mul(a, x)", "y = Swish<alpha=1.0>(x)", 24),
        "scaled swish": ("b = Mul(x, k) a = Sigmoid(b) y = Mul(x, a)", "y = Swish<alpha=1.5>(x)", 24),
        "halved swish": ("b = Div(x, two) a = Sigmoid(b) y = Mul(x, a)", "y = Swish<alpha=0.5>(x)", 24),
    },
)
def test_becomes(before: str, after: str, opset: int) -> None:
    becomes(f"{G} {C} {{ {before} }}", f"{G} {C} {{ {after} }}", FUSE_ACTIVATIONS, FUSE_SWISH, opset=opset)


@cases(
    ("before", "after", "opset"),
    {
        "sigmoid": (f"{SIGMOID} y = Reciprocal(s)", "y = Sigmoid(x)", 17),
        "softsign": ("a = Abs(x) s = Add(a, one) y = Div(x, s)", "y = Softsign(x)", 17),
        "mish": ("a = Softplus(x) b = Tanh(a) y = Mul(x, b)", "y = Mish(x)", 18),
        "swish": ("a = Sigmoid(x) y = Mul(x, a)", "y = Swish<alpha=1.0>(x)", 24),
    },
)
def test_half_precision_becomes(before: str, after: str, opset: int) -> None:
    g = "g (float16[n,3] x) => (float16[n,3] y)"
    weights = {"one": np.float16(1)}
    becomes(f"{g} {{ {before} }}", f"{g} {{ {after} }}", FUSE_ACTIVATIONS, FUSE_SWISH, opset=opset, weights=weights)


@cases(
    ("before", "after", "opset"),
    {
        "sigmoid": (f"{SIGMOID} y = Reciprocal(s)", "y = Sigmoid(x)", 17),
        "swish": ("a = Sigmoid(x) y = Mul(x, a)", "y = Swish<alpha=1.0>(x)", 24),
    },
)
def test_doubles_become(before: str, after: str, opset: int) -> None:
    g = "g (double[n,3] x) => (double[n,3] y) <double one = {1}>"
    becomes(f"{g} {{ {before} }}", f"{g} {{ {after} }}", FUSE_ACTIVATIONS, FUSE_SWISH, opset=opset)


@cases(
    ("before", "after", "opset"),
    {
        "no elements": (
            "g (float[0,3] x) => (float[n,3] y) { a = Sigmoid(x) y = Mul(x, a) }",
            "g (float[0,3] x) => (float[n,3] y) { y = Swish<alpha=1.0>(x) }",
            24,
        ),
        "the scaled input is an output as well": (
            (
                "g (float[n,3] x) => (float[n,3] y, float[n,3] b) <float k = {1.5}>"
                " { b = Mul(x, k) a = Sigmoid(b) y = Mul(x, a) }"
            ),
            (
                "g (float[n,3] x) => (float[n,3] y, float[n,3] b) <float k = {1.5}>"
                " { b = Mul(x, k) y = Swish<alpha=1.5>(x) }"
            ),
            24,
        ),
        "inside an If body": (
            (
                "g (bool b, float[n,3] x) => (float[n,3] y) { y = If (b) <then_branch = t () => (float[n,3] u)"
                " { a = Sigmoid(x) u = Mul(x, a) }, else_branch = f () => (float[n,3] w) { w = Neg(x) }> }"
            ),
            (
                "g (bool b, float[n,3] x) => (float[n,3] y) { y = If (b) <then_branch = t () => (float[n,3] u)"
                " { u = Swish<alpha=1.0>(x) }, else_branch = f () => (float[n,3] w) { w = Neg(x) }> }"
            ),
            24,
        ),
    },
)
def test_becomes_elsewhere(before: str, after: str, opset: int) -> None:
    becomes(before, after, FUSE_ACTIVATIONS, FUSE_SWISH, opset=opset)


@cases(
    ("body", "opset"),
    {
        "sigmoid plus 2": ("m = Neg(x) e = Exp(m) s = Add(e, two) y = Reciprocal(s)", 17),
        "two over it": (f"{SIGMOID} y = Div(two, s)", 17),
        "x over it": (f"{SIGMOID} y = Div(x, s)", 17),
        "no Neg": ("e = Exp(x) s = Add(e, one) y = Reciprocal(s)", 17),
        "shared inner value": (f"{SIGMOID} a = Reciprocal(s) y = Mul(a, e)", 17),
        "softplus plus 2": ("e = Exp(x) s = Add(e, two) y = Log(s)", 17),
        "softplus minus 1": ("e = Exp(x) s = Sub(e, one) y = Log(s)", 17),
        "softsign of another value": ("n = Neg(x) a = Abs(n) s = Add(a, one) y = Div(x, s)", 17),
        "softsign upside down": ("a = Abs(x) s = Add(a, one) y = Div(s, x)", 17),
        "softsign plus 2": ("a = Abs(x) s = Add(a, two) y = Div(x, s)", 17),
        "mish at an older opset": ("a = Softplus(x) b = Tanh(a) y = Mul(x, b)", 17),
        "no chain": ("a = Softplus(x) b = Tanh(x) y = Mul(a, b)", 18),
        "mish of another value": ("a = Softplus(x) b = Tanh(a) n = Neg(x) y = Mul(n, b)", 18),
        "swish at an older opset": ("a = Sigmoid(x) y = Mul(x, a)", 23),
        "swish at a newer opset": ("a = Sigmoid(x) y = Mul(x, a)", 25),
        "swish of another value": ("n = Neg(x) a = Sigmoid(n) r = Relu(x) y = Mul(r, a)", 24),
        "swish of a shifted value": ("b = Add(x, k) a = Sigmoid(b) y = Mul(x, a)", 24),
        "shared Sigmoid": ("a = Sigmoid(x) b = Mul(x, a) y = Add(a, b)", 24),
        "the same value twice": ("a = Sigmoid(x) y = Mul(a, a)", 24),
    },
)
def test_stays(body: str, opset: int) -> None:
    stays(f"{G} {C} {{ {body} }}", FUSE_ACTIVATIONS, FUSE_SWISH, opset=opset)


@cases(
    ("text", "opset"),
    {
        "a constant adds a dim": (
            f"g (float x) => (float[n] y) {C} {{ m = Neg(x) e = Exp(m) s = Add(e, ones) y = Reciprocal(s) }}",
            17,
        ),
        "a constant stretches it": (
            f"g (float[1] x) => (float[n] y) {C} {{ m = Neg(x) e = Exp(m) s = Add(e, pair) y = Reciprocal(s) }}",
            17,
        ),
        "overridable initializer": (
            "g (float[n,3] x, float one = {1}) => (float[n,3] y) { e = Abs(x) s = Add(e, one) y = Div(x, s) }",
            17,
        ),
        "inner value is a graph output": (
            f"g (float[n,3] x) => (float[n,3] y, float[n,3] s) {C} {{ {SIGMOID} y = Reciprocal(s) }}",
            17,
        ),
        "no kernel for doubles": (
            "g (double[n,3] x) => (double[n,3] y) <double one = {1}> { e = Abs(x) s = Add(e, one) y = Div(x, s) }",
            17,
        ),
        "a double does not fit alpha": (
            "g (double[n,3] x) => (double[n,3] y) <double k = {1.1}> { b = Mul(x, k) a = Sigmoid(b) y = Mul(x, a) }",
            24,
        ),
        "integers": (
            "g (int32[n,3] x) => (int32[n,3] y) <int32 one = {1}> { e = Abs(x) s = Add(e, one) y = Div(x, s) }",
            17,
        ),
    },
)
def test_stays_elsewhere(text: str, opset: int) -> None:
    stays(text, FUSE_ACTIVATIONS, FUSE_SWISH, opset=opset)


@given(k=st.floats(-3, 3, width=16).filter(lambda k: abs(k) > 1e-3))
def test_any_alpha(k: float) -> None:
    g = f"g (float[16,3] x) => (float[16,3] y) <float k = {{{k}}}>"
    before = f"{g} {{ b = Mul(k, x) a = Sigmoid(b) y = Mul(x, a) }}"
    becomes(before, f"{g} {{ y = Swish<alpha={k}>(x) }}", FUSE_ACTIVATIONS, FUSE_SWISH, opset=24)
