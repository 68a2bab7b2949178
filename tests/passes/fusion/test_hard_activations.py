"""Fusion of HardSigmoid and HardSwish."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.fusion import activations
from rewriting import apply_passes, becomes, load, op_types, require_equivalent, stays

FUSE_HARD_ACTIVATIONS = rule_pass(activations, "fuse-hard-activations")

G = "g (float[n,3] x) => (float[n,3] y)"
C = (
    "<float zero = {0}, float one = {1}, float half = {0.5}, float fifth = {0.2}, float three = {3}, float six = {6},"
    " float sixth = {0.16666667}, float five = {5}, float minus = {-3}>"
)
SHIFTED = "a = Add(x, three) b = Clip(a, zero, six)"
SIXTH = "alpha=0.1666666716337204, beta=0.5"


@pytest.mark.parametrize(
    ("before", "after", "opset"),
    [
        pytest.param(f"{SHIFTED} y = Div(b, six)", f"y = HardSigmoid<{SIXTH}>(x)", 13, id="divided"),
        pytest.param(f"{SHIFTED} y = Mul(b, sixth)", f"y = HardSigmoid<{SIXTH}>(x)", 13, id="multiplied"),
        pytest.param(f"{SHIFTED} y = Mul(sixth, b)", f"y = HardSigmoid<{SIXTH}>(x)", 13, id="multiplied from the left"),
        pytest.param(
            "a = Sub(x, minus) b = Clip(a, zero, six) y = Div(b, six)", f"y = HardSigmoid<{SIXTH}>(x)", 13, id="by Sub"
        ),
        pytest.param(
            "a = Mul(x, fifth) b = Add(a, half) y = Clip(b, zero, one)",
            "y = HardSigmoid<alpha=0.2, beta=0.5>(x)",
            17,
            id="keras",
        ),
        pytest.param(
            "b = Add(half, x) y = Clip(b, zero, one)", "y = HardSigmoid<alpha=1.0, beta=0.5>(x)", 11, id="shift only"
        ),
        pytest.param(
            "b = Div(x, five) y = Clip(b, zero, one)", "y = HardSigmoid<alpha=0.2, beta=0.0>(x)", 11, id="scale only"
        ),
        pytest.param(
            "b = Clip(x, zero, six) y = Div(b, six)", "y = HardSigmoid<alpha=0.16666667, beta=0.0>(x)", 11, id="no line"
        ),
        pytest.param(f"{SHIFTED} c = Div(b, six) y = Mul(x, c)", "y = HardSwish(x)", 14, id="swish of the quotient"),
        pytest.param(f"{SHIFTED} c = Mul(x, b) y = Div(c, six)", "y = HardSwish(x)", 14, id="swish divided"),
        pytest.param(f"{SHIFTED} c = Mul(b, x) y = Mul(c, sixth)", "y = HardSwish(x)", 22, id="swish multiplied"),
        pytest.param(f"{SHIFTED} c = Mul(b, x) y = Mul(sixth, c)", "y = HardSwish(x)", 14, id="swish, other order"),
        pytest.param(
            f"{SHIFTED} c = Mul(x, b) y = Div(c, six)",
            "a = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(x, a)",
            13,
            id="swish before it has a name",
        ),
        pytest.param(
            "a = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(a, x)", "y = HardSwish(x)", 14, id="half named"
        ),
    ],
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


@pytest.mark.parametrize(
    ("body", "after"),
    [
        pytest.param(
            "a = Add(x, three) b = Clip(a, low, high) y = Div(b, high)", f"y = HardSigmoid<{SIXTH}>(x)", id="six"
        ),
        pytest.param(
            "a = Add(x, three) b = Clip(a, low, high) c = Mul(x, b) y = Div(c, six)", "y = HardSwish(x)", id="swish"
        ),
    ],
)
def test_bounds_of_rank_1(body: str, after: str) -> None:
    constants = f"{C[:-1]}, float[1] low = {{0}}, float[1] high = {{6}}>"
    becomes(f"{G} {constants} {{ {body} }}", f"{G} {C} {{ {after} }}", FUSE_HARD_ACTIVATIONS)


def test_swish_with_other_bounds_stays() -> None:
    body = "a = Add(x, three) b = Clip(a, zero, five) c = Mul(x, b) y = Div(c, six)"
    stays(f"{G} {C} {{ {body} }}", FUSE_HARD_ACTIVATIONS)


@pytest.mark.parametrize(
    ("body", "opset"),
    [
        pytest.param("y = Clip(x, zero, one)", 17, id="a Clip alone"),
        pytest.param("a = Add(x, three) y = Clip(a, zero, six)", 17, id="another height"),
        pytest.param("a = Add(x, three) y = Clip(a, minus, one)", 17, id="another floor"),
        pytest.param("a = Add(x, three) y = Clip(a, zero)", 17, id="no ceiling"),
        pytest.param("a = Add(x, three) y = Clip(a, , one)", 17, id="no floor"),
        pytest.param(f"{SHIFTED} y = Div(b, three)", 17, id="divided by less"),
        pytest.param(f"{SHIFTED} y = Div(six, b)", 17, id="upside down"),
        pytest.param(f"{SHIFTED} y = Mul(b, six)", 17, id="multiplied instead of divided"),
        pytest.param("a = Add(x, x) y = Clip(a, zero, one)", 17, id="not a constant"),
        pytest.param("a = Add(x, half) b = Clip(a, zero, one) y = Add(a, b)", 17, id="the line is read elsewhere"),
        pytest.param(f"{SHIFTED} c = Mul(x, b) y = Div(c, three)", 17, id="swish divided by less"),
        pytest.param(
            "a = Add(x, five) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)", 17, id="swish shifted further"
        ),
        pytest.param(
            "n = Neg(x) a = Add(n, three) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)", 17, id="mirrored"
        ),
        pytest.param("a = HardSigmoid<alpha=0.2, beta=0.5>(x) y = Mul(a, x)", 17, id="another slope"),
        pytest.param("a = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(a, x)", 13, id="older opset"),
        pytest.param(
            "n = Neg(x) a = HardSigmoid<alpha=0.16666667, beta=0.5>(n) y = Mul(a, x)", 14, id="of another value"
        ),
    ],
)
def test_stays(body: str, opset: int) -> None:
    stays(f"{G} {C} {{ {body} }}", FUSE_HARD_ACTIVATIONS, opset=opset)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "g (double[n,3] x) => (double[n,3] y) <double h = {0.5}, double zero = {0}, double one = {1}>"
            " { a = Add(x, h) y = Clip(a, zero, one) }",
            id="doubles",
        ),
        pytest.param(
            "g (int32[n,3] x) => (int32[n,3] y) <int32 h = {2}, int32 zero = {0}, int32 one = {1}>"
            " { a = Add(x, h) y = Clip(a, zero, one) }",
            id="integers",
        ),
        pytest.param(
            "g (float[n,3] x) => (float[n,3] y) <float[3] h = {0.5, 0.25, 0.5}, float zero = {0}, float one = {1}>"
            " { a = Add(x, h) y = Clip(a, zero, one) }",
            id="several shifts",
        ),
        pytest.param(
            "g (float[3] x) => (float[1,3] y) <float[1,1] h = {0.5}, float zero = {0}, float one = {1}>"
            " { a = Add(x, h) y = Clip(a, zero, one) }",
            id="the shift adds a dim",
        ),
        pytest.param(
            "g (float[n,3] x, float one = {1}) => (float[n,3] y) <float h = {0.5}, float zero = {0}>"
            " { a = Add(x, h) y = Clip(a, zero, one) }",
            id="overridable initializer",
        ),
        pytest.param(
            f"g (float[n,3] x) => (float[n,3] y, float[n,3] b) {C} {{ {SHIFTED} y = Div(b, six) }}",
            id="inner value is a graph output",
        ),
        pytest.param(
            f"g (float[n,3] x) => (float[n,3] y, float[n,3] a) {C} {{ a = Add(x, half) y = Clip(a, zero, one) }}",
            id="the line is a graph output",
        ),
    ],
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
