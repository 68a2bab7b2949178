"""Neutral and absorbing operands."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.arithmetic import no_op_arithmetic
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, load, op_types, require_equivalent, stays
from tiers import in_turn

DROP_NEUTRAL_OPERANDS = rule_pass(no_op_arithmetic, "drop-neutral-operands")

PASSES = (DROP_NEUTRAL_OPERANDS,)


def model(body: str, dtype: str = "float", shape: str = "2,3") -> str:
    dtype = dtype.replace("float64", "double")
    return f"g ({dtype}[{shape}] x) => ({dtype}[n,m] y) {{ {body} }}"


def before(op: str) -> str:
    return f"t = {op} y = Abs(t)"


@each("shape", ["2,3", "a,b"])
@each(
    ("op", "c"),
    {
        "x + 0": ("Add(x, c)", 0),
        "0 + x": ("Add(c, x)", 0),
        "x + -0": ("Add(x, c)", -0.0),
        "x - 0": ("Sub(x, c)", 0),
        "x - -0": ("Sub(x, c)", -0.0),
        "x * 1": ("Mul(x, c)", 1),
        "1 * x": ("Mul(c, x)", 1),
        "x / 1": ("Div(x, c)", 1),
        "x ** 1": ("Pow(x, c)", 1),
        "a vector of one 0": ("Add(x, c)", [0]),
        "a matrix of one 1": ("Mul(x, c)", [[1]]),
        "a vector to subtract": ("Sub(x, c)", [0, 0, 0][:1]),
    },
)
def test_neutral_scalar_is_dropped(op: str, c: Any, shape: str) -> None:
    weights = {"c": np.float32(c)}
    becomes(model(before(op), shape=shape), model("y = Abs(x)", shape=shape), *PASSES, weights=weights)


neutral = Rewrites("g ({x}) => (float[] y)", *PASSES, x="float[2,3] x")

test_neutral_vector_is_dropped = neutral.all_become("""
    a row of zeros: t = Add(x, [0.0,0.0,0.0]) y = Abs(t) => y = Abs(x)
    a column of ones: t = Mul(x, [[1.0],[1.0]]) y = Abs(t) => y = Abs(x)
    as large as x: t = Div(x, [[1.0,1.0,1.0],[1.0,1.0,1.0]]) y = Abs(t) => y = Abs(x)
    zeros of either sign: t = Add(x, [0.0,-0.0,0.0]) y = Abs(t) => y = Abs(x)
    inside an if body [x=bool c, float[2,3] x]: y = If(c) <then_branch = a () => (float[n,m] r) { t = Mul(x, 1.0)
        r = Relu(t) }, else_branch = b () => (float[n,m] s) { s = Neg(x) }> =>
        y = If(c) <then_branch = a () => (float[n,m] r) { r = Relu(x) }, else_branch = b () => (float[n,m] s) {
        s = Neg(x) }>
""")


OPS = ["Add(x, o)", "Sub(x, o)", "Mul(i, x)", "Div(x, i)"]
DTYPES = ["float64", "float16", "int8", "int32", "int64", "uint8", "uint64"]


@each(("op", "dtype"), {f"{op}, {dtype}": tier(op, dtype) for op, dtype, tier in in_turn(OPS, DTYPES)})
def test_every_type(op: str, dtype: str) -> None:
    number = np.array(0 if "o" in op else 1, dtype)
    weights = {"o" if "o" in op else "i": number}
    becomes(model(before(op), dtype), model("y = Abs(x)", dtype), *PASSES, weights=weights)


@each(("op", "c"), [("Add(x, c)", -0.0), ("Sub(x, c)", 0.0), ("Mul(x, c)", 1.0), ("Div(x, c)", 1.0)])
def test_bit_identical_rules_are_exact(op: str, c: float) -> None:
    out = becomes(
        model(before(op)), model("y = Abs(x)"), *DROP_NEUTRAL_OPERANDS.rules[:2], weights={"c": np.float32(c)}
    )
    assert len(out.graph.node) == 1


@each(("dtype", "exponent"), [("float", "int64"), ("double", "float"), ("int32", "float")])
def test_exponents_of_another_type(dtype: str, exponent: str) -> None:
    g = f"g ({dtype}[2,3] x) => ({dtype}[n,m] y) <{exponent} c = {{1}}>"
    becomes(f"{g} {{ t = Pow(x, c) y = Abs(t) }}", f"{g} {{ y = Abs(x) }}", *PASSES)


@each(
    ("body", "c"),
    {
        "and true": ("t = And(x, c) y = Not(t)", True),
        "true and": ("t = And(c, x) y = Not(t)", [True] * 3),
        "or false": ("t = Or(x, c) y = Not(t)", False),
        "xor false": ("t = Xor(x, c) y = Not(t)", False),
    },
)
def test_logic(body: str, c: Any) -> None:
    becomes(model(body, "bool"), model("y = Not(x)", "bool"), *PASSES, weights={"c": np.array(c)})


@each(("op", "c"), [("BitwiseAnd(x, c)", -1), ("BitwiseOr(c, x)", 0), ("BitwiseXor(x, c)", 0)])
def test_bits(op: str, c: int) -> None:
    weights = {"c": np.int32(c)}
    becomes(model(before(op), "int32"), model("y = Abs(x)", "int32"), *PASSES, opset=18, weights=weights)


def test_bits_of_unsigned_integers() -> None:
    text = model("t = BitwiseAnd(x, c) y = BitwiseNot(t)", "uint8")
    becomes(text, model("y = BitwiseNot(x)", "uint8"), *PASSES, opset=18, weights={"c": np.uint8(255)})


@each("direction", ["LEFT", "RIGHT"])
def test_shifts_by_zero(direction: str) -> None:
    text = model(f't = BitShift<direction="{direction}">(x, c) y = Clip(t)', "uint32")
    becomes(text, model("y = Clip(x)", "uint32"), *PASSES, weights={"c": np.uint32(0)})


@each(
    ("op", "dtype", "c"),
    {
        "and false": ("And(x, c)", "bool", False),
        "or true": ("Or(c, x)", "bool", True),
        "and a row": ("And(x, c)", "bool", [False] * 3),
        "times 0": ("Mul(x, c)", "int32", 0),
        "times a matrix of 0": ("Mul(c, x)", "int64", [[0] * 3] * 2),
        "bits and 0": ("BitwiseAnd(x, c)", "int32", 0),
        "bits or all": ("BitwiseOr(x, c)", "int32", -1),
        "a constant that stretches": ("Mul(x, c)", "int32", np.zeros((4, 1, 1))),
    },
)
def test_absorbing_operand(op: str, dtype: str, c: Any) -> None:
    data = np.array(c, dtype)
    text = f"g ({dtype}[2,3] x) => ({dtype}[{'n,m,k' if data.ndim == 3 else 'n,m'}] y) {{ y = {op} }}"
    out = apply_passes(load(text, 18, {"c": data}), *PASSES)[0]
    assert not op_types(to_onnx(out))
    require_equivalent(load(text, 18, {"c": data}), to_onnx(out), exact=True)


test_every_opset = neutral.all_become(
    {
        case: ("a = Add(x, 0.0) b = Mul(a, 1.0) c = Div(b, 1.0) d = Pow(c, 1.0) y = Neg(d) => y = Neg(x)", settings)
        for case, settings in {
            "7": {"opset": 7},
            "13": {"opset": 13},
            "21": {"opset": 21},
            "26": {"opset": 26, "runs": False},
        }.items()
    }
)

test_stays = neutral.all_stay("""
    x + 1: y = Add(x, 1.0)
    x * 0 of floats: y = Mul(x, 0.0)
    x * -1: y = Mul(x, -1.0)
    0 - x: y = Sub(0.0, x)
    1 / x: y = Div(1.0, x)
    1 ** x: y = Pow(1.0, x)
    x ** 0: y = Pow(x, 0.0)
    nearly 0: y = Add(x, [0.0,0.0,1.0000000031710769e-30])
    nearly 1: y = Mul(x, [1.0,1.0,1.0000001192092896])
    not a number [graph=g (float[2,3] x) => (float[] y) <float[3] c = {0.0,nan,0.0}>]: y = Add(x, c)
    another op: y = Max(x, 0.0)
    older broadcasting stays [opset=6; runs=False]: y = Mul<axis=0, broadcast=1>(x, [1.0,1.0])
""")

test_stays_elsewhere = neutral.all_stay("""
    raises the rank [x=float[3] x]: y = Add(x, [[0.0]])
    stretches [x=float[1,3] x]: y = Mul(x, [[1.0],[1.0]])
    may stretch [x=float[a,3] x]: y = Mul(x, [[1.0],[1.0]])
    makes a scalar a vector [x=float x]: y = Mul(x, [1.0])
    leaves nothing [graph=g (float[1] x) => (float[] y) <float[0] c = {}>]: y = Mul(x, c)
    overridable [x=float[2] x, float c = {0}]: y = Add(x, c)
    an input [x=float[2] x, float c]: y = Mul(x, c)
    powers of large integers [x=float[2] x; dtype=int64]: y = Pow(x, 1)
    xor true [graph=g (bool[2] x) => (bool[] y) <bool c = {1}>]: y = Xor(x, c)
    absorbs, of unknown size [graph=g (bool[a] x) => (bool[] y) <bool c = {0}>]: y = And(x, c)
    absorbs too much [graph=g (int32[40,40] x) => (int32[] y) <int32 c = {0}>]: y = Mul(x, c)
    absorbs in part [graph=g (int32[2] x) => (int32[] y) <int32[2] c = {0,1}>]: y = Mul(x, c)
""")


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
