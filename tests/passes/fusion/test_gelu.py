"""Gelu fusion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import activations
from rewriting import becomes, cases, stays

FUSE_GELU = rule_pass(activations, "fuse-gelu")

G = "g (float[n,3] x) => (float[n,3] y)"
C = (
    "<float r = {1.4142135}, float q = {0.70710677}, float one = {1}, float half = {0.5}, float two = {2},"
    " float three = {3}, float c = {0.044715}, float s = {0.79788456}, float cs = {0.035677408}>"
)
FIXED = "g (float[64,3] x) => (float[64,3] y)"  # 1 + tanh(x) cancels where all numbers are negative
ERF = "a = Div(x, r) e = Erf(a) p = Add(e, one)"
TANH = "d = Mul(x, x) k = Mul(d, x) i = Mul(k, c) j = Add(i, x) a = Mul(j, s) e = Tanh(a) p = Add(e, one)"
GELU = f"{G} {C} {{ y = Gelu(x) }}"
FAST = f'{G} {C} {{ y = Gelu<approximate="tanh">(x) }}'


@cases(
    "body",
    {
        "half last": (f"{ERF} m = Mul(x, p) y = Mul(m, half)"),
        "half last, other order": (f"{ERF} m = Mul(p, x) y = Mul(half, m)"),
        "half first": (f"{ERF} m = Mul(x, half) y = Mul(m, p)"),
        "half first, other order": (f"{ERF} m = Mul(half, x) y = Mul(p, m)"),
        "divided by 2": (f"{ERF} m = Div(x, two) y = Mul(m, p)"),
        "half of the curve": (f"{ERF} m = Mul(p, half) y = Mul(x, m)"),
        "times 1/sqrt(2)": ("a = Mul(q, x) e = Erf(a) p = Add(one, e) m = Mul(x, p) y = Mul(m, half)"),
        "by Sum": ("a = Div(x, r) e = Erf(a) p = Sum(e, one) m = Mul(x, p) y = Mul(half, m)"),
    },
)
def test_erf_becomes(body: str) -> None:
    becomes(f"{G} {C} {{ {body} }}", GELU, FUSE_GELU, opset=20)


@cases(
    "body",
    {
        "half last": (f"{TANH} m = Mul(x, p) y = Mul(m, half)"),
        "half first": (f"{TANH} m = Mul(x, half) y = Mul(m, p)"),
        "half of the curve": (f"{TANH} m = Mul(p, half) y = Mul(m, x)"),
        "by Pow": (
            "k = Pow(x, three) i = Mul(c, k) j = Add(x, i) a = Mul(s, j) e = Tanh(a) p = Add(one, e)"
            " m = Mul(half, x) y = Mul(m, p)"
        ),
        "factored": (
            "t = Mul(x, s) i = Mul(x, c) j = Mul(i, x) k = Add(j, one) a = Mul(t, k) e = Tanh(a) p = Add(e, one)"
            " m = Mul(x, half) y = Mul(m, p)"
        ),
        "by Sum": (
            "k = Pow(x, three) i = Mul(c, k) j = Sum(x, i) a = Mul(s, j) e = Tanh(a) p = Sum(one, e)"
            " m = Mul(p, x) y = Mul(half, m)"
        ),
        "multiplied out": (
            "t = Mul(x, s) k = Pow(x, three) j = Mul(k, cs) a = Add(t, j) e = Tanh(a) p = Add(e, one)"
            " m = Mul(x, half) y = Mul(m, p)"
        ),
    },
)
def test_tanh_becomes(body: str) -> None:
    becomes(f"{FIXED} {C} {{ {body} }}", FAST.replace(G, FIXED), FUSE_GELU, opset=20)


@cases(
    ("before", "after", "opset"),
    {
        "no elements": (
            f"g (float[0,3] x) => (float[n,3] y) {C} {{ {ERF} m = Mul(x, p) y = Mul(m, half) }}",
            "g (float[0,3] x) => (float[n,3] y) { y = Gelu(x) }",
            20,
        ),
        "the argument of Erf is an output as well": (
            f"g (float[n,3] x) => (float[n,3] y, float[n,3] a) {C} {{ {ERF} m = Mul(x, p) y = Mul(m, half) }}",
            f"g (float[n,3] x) => (float[n,3] y, float[n,3] a) {C} {{ a = Div(x, r) y = Gelu(x) }}",
            20,
        ),
        "inside an If body": (
            (
                f"g (bool b, float[n,3] x) => (float[n,3] y) {C} {{ y = If (b) <then_branch = t () => (float[n,3] u)"
                f" {{ {ERF} m = Mul(x, p) u = Mul(m, half) }}, else_branch = f () => (float[n,3] w) {{ w = Neg(x)"
                " }> }"
            ),
            (
                "g (bool b, float[n,3] x) => (float[n,3] y) { y = If (b) <then_branch = t () => (float[n,3] u)"
                " { u = Gelu(x) }, else_branch = f () => (float[n,3] w) { w = Neg(x) }> }"
            ),
            20,
        ),
    },
)
def test_becomes_elsewhere(before: str, after: str, opset: int) -> None:
    becomes(before, after, FUSE_GELU, opset=opset)


@cases(
    "body",
    {
        "another root": ("a = Div(x, two) e = Erf(a) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)"),
        "upside down": ("a = Div(r, x) e = Erf(a) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)"),
        "plus 2": ("a = Div(x, r) e = Erf(a) p = Add(e, two) m = Mul(x, p) y = Mul(m, half)"),
        "times 2": ("a = Div(x, r) e = Erf(a) p = Add(e, one) m = Mul(x, p) y = Mul(m, two)"),
        "half over x": ("a = Div(x, r) e = Erf(a) p = Add(e, one) m = Div(half, x) y = Mul(m, p)"),
        "minus 1": ("a = Div(x, r) e = Erf(a) p = Sub(e, one) m = Mul(x, p) y = Mul(m, half)"),
        "of another value": ("n = Relu(x) a = Div(n, r) e = Erf(a) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)"),
        "not cubic": ("a = Mul(x, s) e = Tanh(a) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)"),
        "another cubic factor": (
            "k = Pow(x, three) i = Mul(s, k) j = Add(x, i) a = Mul(s, j) e = Tanh(a) p = Add(one, e)"
            " m = Mul(half, x) y = Mul(m, p)"
        ),
        "a square": (
            "k = Pow(x, two) i = Mul(c, k) j = Add(x, i) a = Mul(s, j) e = Tanh(a) p = Add(one, e)"
            " m = Mul(half, x) y = Mul(m, p)"
        ),
        "the quick form": ("a = Mul(x, s) e = Sigmoid(a) y = Mul(x, e)"),
        "shared inner value": (f"{ERF} t = Neg(p) m = Mul(x, p) h = Mul(m, half) y = Add(h, t)"),
    },
)
def test_stays(body: str) -> None:
    stays(f"{G} {C} {{ {body} }}", FUSE_GELU, opset=20)


@cases(
    ("text", "opset"),
    {
        "older opset": (f"{G} {C} {{ {ERF} m = Mul(x, p) y = Mul(m, half) }}", 19),
        "inner value is a graph output": (
            f"g (float[n,3] x) => (float[n,3] y, float[n,3] e) {C} {{ {ERF} m = Mul(x, p) y = Mul(m, half) }}",
            20,
        ),
        "a constant adds a dim": (
            (
                f"g (float[3] x) => (float[1,3] y) {C.replace('float half = {0.5}', 'float[1,1] half = {0.5}')}"
                f" {{ {ERF} m = Mul(x, p) y = Mul(m, half) }}"
            ),
            20,
        ),
        "several constants": (
            (
                f"g (float[n,3] x) => (float[n,3] y)"
                f" {C.replace('float half = {0.5}', 'float[3] half = {0.5, 0.5, 0.4}')}"
                f" {{ {ERF} m = Mul(x, p) y = Mul(m, half) }}"
            ),
            20,
        ),
        "overridable initializer": (
            (
                f"g (float[n,3] x, float half = {{0.5}}) => (float[n,3] y) {C.replace(' float half = {0.5},', '')}"
                f" {{ {ERF} m = Mul(x, p) y = Mul(m, half) }}"
            ),
            20,
        ),
    },
)
def test_stays_elsewhere(text: str, opset: int) -> None:
    stays(text, FUSE_GELU, opset=opset)


def test_half_precision() -> None:
    numbers = {"r": 1.4142135, "one": 1, "half": 0.5, "c": 0.044715, "s": 0.79788456}
    weights = {name: np.float16(n) for name, n in numbers.items()}
    text = "g (float16[n,3] x) => (float16[n,3] y) {{ {} }}"
    for spelled, named in ((ERF, "y = Gelu(x)"), (TANH, 'y = Gelu<approximate="tanh">(x)')):
        before = f"{spelled} m = Mul(x, p) y = Mul(m, half)"
        becomes(text.format(before), text.format(named), FUSE_GELU, opset=20, weights=weights)


def test_sqrt_2_to_five_digits_is_another_function() -> None:
    # On negative inputs, the two differ by 36 epsilons of the largest result, and verification allows 16.
    rounded = C.replace("1.4142135", "1.41421")
    stays(f"{G} {rounded} {{ {ERF} m = Mul(x, p) y = Mul(m, half) }}", FUSE_GELU, opset=20)


def test_sqrt_2_to_five_digits_is_the_same_half() -> None:
    weights = {name: np.float16(n) for name, n in {"r": 1.41421, "one": 1, "half": 0.5}.items()}
    text = "g (float16[n,3] x) => (float16[n,3] y) {{ {} }}"
    before = text.format(f"{ERF} m = Mul(x, p) y = Mul(m, half)")
    becomes(before, text.format("y = Gelu(x)"), FUSE_GELU, opset=20, weights=weights)


@pytest.mark.parametrize(("curve", "runs"), [(ERF, False), (TANH, True)])
def test_doubles_have_no_kernel(curve: str, runs: bool) -> None:
    constants = C.replace("float", "double")
    text = f"g (double[n,3] x) => (double[n,3] y) {constants} {{ {curve} m = Mul(x, p) y = Mul(m, half) }}"
    stays(text, FUSE_GELU, opset=20, runs=runs)


@given(k=st.sampled_from([0.5, 0.7071, 0.70710677, 0.70710678, 0.8, 1.4142135]))
def test_any_argument(k: float) -> None:
    constants = f"<float k = {{{k}}}, float one = {{1}}, float half = {{0.5}}>"
    text = f"{G} {constants} {{ a = Mul(x, k) e = Erf(a) p = Add(e, one) m = Mul(x, p) y = Mul(m, half) }}"
    if abs(k - 0.5**0.5) < 1e-6:
        becomes(text, GELU, FUSE_GELU, opset=20)
    else:
        stays(text, FUSE_GELU, opset=20)
