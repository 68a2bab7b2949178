"""Alternating sums and products with constants."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.arithmetic import constant_chains
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, initializers, load, op_types, require_equivalent, stays
from tiers import in_turn

MERGE_AFFINE_CHAINS = rule_pass(constant_chains, "merge-affine-chains")
MERGE_CONSTANT_OPERANDS = rule_pass(constant_chains, "merge-constant-operands")

NUMBERS = (
    "<{0} one = {{1}}, {0} two = {{2}}, {0} three = {{3}}, {0} five = {{5}}, {0} nil = {{0}}, {0} far = {{100}},"
    " {0}[3] row = {{1, 2, 4}}, {0}[2,1] column = {{2, 4}}>"
)
AFTER = "t = Mul(x, one) y = Add(t, two)"


def model(body: str, dtype: str = "float") -> str:
    return f"g ({dtype}[2,3] x) => ({dtype}[n,m] y) {NUMBERS.format(dtype)} {{ {body} }}"


def made(before: str, dtype: str = "float") -> list[Any]:
    """The resulting factor and summand."""
    out = becomes(model(before, dtype), model(AFTER, dtype), MERGE_AFFINE_CHAINS)
    known = initializers(out)
    return [next(known[i].tolist() for i in n.input if i in known) for n in out.graph.node]


BOTH = {
    "(x + 3) * 2 + 1": ("a = Add(x, three) b = Mul(a, two) y = Add(b, one)", [2, 7]),
    "1 + 2 * (x - 3)": ("a = Sub(x, three) b = Mul(two, a) y = Add(one, b)", [2, -5]),
    "(3 - x) * 2 - 1": ("a = Sub(three, x) b = Mul(a, two) y = Sub(b, one)", [-2, 5]),
    "1 - (x + 3) * 2": ("a = Add(x, three) b = Mul(a, two) y = Sub(one, b)", [-2, -5]),
    "(x * 3 + 2) * 5": ("a = Mul(x, three) b = Add(a, two) y = Mul(b, five)", [15, 10]),
    "(2 - x * 3) * 5": ("a = Mul(x, three) b = Sub(two, a) y = Mul(b, five)", [-15, 10]),
    "a row": ("a = Sub(x, row) b = Mul(a, two) y = Add(b, row)", [2, [-1, -2, -4]]),
    "a row and a column": ("a = Add(x, row) b = Mul(a, column) y = Add(b, one)", [[[2], [4]], [[3, 5, 9], [5, 9, 17]]]),
}


@each(
    ("before", "want"),
    {
        **BOTH,
        "(x - 3) / 2 + 1": ("a = Sub(x, three) b = Div(a, two) y = Add(b, one)", [0.5, -0.5]),
        "(x / 2 + 3) / 2": ("a = Div(x, two) b = Add(a, three) y = Div(b, two)", [0.25, 1.5]),
    },
)
def test_becomes(before: str, want: list[Any]) -> None:
    assert made(before) == want


DTYPES = in_turn(BOTH.items(), ["int32", "int64", "double"])


@each(("before", "want", "dtype"), {f"{name}, {dtype}": tier(*row, dtype) for (name, row), dtype, tier in DTYPES})
def test_every_type(before: str, want: list[Any], dtype: str) -> None:
    assert made(before, dtype) == want


def test_integers_wrap_around() -> None:
    assert made("a = Mul(x, far) b = Add(a, far) y = Mul(b, far)", "int8") == [16, 16]


@each("opset", [7, 13, 22])
def test_long_chain_at_every_opset(opset: int) -> None:
    before = "a = Add(x, one) b = Mul(a, two) c = Sub(b, three) d = Mul(c, two) e = Add(d, five) y = Mul(e, three)"
    becomes(model(before), model(AFTER), MERGE_AFFINE_CHAINS, MERGE_CONSTANT_OPERANDS, MERGE_AFFINE_CHAINS, opset=opset)


affine = Rewrites("g (float[2,3] x) => (float[] y)", MERGE_AFFINE_CHAINS)

test_stays = affine.all_stay("""
    a product and a sum: a = Mul(x, 2.0) y = Add(a, 1.0)
    a sum and a product: a = Add(x, 2.0) y = Mul(a, 3.0)
    a product that is computed: a = Add(x, 1.0) b = Mul(a, x) y = Add(b, 1.0)
    a sum that is computed: a = Add(x, 1.0) b = Mul(a, 2.0) y = Add(b, x)
    the first sum is computed: a = Add(x, x) b = Mul(a, 2.0) y = Add(b, 1.0)
    the first sum is read too: a = Add(x, 1.0) b = Mul(a, 2.0) c = Add(b, 1.0) y = Sub(c, a)
    the product is read too: a = Add(x, 1.0) b = Mul(a, 2.0) c = Add(b, 1.0) y = Sub(c, b)
    a reciprocal: a = Add(x, 1.0) b = Div(2.0, a) y = Add(b, 1.0)
    divided by 0: a = Add(x, 1.0) b = Div(a, 0.0) y = Add(b, 1.0)
    centred far from 0: a = Add(x, 100.0) b = Mul(a, 2.0) y = Add(b, 1.0)
    not affine: a = Add(x, 1.0) b = Relu(a) c = Mul(b, 2.0) y = Add(c, 1.0)
""")

test_stays_elsewhere = affine.all_stay("""
    integer quotient [graph=g (int32[2] x) => (int32[] y) <int32 k = {2}>]: a = Add(x, k) b = Div(a, k) y = Add(b, k)
    overridable initializer [graph=g (float[2] x, float k = {2}) => (float[] y)]:
        a = Add(x, k) b = Mul(a, k) y = Add(b, k)
    an inner value is an output [graph=g (float[2] x) => (float[2] b, float[] y)]:
        a = Add(x, 2.0) b = Mul(a, 2.0) y = Add(b, 2.0)
    across the border of an If body [graph=g (bool c, float[2] x) => (float[] y)]: u = Add(x, 2.0)
        y = If(c) <then_branch = a () => (float[n] r) { v = Mul(u, 2.0) r = Add(v, 2.0) },
        else_branch = b () => (float[n] s) { s = Neg(x) }>
""")


@each("number", [np.inf, np.nan, 3e38])
def test_overflowing_chain_stays(number: float) -> None:
    text = model("a = Mul(x, k) b = Add(a, one) y = Mul(b, five)")
    stays(text, MERGE_AFFINE_CHAINS, weights={"k": np.float32(number)})


def test_half_precision_stays() -> None:
    text = "g (float16[2] x) => (float16[2] y) { a = Add(x, k) b = Mul(a, k) y = Add(b, k) }"
    stays(text, MERGE_AFFINE_CHAINS, weights={"k": np.float16(2)})


STEPS = st.sampled_from(["Add({0}, {1})", "Sub({0}, {1})", "Sub({1}, {0})", "Mul({0}, {1})", "Div({0}, {1})"])
NAMES = st.sampled_from(["one", "two", "three", "five", "row", "column"])


@given(steps=st.lists(st.tuples(STEPS, NAMES), min_size=3, max_size=6), integers=st.booleans())
def test_any_chain_is_equivalent(steps: list[tuple[str, str]], integers: bool) -> None:
    lines = [f"t{i} = {s.format(f't{i - 1}' if i else 'x', c)}" for i, (s, c) in enumerate(steps)]
    before = load(model(f"{' '.join(lines)} y = Identity(t{len(steps) - 1})", "int32" if integers else "float"))
    result, change_log = apply_passes(before, MERGE_AFFINE_CHAINS)
    after = to_onnx(result)
    assert len(op_types(after)) <= len(steps) + 1
    require_equivalent(before, after, exact=change_log.is_exact)
