"""Chains of constants."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.arithmetic import constant_chains
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, initializers, load, op_types, require_equivalent, stays

MERGE_CONSTANT_OPERANDS = rule_pass(constant_chains, "merge-constant-operands")

PASSES = (MERGE_CONSTANT_OPERANDS,)
NUMBERS = (
    "<{0} one = {{1}}, {0} two = {{2}}, {0} three = {{3}}, {0} five = {{5}}, {0} eight = {{8}}, {0} nil = {{0}},"
    " {0}[3] row = {{1, 2, 4}}, {0}[2,1] column = {{2, 4}}, {0}[3] gaps = {{0, 2, 0}}>"
)


def model(body: str, dtype: str = "float", shape: str = "2,3", out: str = "n,m") -> str:
    return f"g ({dtype}[{shape}] x) => ({dtype}[{out}] y) {NUMBERS.format(dtype)} {{ {body} }}"


def merged(before: str, after: str, dtype: str = "float") -> Any:
    """The resulting constant."""
    out = becomes(model(before, dtype), model(after, dtype), *PASSES)
    return next(v for n, v in initializers(out).items() if n in out.graph.node[0].input)


@each(
    ("before", "after", "c"),
    {
        "x + 3 + 5": ("t = Add(x, three) y = Add(t, five)", "y = Add(x, one)", 8),
        "constants first": ("t = Add(three, x) y = Add(five, t)", "y = Add(x, one)", 8),
        "x + 3 - 5": ("t = Add(x, three) y = Sub(t, five)", "y = Add(x, one)", -2),
        "x - 3 + 5": ("t = Sub(x, three) y = Add(t, five)", "y = Add(x, one)", 2),
        "x - 3 - 5": ("t = Sub(x, three) y = Sub(t, five)", "y = Add(x, one)", -8),
        "3 - x + 5": ("t = Sub(three, x) y = Add(t, five)", "y = Sub(one, x)", 8),
        "3 - x - 5": ("t = Sub(three, x) y = Sub(t, five)", "y = Sub(one, x)", -2),
        "5 - (x + 3)": ("t = Add(x, three) y = Sub(five, t)", "y = Sub(one, x)", 2),
        "5 - (x - 3)": ("t = Sub(x, three) y = Sub(five, t)", "y = Sub(one, x)", 8),
        "5 - (3 - x)": ("t = Sub(three, x) y = Sub(five, t)", "y = Add(x, one)", 2),
        "x * 3 * 5": ("t = Mul(x, three) y = Mul(t, five)", "y = Mul(x, one)", 15),
        "factors first": ("t = Mul(three, x) y = Mul(five, t)", "y = Mul(x, one)", 15),
        "x * 3 / 8": ("t = Mul(x, three) y = Div(t, eight)", "y = Mul(x, one)", 0.375),
        "x / 8 * 3": ("t = Div(x, eight) y = Mul(t, three)", "y = Mul(x, one)", 0.375),
        "x / 8 / 5": ("t = Div(x, eight) y = Div(t, five)", "y = Div(x, one)", 40),
        "3 / x * 5": ("t = Div(three, x) y = Mul(t, five)", "y = Div(one, x)", 15),
        "3 / (x * 8)": ("t = Mul(x, eight) y = Div(three, t)", "y = Div(one, x)", 0.375),
        "3 / (x / 8)": ("t = Div(x, eight) y = Div(three, t)", "y = Div(one, x)", 24),
        "3 / (8 / x)": ("t = Div(eight, x) y = Div(three, t)", "y = Mul(x, one)", 0.375),
        "a row and a number": ("t = Mul(x, row) y = Mul(t, two)", "y = Mul(x, one)", [2, 4, 8]),
        "one constant twice": ("t = Add(x, row) y = Add(t, row)", "y = Add(x, one)", [2, 4, 8]),
        "grid": ("t = Mul(x, row) y = Div(t, column)", "y = Mul(x, one)", [[0.5, 1, 2], [0.25, 0.5, 1]]),
        "zeros in a product": ("t = Mul(x, gaps) y = Mul(t, three)", "y = Mul(x, one)", [0, 6, 0]),
        "a long chain": ("a = Add(x, one) b = Sub(a, eight) d = Sub(three, b) y = Add(d, two)", "y = Sub(one, x)", 12),
    },
)
def test_becomes(before: str, after: str, c: Any) -> None:
    made = merged(before, after)
    assert made.dtype == np.float32
    assert np.array_equal(made, np.float32(c))


chains = Rewrites(
    "g ({x}) => (float[] y)",
    *PASSES,
    weights={"h": 3.0000000054977558e38, "i": 2.9000000188361036e38, "f": -np.inf, "n": np.nan, "a": 2.0},
    x="float[2,3] x",
)

test_becomes_quotient_by_less_than_one = chains.all_become("""
    quotient by less than one: t = Div(3.0, x) y = Div(t, 0.5) => y = Div(c, x)
""")


@each("dtype", ["double", "float16"])
def test_other_floats(dtype: str) -> None:
    weights = {"c": np.array([3, 5], "float64" if dtype == "double" else dtype)}
    before, after = "t = Mul(x, c) u = Mul(t, c) v = Sub(u, c) y = Sub(v, c)", "t = Mul(x, k) y = Add(t, k)"
    g = f"g ({dtype}[4,2] x) => ({dtype}[4,2] y) {{}} {{{{ {{}} }}}}"
    known = f"<{dtype} k = {{1}}>"
    becomes(g.format("", before), g.format(known, after), *PASSES, weights=weights)


@each("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
@each(
    ("before", "after", "c"),
    {
        "sums": ("t = Add(x, three) y = Add(five, t)", "y = Add(x, one)", 8),
        "there and back": ("t = Add(x, three) y = Sub(t, three)", "y = Add(x, one)", 0),
        "below zero": ("t = Sub(x, five) y = Add(t, three)", "y = Add(x, one)", -2),
        "turned twice": ("t = Sub(five, x) y = Sub(three, t)", "y = Add(x, one)", -2),
        "products": ("t = Mul(x, five) u = Mul(t, eight) y = Mul(u, eight)", "y = Mul(x, one)", 320),
    },
)
def test_integers_wrap_around(before: str, after: str, c: int, dtype: str) -> None:
    assert merged(before, after, dtype) == np.array(c).astype(dtype)


@each("dtype", ["int8", "int32", "int64", "uint8"])
def test_integer_divisors(dtype: str) -> None:
    assert merged("t = Div(x, three) y = Div(t, five)", "y = Div(x, one)", dtype) == 15


@each("dtype", ["float", "double", "int32"])
@each(
    ("before", "after"),
    {
        "sum": ("a = Mul(x, two) b = Mul(two, z) y = Add(a, b)", "t = Add(x, z) y = Mul(t, two)"),
        "difference": ("a = Mul(x, row) b = Mul(z, row) y = Sub(a, b)", "t = Sub(x, z) y = Mul(t, row)"),
    },
)
def test_a_common_factor(before: str, after: str, dtype: str) -> None:
    g = f"g ({dtype}[2,3] x, {dtype}[3] z) => ({dtype}[n,m] y) {NUMBERS.format(dtype)}"
    becomes(f"{g} {{ {before} }}", f"{g} {{ {after} }}", *PASSES)


@each("opset", [7, 13, 21])
def test_every_opset(opset: int) -> None:
    before = "a = Add(x, one) b = Sub(a, five) c = Mul(b, two) y = Div(c, five)"
    becomes(model(before), model("b = Add(x, one) y = Mul(b, one)"), *PASSES, opset=opset)


test_stays = chains.all_stay("""
    one constant: y = Add(x, 1.0)
    a sum and a product: t = Add(x, 1.0) y = Mul(t, 2.0)
    a product and a sum: t = Mul(x, 2.0) y = Add(t, 1.0)
    one product twice: t = Mul(x, 2.0) y = Add(t, t)
    no constant inside: t = Add(x, x) y = Add(t, 1.0)
    no constant outside: t = Add(x, 1.0) y = Add(t, x)
    the sum twice: t = Add(x, 1.0) y = Add(t, t)
    the inner value is read elsewhere: t = Add(x, 1.0) u = Add(t, 2.0) y = Mul(t, u)
    0 times something, divided: t = Mul(x, 0.0) y = Div(t, 2.0)
    divided by 0: t = Div(x, 0.0) y = Mul(t, 2.0)
    divided by a product with 0: t = Mul(x, [0.0,2.0,0.0]) y = Div(3.0, t)
    a quotient that may overflow: t = Div(3.0, x) y = Div(t, 8.0)
    rounding there and back: t = Add(x, 3.0) y = Sub(t, 3.0)
    a sum that is small beside its terms: t = Add(x, h) y = Sub(t, i)
    a product that overflows: t = Mul(x, h) y = Mul(t, h)
    a divisor that overflows: t = Div(x, h) y = Div(t, h)
    a factor that underflows: t = Div(x, h) y = Mul(t, 1.000000013351432e-10)
    an infinite term: t = Add(x, f) y = Add(t, 1.0)
    not a number: t = Mul(x, n) y = Mul(t, 2.0)
""")

test_stays_elsewhere = chains.all_stay("""
    the inner value is an output [graph=g (float[2] x) => (float[2] t, float[] y)]: t = Mul(x, 2.0) y = Mul(t, 2.0)
    overridable initializer [x=float[2] x, float a = {2}]: t = Mul(x, a) y = Mul(t, 2.0)
    negative divisors [graph=g (int32[2] x) => (int32[] y) <int32 a = {-2}>]: t = Div(x, a) y = Div(t, a)
    too large a divisor [graph=g (int8[2] x) => (int8[] y) <int8 a = {100}>]: t = Div(x, a) y = Div(t, a)
    different factors [x=float[2] x, float[2] z]: t = Mul(x, 2.0) u = Mul(z, 3.0) y = Add(t, u)
    a common factor that is computed [x=float[2] x, float[2] z, float[2] a]: t = Mul(x, a) u = Mul(z, a) y = Add(t, u)
    integer quotient [graph=g (int32[2] x) => (int32[] y) <int32 a = {2}>]: t = Mul(x, a) y = Div(t, a)
    no elements [graph=g (float[1] x) => (float[] y) <float[0] a = {}>]: t = Mul(x, a) y = Mul(t, 2.0)
    across the border of an If body [x=bool c, float[2] x]: t = Mul(x, a)
        y = If(c) <then_branch = a () => (float[n] r) { r = Mul(t, a) }, else_branch = b () => (float[n] s) {
        s = Neg(x) }>
""")


def test_large_combined_constant_stays() -> None:
    weights = {"a": np.full((64, 1), 2, np.float32), "b": np.full((1, 64), 3, np.float32)}
    stays("g (float[64,64] x) => (float[n,m] y) { t = Mul(x, a) y = Mul(t, b) }", *PASSES, weights=weights)


def test_scalar_merges_into_large_constant() -> None:
    weights = {"a": np.full((64, 64), 2, np.float32), "b": np.float32(3)}
    g = "g (float[64,64] x) => (float[n,m] y)"
    after = f"{g} <float k = {{1}}> {{ y = Mul(x, k) }}"
    becomes(f"{g} {{ t = Mul(x, a) y = Mul(t, b) }}", after, *PASSES, weights=weights)


def test_shared_large_constant_stays() -> None:
    weights = {"a": np.full((64, 64), 2, np.float32), "b": np.float32(3)}
    body = "t = Mul(x, a) u = Mul(t, b) y = Add(u, a)"
    stays(f"g (float[64,64] x) => (float[n,m] y) {{ {body} }}", *PASSES, weights=weights)


OPS = st.sampled_from(["Add({0}, {1})", "Sub({0}, {1})", "Sub({1}, {0})"])
FACTORS = st.sampled_from(["Mul({1}, {0})", "Div({0}, {1})", "Div({1}, {0})"])
NAMES = st.sampled_from(["one", "two", "three", "five", "eight", "row", "column"])


@given(
    steps=st.one_of(
        st.lists(st.tuples(OPS, NAMES), min_size=2, max_size=4),
        st.lists(st.tuples(FACTORS, NAMES), min_size=2, max_size=4),
    )
)
def test_any_chain_is_equivalent(steps: list[tuple[str, str]]) -> None:
    lines = [f"t{i} = {s.format(f't{i - 1}' if i else 'x', c)}" for i, (s, c) in enumerate(steps)]
    before = load(model(f"{' '.join(lines)} y = Identity(t{len(steps) - 1})"))
    after = to_onnx(apply_passes(before, *PASSES)[0])
    assert len(op_types(after)) <= len(steps) + 1  # the Identity stays
    require_equivalent(before, after)
