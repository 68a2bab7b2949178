"""Fusion of HardSigmoid and HardSwish."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.fusion import activations
from rewriting import apply_passes, becomes, cases, load, op_types, require_equivalent, stays

FUSE_HARD_ACTIVATIONS = rule_pass(activations, "fuse-hard-activations")

G = "g (float[n,3] x) => (float[n,3] y)"
C = (
    "<float zero = {0}, float one = {1}, float half = {0.5}, float fifth = {0.2}, float three = {3}, float six = {6},"
    " float sixth = {0.16666667}, float five = {5}, float minus = {-3}>"
)
SHIFTED = "a = Add(x, three) b = Clip(a, zero, six)"
SIXTH = "alpha=0.1666666716337204, beta=0.5"


@cases(
    ("before", "after", "opset"),
    {
        "divided": (f"{SHIFTED} y = Div(b, six)", f"y = HardSigmoid<{SIXTH}>(x)", 13),
        "multiplied": (f"{SHIFTED} y = Mul(b, sixth)", f"y = HardSigmoid<{SIXTH}>(x)", 13),
        "multiplied from the left": (f"{SHIFTED} y = Mul(sixth, b)", f"y = HardSigmoid<{SIXTH}>(x)", 13),
        "by Sub": ("a = Sub(x, minus) b = Clip(a, zero, six) y = Div(b, six)", f"y = HardSigmoid<{SIXTH}>(x)", 13),
        "keras": (
            "a = Mul(x, fifth) b = Add(a, half) y = Clip(b, zero, one)",
            "y = HardSigmoid<alpha=0.2, beta=0.5>(x)",
            17,
        ),
        "shift only": ("b = Add(half, x) y = Clip(b, zero, one)", "y = HardSigmoid<alpha=1.0, beta=0.5>(x)", 11),
        "scale only": ("b = Div(x, five) y = Clip(b, zero, one)", "y = HardSigmoid<alpha=0.2, beta=0.0>(x)", 11),
        "no line": ("b = Clip(x, zero, six) y = Div(b, six)", "y = HardSigmoid<alpha=0.16666667, beta=0.0>(x)", 11),
        "swish of the quotient": (f"{SHIFTED} c = Div(b, six) y = Mul(x, c)", "y = HardSwish(x)", 14),
        "swish divided": (f"{SHIFTED} c = Mul(x, b) y = Div(c, six)", "y = HardSwish(x)", 14),
        "swish multiplied": (f"{SHIFTED} c = Mul(b, x) y = Mul(c, sixth)", "y = HardSwish(x)", 22),
        "swish, other order": (f"{SHIFTED} c = Mul(b, x) y = Mul(sixth, c)", "y = HardSwish(x)", 14),
        "swish before it has a name": (
            f"{SHIFTED} c = Mul(x, b) y = Div(c, six)",
            "a = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(x, a)",
            13,
        ),
        "half named": ("a = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(a, x)", "y = HardSwish(x)", 14),
    },
)
def test_becomes(before: str, after: str, opset: int) -> None:
    becomes(f"{G} {C} {{ {before} }}", f"{G} {C} {{ {after} }}", FUSE_HARD_ACTIVATIONS, opset=opset)


def test_attributes_of_older_opsets() -> None:
    before = f"{G} {C} {{ a = Add(x, three) b = Clip<min=0.0, max=6.0>(a) y = Div(b, six) }}"
    becomes(before, f"{G} {C} {{ y = HardSigmoid<alpha=0.16666667, beta=0.5>(x) }}", FUSE_HARD_ACTIVATIONS, opset=7)


def test_half_precision() -> None:
    weights = {"zero": np.float16(0), "three": np.float16(3), "six": np.float16(6)}
    before = f"g (float16[n,3] x) => (float16[n,3] y) {{ {SHIFTED} c = Mul(x, b) y = Div(c, six) }}"
    after = "g (float16[n,3] x) => (float16[n,3] y) { y = HardSwish(x) }"
    becomes(before, after, FUSE_HARD_ACTIVATIONS, opset=14, weights=weights)


@cases(
    ("body", "after"),
    {
        "six": ("a = Add(x, three) b = Clip(a, low, high) y = Div(b, high)", f"y = HardSigmoid<{SIXTH}>(x)"),
        "swish": ("a = Add(x, three) b = Clip(a, low, high) c = Mul(x, b) y = Div(c, six)", "y = HardSwish(x)"),
    },
)
def test_bounds_of_rank_1(body: str, after: str) -> None:
    constants = f"{C[:-1]}, float[1] low = {{0}}, float[1] high = {{6}}>"
    becomes(f"{G} {constants} {{ {body} }}", f"{G} {C} {{ {after} }}", FUSE_HARD_ACTIVATIONS)


def test_swish_with_other_bounds_stays() -> None:
    body = "a = Add(x, three) b = Clip(a, zero, five) c = Mul(x, b) y = Div(c, six)"
    stays(f"{G} {C} {{ {body} }}", FUSE_HARD_ACTIVATIONS)


@cases(
    ("body", "opset"),
    {
        "a Clip alone": ("y = Clip(x, zero, one)", 17),
        "another height": ("a = Add(x, three) y = Clip(a, zero, six)", 17),
        "another floor": ("a = Add(x, three) y = Clip(a, minus, one)", 17),
        "no ceiling": ("a = Add(x, three) y = Clip(a, zero)", 17),
        "no floor": ("a = Add(x, three) y = Clip(a, , one)", 17),
        "divided by less": (f"{SHIFTED} y = Div(b, three)", 17),
        "upside down": (f"{SHIFTED} y = Div(six, b)", 17),
        "multiplied instead of divided": (f"{SHIFTED} y = Mul(b, six)", 17),
        "not a constant": ("a = Add(x, x) y = Clip(a, zero, one)", 17),
        "the line is read elsewhere": ("a = Add(x, half) b = Clip(a, zero, one) y = Add(a, b)", 17),
        "swish divided by less": (f"{SHIFTED} c = Mul(x, b) y = Div(c, three)", 17),
        "swish shifted further": ("a = Add(x, five) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)", 17),
        "mirrored": ("n = Neg(x) a = Add(n, three) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)", 17),
        "another slope": ("a = HardSigmoid<alpha=0.2, beta=0.5>(x) y = Mul(a, x)", 17),
        "older opset": ("a = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(a, x)", 13),
        "of another value": ("n = Neg(x) a = HardSigmoid<alpha=0.16666667, beta=0.5>(n) y = Mul(a, x)", 14),
    },
)
def test_stays(body: str, opset: int) -> None:
    stays(f"{G} {C} {{ {body} }}", FUSE_HARD_ACTIVATIONS, opset=opset)


@cases(
    "text",
    {
        "doubles": (
            "g (double[n,3] x) => (double[n,3] y) <double h = {0.5}, double zero = {0}, double one = {1}>"
            " { a = Add(x, h) y = Clip(a, zero, one) }"
        ),
        "integers": (
            "g (int32[n,3] x) => (int32[n,3] y) <int32 h = {2}, int32 zero = {0}, int32 one = {1}>"
            " { a = Add(x, h) y = Clip(a, zero, one) }"
        ),
        "several shifts": (
            "g (float[n,3] x) => (float[n,3] y) <float[3] h = {0.5, 0.25, 0.5}, float zero = {0}, float one = {1}>"
            " { a = Add(x, h) y = Clip(a, zero, one) }"
        ),
        "the shift adds a dim": (
            "g (float[3] x) => (float[1,3] y) <float[1,1] h = {0.5}, float zero = {0}, float one = {1}>"
            " { a = Add(x, h) y = Clip(a, zero, one) }"
        ),
        "overridable initializer": (
            "g (float[n,3] x, float one = {1}) => (float[n,3] y) <float h = {0.5}, float zero = {0}>"
            " { a = Add(x, h) y = Clip(a, zero, one) }"
        ),
        "inner value is a graph output": (
            f"g (float[n,3] x) => (float[n,3] y, float[n,3] b) {C} {{ {SHIFTED} y = Div(b, six) }}"
        ),
        "the line is a graph output": (
            f"g (float[n,3] x) => (float[n,3] y, float[n,3] a) {C} {{ a = Add(x, half) y = Clip(a, zero, one) }}"
        ),
    },
)
def test_stays_elsewhere(text: str) -> None:
    stays(text, FUSE_HARD_ACTIVATIONS)


@given(a=st.floats(-2, 2, width=16).filter(lambda a: abs(a) > 0.01), b=st.floats(-2, 2, width=16))
def test_any_line(a: float, b: float) -> None:
    model = load(
        f"g (float[n,3] x) => (float[n,3] y) <float a = {{{a}}}, float b = {{{b}}}, float o = {{0}}, float i = {{1}}>"
        " { s = Mul(a, x) t = Add(s, b) y = Clip(t, o, i) }"
    )
    after = to_onnx(apply_passes(model, FUSE_HARD_ACTIVATIONS)[0])
    assert op_types(after) == ["HardSigmoid"]
    require_equivalent(model, after)
