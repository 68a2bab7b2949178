"""Powers, roots, logarithms and reciprocals."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.arithmetic import powers
from rewrite_tables import Rewrites
from rewriting import becomes, each, initializers, stays

MERGE_POWERS = rule_pass(powers, "merge-powers")

NUMBERS = (
    "<{0} one = {{1}}, {0} two = {{2}}, {0} three = {{3}}, {0} four = {{4}}, {0}[1] six = {{6}},"
    " {0} half = {{0.5}}, {0}[3] row = {{1, 2, 4}}, {0}[3] nil = {{0, 1, 1}}>"
)


def model(body: str, dtype: str = "float") -> str:
    return f"g ({dtype}[2,3] x, {dtype}[3] z) => ({dtype}[n,m] y) {NUMBERS.format(dtype)} {{ {body} }}"


rewrites = Rewrites("g ({x}) => (float[] y)", MERGE_POWERS, weights={"d": np.int32(3)}, x="float[2,3] x, float[3] z")

test_becomes = rewrites.all_become("""
    reciprocals: t = Reciprocal(x) u = Reciprocal(t) y = Tanh(u) => y = Tanh(x)
    of a quotient: t = Div(x, z) y = Reciprocal(t) => y = Div(z, x)
    of a reciprocal by division: t = Div(1.0, x) y = Reciprocal(t) => y = Div(x, one)
    of a multiple: t = Mul(x, [1.0,2.0,4.0]) y = Reciprocal(t) => y = Div(row, x)
    divided by a reciprocal: t = Reciprocal(z) y = Div(x, t) => y = Mul(x, z)
    times a reciprocal: t = Exp(z) u = Reciprocal(t) y = Mul(x, u) => t = Exp(z) y = Div(x, t)
    a reciprocal times: t = Exp(z) u = Reciprocal(t) y = Mul(u, x) => t = Exp(z) y = Div(x, t)
    times 1 / z: t = Exp(z) u = Div(1.0, t) y = Mul(x, u) => t = Exp(z) y = Div(x, t)
    root of a product: t = Mul(x, x) y = Sqrt(t) => y = Abs(x)
    root of a square: t = Pow(x, 2.0) y = Sqrt(t) => y = Abs(x)
    square of a root: r = Relu(x) t = Sqrt(r) y = Pow(t, 2.0) => y = Relu(x)
    product of roots: r = Relu(x) t = Sqrt(r) y = Mul(t, t) => y = Relu(x)
    exp of log: r = Sigmoid(x) t = Log(r) y = Exp(t) => y = Sigmoid(x)
    powers: t = Pow(x, 2.0) y = Pow(t, 3.0) => y = Pow(x, one)
    powers of different ranks: t = Pow(x, 3.0) y = Pow(t, [6.0]) => y = Pow(x, six)
    of fractions: r = Abs(x) t = Pow(r, 3.0) y = Pow(t, 0.5) => r = Abs(x) y = Pow(r, one)
    square of abs: t = Abs(x) y = Pow(t, 2.0) => y = Pow(x, two)
    even power of neg: t = Neg(x) y = Pow(t, 4.0) => y = Pow(x, four)
    abs times abs: t = Abs(x) y = Mul(t, t) => y = Mul(x, x)
    double [dtype=double]: t = Mul(x, x) u = Sqrt(t) v = Reciprocal(u) y = Reciprocal(v) => y = Abs(x)
""")


@each(
    ("before", "after", "c"),
    {
        "reciprocal": ("t = Mul(x, row) y = Reciprocal(t)", "y = Div(row, x)", [1, 0.5, 0.25]),
        "powers": ("t = Pow(x, two) y = Pow(t, three)", "y = Pow(x, two)", 6),
        "fraction": ("r = Exp(x) t = Pow(r, three) y = Pow(t, half)", "r = Exp(x) y = Pow(r, two)", 1.5),
    },
)
def test_the_constant(before: str, after: str, c: Any) -> None:
    out = becomes(model(before), model(after), MERGE_POWERS)
    made = next(v for n, v in initializers(out).items() if n in out.graph.node[-1].input)
    assert np.array_equal(made, np.float32(c))


@each("exponent", ["int32", "int64"])
def test_whole_exponents_stay_whole(exponent: str) -> None:
    g = f"g (float[2,3] x) => (float[2,3] y) <{exponent} two = {{2}}, float three = {{3}}>"
    out = becomes(f"{g} {{ t = Pow(x, two) y = Pow(t, three) }}", f"{g} {{ y = Pow(x, two) }}", MERGE_POWERS)
    assert next(v for n, v in initializers(out).items() if n == out.graph.node[0].input[1]).dtype == exponent


test_stays = rewrites.all_stay("""
    a reciprocal: y = Reciprocal(x)
    a root: y = Sqrt(x)
    a square: y = Pow(x, 2.0)
    a root of a possibly negative value: t = Sqrt(x) y = Pow(t, 2.0)
    roots of possibly negative values: t = Sqrt(x) y = Mul(t, t)
    cube of a root: r = Relu(x) t = Sqrt(r) y = Pow(t, 3.0)
    a logarithm of a possibly negative value: t = Log(x) y = Exp(t)
    exp may overflow: t = Exp(x) y = Log(t)
    root of another product: t = Mul(x, z) y = Sqrt(t)
    root of a cube: t = Pow(x, 3.0) y = Sqrt(t)
    fractional power of a possibly negative value: t = Pow(x, 0.5) y = Pow(t, 2.0)
    different exponents: t = Pow(x, [1.0,2.0,4.0]) y = Pow(t, 2.0)
    odd power of abs: t = Abs(x) y = Pow(t, 3.0)
    reciprocal of 0: t = Mul(x, [0.0,1.0,1.0]) y = Reciprocal(t)
    read elsewhere: t = Reciprocal(x) u = Reciprocal(t) y = Add(t, u)
    a reciprocal divided: t = Reciprocal(x) y = Div(t, z)
    times 2 / x: t = Div(2.0, x) y = Mul(z, t)
""")

test_stays_elsewhere = rewrites.all_stay("""
    integer powers [graph=g (int32[2] x) => (int32[] y) <int32 c = {2}>]: t = Pow(x, c) y = Pow(t, d)
    integer abs [graph=g (int32[2] x) => (int32[] y) <int32 c = {2}>]: t = Abs(x) y = Pow(t, c)
    integer quotient [graph=g (int32[2] x, int32[2] z) => (int32[] y) <int32 c = {1}>]: t = Div(c, x) y = Mul(z, t)
    raises the rank [x=float[2] x]: t = Pow(x, [[2.0]]) y = Sqrt(t)
    overridable initializer [x=float[2] x, float c = {2}]: t = Pow(x, c) y = Sqrt(t)
    the inner value is an output [graph=g (float[2] x) => (float[2] t, float[] y)]: t = Mul(x, x) y = Sqrt(t)
    across the border of an If body [x=bool c, float[2] x]: t = Mul(x, x)
        y = If(c) <then_branch = a () => (float[n] r) { r = Sqrt(t) }, else_branch = b () => (float[n] s) {
        s = Abs(x) }>
""")


@given(a=st.sampled_from([0.5, 1, 2, 3, 4]), b=st.sampled_from([0.5, 1, 2, 3]), positive=st.booleans())
def test_powers_merge_if_safe(a: float, b: float, positive: bool) -> None:
    first = "r = Sigmoid(x)" if positive else "r = Tanh(x)"
    g = f"g (float[2,3] x) => (float[2,3] y) <float a = {{{a}}}, float b = {{{b}}}>"
    body = f"{first} t = Pow(r, a) y = Pow(t, b)"
    if positive or (float(a).is_integer() and float(b).is_integer()):
        becomes(f"{g} {{ {body} }}", f"{g} {{ {first} y = Pow(r, a) }}", MERGE_POWERS)
    else:
        stays(f"{g} {{ {body} }}", MERGE_POWERS)


@each(
    ("dtype", "a", "b"), [("float16", 18816, 5120), ("float16", 51, 41), ("float", 4097, 4097), ("int32", 65536, 65536)]
)
def test_products_that_the_type_does_not_have(dtype: str, a: int, b: int) -> None:
    x = dtype if dtype != "int32" else "float"
    head = f"g ({x}[3] x) => ({x}[3] y) <{dtype} a = {{{a}}}, {dtype} b = {{{b}}}>"
    stays(f"{head} {{ t = Pow(x, a) y = Pow(t, b) }}", MERGE_POWERS)
