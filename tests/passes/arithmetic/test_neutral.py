"""Neutral and absorbing operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.arithmetic import no_op_arithmetic
from rewriting import apply_passes, becomes, load, op_types, require_equivalent, stays

DROP_NEUTRAL_OPERANDS = rule_pass(no_op_arithmetic, "drop-neutral-operands")

PASSES = (DROP_NEUTRAL_OPERANDS,)


def model(body: str, dtype: str = "float", shape: str = "2,3") -> str:
    dtype = dtype.replace("float64", "double")
    return f"g ({dtype}[{shape}] x) => ({dtype}[n,m] y) {{ {body} }}"


def before(op: str) -> str:
    return f"t = {op} y = Abs(t)"


@pytest.mark.parametrize("shape", ["2,3", "a,b"])
@pytest.mark.parametrize(
    ("op", "c"),
    [
        pytest.param("Add(x, c)", 0, id="x + 0"),
        pytest.param("Add(c, x)", 0, id="0 + x"),
        pytest.param("Add(x, c)", -0.0, id="x + -0"),
        pytest.param("Sub(x, c)", 0, id="x - 0"),
        pytest.param("Sub(x, c)", -0.0, id="x - -0"),
        pytest.param("Mul(x, c)", 1, id="x * 1"),
        pytest.param("Mul(c, x)", 1, id="1 * x"),
        pytest.param("Div(x, c)", 1, id="x / 1"),
        pytest.param("Pow(x, c)", 1, id="x ** 1"),
        pytest.param("Add(x, c)", [0], id="a vector of one 0"),
        pytest.param("Mul(x, c)", [[1]], id="a matrix of one 1"),
        pytest.param("Sub(x, c)", [0, 0, 0][:1], id="a vector to subtract"),
    ],
)
def test_neutral_scalar_is_dropped(op: str, c: Any, shape: str) -> None:
    weights = {"c": np.float32(c)}
    becomes(model(before(op), shape=shape), model("y = Abs(x)", shape=shape), *PASSES, weights=weights)


@pytest.mark.parametrize(
    ("op", "c"),
    [
        pytest.param("Add(x, c)", [0, 0, 0], id="a row of zeros"),
        pytest.param("Mul(x, c)", [[1], [1]], id="a column of ones"),
        pytest.param("Div(x, c)", [[1, 1, 1], [1, 1, 1]], id="as large as x"),
        pytest.param("Add(x, c)", [0, -0.0, 0], id="zeros of either sign"),
    ],
)
def test_neutral_vector_is_dropped(op: str, c: Any) -> None:
    becomes(model(before(op)), model("y = Abs(x)"), *PASSES, weights={"c": np.float32(c)})


@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "int32", "int64", "uint8", "uint64"])
@pytest.mark.parametrize("op", ["Add(x, o)", "Sub(x, o)", "Mul(i, x)", "Div(x, i)"])
def test_every_type(op: str, dtype: str) -> None:
    number = np.array(0 if "o" in op else 1, dtype)
    weights = {"o" if "o" in op else "i": number}
    becomes(model(before(op), dtype), model("y = Abs(x)", dtype), *PASSES, weights=weights)


@pytest.mark.parametrize(("op", "c"), [("Add(x, c)", -0.0), ("Sub(x, c)", 0.0), ("Mul(x, c)", 1.0), ("Div(x, c)", 1.0)])
def test_bit_identical_rules_are_exact(op: str, c: float) -> None:
    out = becomes(
        model(before(op)), model("y = Abs(x)"), *DROP_NEUTRAL_OPERANDS.rules[:2], weights={"c": np.float32(c)}
    )
    assert len(out.graph.node) == 1


@pytest.mark.parametrize(("dtype", "exponent"), [("float", "int64"), ("double", "float"), ("int32", "float")])
def test_exponents_of_another_type(dtype: str, exponent: str) -> None:
    g = f"g ({dtype}[2,3] x) => ({dtype}[n,m] y) <{exponent} c = {{1}}>"
    becomes(f"{g} {{ t = Pow(x, c) y = Abs(t) }}", f"{g} {{ y = Abs(x) }}", *PASSES)


@pytest.mark.parametrize(
    ("body", "c"),
    [
        pytest.param("t = And(x, c) y = Not(t)", True, id="and true"),
        pytest.param("t = And(c, x) y = Not(t)", [True] * 3, id="true and"),
        pytest.param("t = Or(x, c) y = Not(t)", False, id="or false"),
        pytest.param("t = Xor(x, c) y = Not(t)", False, id="xor false"),
    ],
)
def test_logic(body: str, c: Any) -> None:
    becomes(model(body, "bool"), model("y = Not(x)", "bool"), *PASSES, weights={"c": np.array(c)})


@pytest.mark.parametrize(("op", "c"), [("BitwiseAnd(x, c)", -1), ("BitwiseOr(c, x)", 0), ("BitwiseXor(x, c)", 0)])
def test_bits(op: str, c: int) -> None:
    weights = {"c": np.int32(c)}
    becomes(model(before(op), "int32"), model("y = Abs(x)", "int32"), *PASSES, opset=18, weights=weights)


def test_bits_of_unsigned_integers() -> None:
    text = model("t = BitwiseAnd(x, c) y = BitwiseNot(t)", "uint8")
    becomes(text, model("y = BitwiseNot(x)", "uint8"), *PASSES, opset=18, weights={"c": np.uint8(255)})


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts_by_zero(direction: str) -> None:
    text = model(f't = BitShift<direction="{direction}">(x, c) y = Clip(t)', "uint32")
    becomes(text, model("y = Clip(x)", "uint32"), *PASSES, weights={"c": np.uint32(0)})


@pytest.mark.parametrize(
    ("op", "dtype", "c"),
    [
        pytest.param("And(x, c)", "bool", False, id="and false"),
        pytest.param("Or(c, x)", "bool", True, id="or true"),
        pytest.param("And(x, c)", "bool", [False] * 3, id="and a row"),
        pytest.param("Mul(x, c)", "int32", 0, id="times 0"),
        pytest.param("Mul(c, x)", "int64", [[0] * 3] * 2, id="times a matrix of 0"),
        pytest.param("BitwiseAnd(x, c)", "int32", 0, id="bits and 0"),
        pytest.param("BitwiseOr(x, c)", "int32", -1, id="bits or all"),
        pytest.param("Mul(x, c)", "int32", np.zeros((4, 1, 1)), id="a constant that stretches"),
    ],
)
def test_absorbing_operand(op: str, dtype: str, c: Any) -> None:
    data = np.array(c, dtype)
    text = f"g ({dtype}[2,3] x) => ({dtype}[{'n,m,k' if data.ndim == 3 else 'n,m'}] y) {{ y = {op} }}"
    out = apply_passes(load(text, 18, {"c": data}), *PASSES)[0]
    assert not op_types(to_onnx(out))
    require_equivalent(load(text, 18, {"c": data}), to_onnx(out), exact=True)


@pytest.mark.parametrize("opset", [7, 13, 21, 26])
def test_every_opset(opset: int) -> None:
    body = "a = Add(x, o) b = Mul(a, i) c = Div(b, i) d = Pow(c, i) y = Neg(d)"
    weights = {"o": np.float32(0), "i": np.float32(1)}
    becomes(model(body), model("y = Neg(x)"), *PASSES, opset=opset, weights=weights, runs=opset < 26)


@pytest.mark.parametrize(
    ("body", "c"),
    [
        pytest.param("y = Add(x, c)", 1, id="x + 1"),
        pytest.param("y = Mul(x, c)", 0, id="x * 0 of floats"),
        pytest.param("y = Mul(x, c)", -1, id="x * -1"),
        pytest.param("y = Sub(c, x)", 0, id="0 - x"),
        pytest.param("y = Div(c, x)", 1, id="1 / x"),
        pytest.param("y = Pow(c, x)", 1, id="1 ** x"),
        pytest.param("y = Pow(x, c)", 0, id="x ** 0"),
        pytest.param("y = Add(x, c)", [0, 0, 1e-30], id="nearly 0"),
        pytest.param("y = Mul(x, c)", [1, 1, 1.0000001], id="nearly 1"),
        pytest.param("y = Add(x, c)", [0, np.nan, 0], id="not a number"),
        pytest.param("y = Max(x, c)", 0, id="another op"),
    ],
)
def test_stays(body: str, c: Any) -> None:
    stays(model(body), *PASSES, weights={"c": np.float32(c)})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("g (float[3] x) => (float[1,3] y) <float[1,1] c = {0}> { y = Add(x, c) }", id="raises the rank"),
        pytest.param("g (float[1,3] x) => (float[2,3] y) <float[2,1] c = {1,1}> { y = Mul(x, c) }", id="stretches"),
        pytest.param("g (float[a,3] x) => (float[n,3] y) <float[2,1] c = {1,1}> { y = Mul(x, c) }", id="may stretch"),
        pytest.param("g (float x) => (float[1] y) <float[1] c = {1}> { y = Mul(x, c) }", id="makes a scalar a vector"),
        pytest.param("g (float[1] x) => (float[0] y) <float[0] c = {}> { y = Mul(x, c) }", id="leaves nothing"),
        pytest.param("g (float[2] x, float c = {0}) => (float[2] y) { y = Add(x, c) }", id="overridable"),
        pytest.param("g (float[2] x, float c) => (float[2] y) { y = Mul(x, c) }", id="an input"),
        pytest.param("g (int64[2] x) => (int64[2] y) <int64 c = {1}> { y = Pow(x, c) }", id="powers of large integers"),
        pytest.param("g (bool[2] x) => (bool[2] y) <bool c = {1}> { y = Xor(x, c) }", id="xor true"),
        pytest.param("g (bool[a] x) => (bool[a] y) <bool c = {0}> { y = And(x, c) }", id="absorbs, of unknown size"),
        pytest.param("g (int32[40,40] x) => (int32[n,m] y) <int32 c = {0}> { y = Mul(x, c) }", id="absorbs too much"),
        pytest.param("g (int32[2] x) => (int32[2] y) <int32[2] c = {0, 1}> { y = Mul(x, c) }", id="absorbs in part"),
    ],
)
def test_stays_elsewhere(text: str) -> None:
    stays(text, *PASSES)


def test_older_broadcasting_stays() -> None:
    text = "g (float[2,3] x) => (float[2,3] y) <float[2] c = {1,1}> { y = Mul<axis=0, broadcast=1>(x, c) }"
    stays(text, *PASSES, opset=6, runs=False)


def test_inside_an_if_body() -> None:
    text = (
        "g (bool c, float[2,3] x) => (float[n,m] y) <float o = {{1}}> {{ y = If (c) <"
        "then_branch = a () => (float[n,m] r) {{ {} }}, else_branch = b () => (float[n,m] s) {{ s = Neg(x) }}> }}"
    )
    becomes(text.format("t = Mul(x, o) r = Relu(t)"), text.format("r = Relu(x)"), *PASSES)


@given(
    op=st.sampled_from(["Add", "Sub", "Mul", "Div", "Pow"]),
    number=st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0]),
    dims=st.lists(st.sampled_from([1, 2, 3]), max_size=3),
)
def test_dropped_only_if_neutral_and_same_shape(op: str, number: float, dims: list[int]) -> None:
    weights = {"c": np.full(dims, number, np.float32)}
    fits = len(dims) < 3 and all(d in {1, want} for d, want in zip(dims[::-1], (3, 2), strict=False))
    neutral = number == (0 if op in {"Add", "Sub"} else 1)
    if all(d in {1, want} for d, want in zip(dims[::-1], (3, 2), strict=False)):
        text = f"g (float[2,3] x) => (float[{'n,m' if len(dims) < 3 else 'n,m,k'}] y) {{{{ {{}} }}}}"
        if neutral and fits:
            becomes(text.format(f"t = {op}(x, c) y = Abs(t)"), text.format("y = Abs(x)"), *PASSES, weights=weights)
        else:
            stays(text.format(f"t = {op}(x, c) y = Abs(t)"), *PASSES, weights=weights)
