"""Idempotent ops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.arithmetic import no_op_arithmetic
from rewriting import apply_passes, becomes, load, op_types, require_equivalent, stays

DROP_IDEMPOTENT = rule_pass(no_op_arithmetic, "drop-idempotent")


def model(body: str, dtype: str = "float") -> str:
    return f"g ({dtype}[2,3] x, int32[2,3] i, bool[2,3] b) => ({dtype}[n,m] y) {{ {body} }}"


@pytest.mark.parametrize("dtype", ["float", "double", "float16"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("t = Floor(x) y = Floor(t)", "y = Floor(x)", id="floor of floor"),
        pytest.param("t = Ceil(x) y = Round(t)", "y = Ceil(x)", id="round of ceil"),
        pytest.param("t = Round(x) y = Floor(t)", "y = Round(x)", id="floor of round"),
        pytest.param("t = Floor(x) u = Neg(t) y = Ceil(u)", "t = Floor(x) y = Neg(t)", id="ceil of minus floor"),
        pytest.param("t = Sign(x) y = Round(t)", "y = Sign(x)", id="round of sign"),
        pytest.param("t = Sign(x) y = Sign(t)", "y = Sign(x)", id="sign of sign"),
        pytest.param("t = Abs(x) y = Abs(t)", "y = Abs(x)", id="abs of abs"),
        pytest.param("t = Neg(x) y = Abs(t)", "y = Abs(x)", id="abs of neg"),
        pytest.param("t = Neg(x) u = Abs(t) v = Neg(u) y = Abs(v)", "y = Abs(x)", id="a chain"),
        pytest.param("t = Relu(x) y = Abs(t)", "y = Relu(x)", id="abs of relu"),
        pytest.param("t = Sqrt(x) y = Abs(t)", "y = Sqrt(x)", id="abs of a root"),
        pytest.param("t = Exp(x) y = Abs(t)", "y = Exp(x)", id="abs of exp"),
        pytest.param("t = Mul(x, x) y = Abs(t)", "y = Mul(x, x)", id="abs of a square"),
    ],
)
def test_becomes(before: str, after: str, dtype: str) -> None:
    becomes(model(before, dtype), model(after, dtype), DROP_IDEMPOTENT)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("t = Cast<to=1>(i) y = Floor(t)", "y = Cast<to=1>(i)", id="of an integer"),
        pytest.param("t = Cast<to=1>(b) y = Round(t)", "y = Cast<to=1>(b)", id="of a bool"),
        pytest.param("t = Cast<to=1>(b) y = Abs(t)", "y = Cast<to=1>(b)", id="a bool is not negative"),
        pytest.param(
            "t = Floor(x) u = Transpose(t) v = Relu(u) y = Round(v)",
            "t = Floor(x) u = Transpose(t) y = Relu(u)",
            id="moved",
        ),
        pytest.param(
            "c = Constant<value_float=1.0>() t = Max(x, c) y = Abs(t)",
            "c = Constant<value_float=1.0>() y = Max(x, c)",
            id="above 0",
        ),
        pytest.param("t = Abs(x) u = Abs(t) y = Add(t, u)", "t = Abs(x) y = Add(t, t)", id="the inner one is read too"),
    ],
)
def test_becomes_of_float(before: str, after: str) -> None:
    becomes(model(before), model(after), DROP_IDEMPOTENT)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_integers(dtype: str) -> None:
    before = "t = Neg(x) u = Abs(t) y = Sign(u)"
    becomes(model(before, dtype), model("u = Abs(x) y = Sign(u)", dtype), DROP_IDEMPOTENT)


def test_abs_of_unsigned_integers() -> None:
    becomes(
        model("t = Clip(x) u = Abs(t) y = Clip(u)", "uint8"), model("t = Clip(x) y = Clip(t)", "uint8"), DROP_IDEMPOTENT
    )


@pytest.mark.parametrize("opset", [7, 13, 22])
def test_every_opset(opset: int) -> None:
    before = "t = Floor(x) u = Ceil(t) v = Neg(u) y = Abs(v)"
    becomes(model(before), model("t = Floor(x) y = Abs(t)"), DROP_IDEMPOTENT, opset=opset)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("y = Floor(x)", id="floor"),
        pytest.param("y = Abs(x)", id="abs"),
        pytest.param("y = Sign(x)", id="sign"),
        pytest.param("t = Tanh(x) y = Abs(t)", id="of a possibly negative value"),
        pytest.param("t = Floor(x) u = Sqrt(t) y = Floor(u)", id="a root of integral values"),
        pytest.param("t = Floor(x) u = Add(t, x) y = Floor(u)", id="a sum with a fraction"),
        pytest.param("t = Abs(x) y = Sign(t)", id="sign of abs"),
        pytest.param("t = Abs(x) y = Neg(t)", id="neg of abs"),
        pytest.param("t = Cast<to=11>(x) u = Floor(t) y = Cast<to=1>(u)", id="a float in another type"),
        pytest.param("t = Round(x) y = Add(t, x)", id="no second rounding"),
    ],
)
def test_stays(body: str) -> None:
    stays(model(body), DROP_IDEMPOTENT)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("g (int32[2] x) => (int32[2] y) { t = Mul(x, x) y = Abs(t) }", id="a square wraps around"),
        pytest.param(
            "g (bool c, float[2] x) => (float[n] y) { t = Abs(x) y = If (c) <"
            "then_branch = a () => (float[n] r) { u = Neg(t) r = Exp(u) }, "
            "else_branch = b () => (float[n] s) { s = Abs(x) }> }",
            id="inside an If body",
        ),
    ],
)
def test_stays_elsewhere(text: str) -> None:
    stays(text, DROP_IDEMPOTENT)


@given(
    steps=st.lists(st.sampled_from(["Floor", "Ceil", "Round", "Sign", "Abs", "Neg", "Relu"]), min_size=2, max_size=6)
)
def test_any_chain_is_equivalent(steps: list[str]) -> None:
    lines = [f"t{i} = {s}({f't{i - 1}' if i else 'x'})" for i, s in enumerate(steps)]
    before = load(model(f"{' '.join(lines)} y = Identity(t{len(steps) - 1})"))
    after = to_onnx(apply_passes(before, DROP_IDEMPOTENT)[0])
    assert len(op_types(after)) <= len(steps) + 1
    require_equivalent(before, after)
