"""Rewrites of Neg with neighbouring ops."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.arithmetic import negations
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, initializers, load, op_types, require_equivalent, stays
from tiers import in_turn

CANONICALIZE_NEGATIONS = rule_pass(negations, "canonicalize-negations")
MERGE_NEGATIONS = rule_pass(negations, "merge-negations")

PASSES = (CANONICALIZE_NEGATIONS, MERGE_NEGATIONS)
NUMBERS = "<{0} m = {{-1}}, {0} o = {{0}}, {0} c = {{3}}, {0}[3] row = {{1, 2, 4}}>"
REWRITES = {
    "twice": ("t = Neg(x) u = Neg(t) y = Abs(u)", "y = Abs(x)"),
    "x + -z": ("t = Neg(z) y = Add(x, t)", "y = Sub(x, z)"),
    "-x + z": ("t = Neg(x) y = Add(t, z)", "y = Sub(z, x)"),
    "x - -z": ("t = Neg(z) y = Sub(x, t)", "y = Add(x, z)"),
    "-(-x + -z)": ("t = Neg(x) u = Neg(z) v = Add(t, u) y = Neg(v)", "y = Add(z, x)"),
    "c + -x": ("t = Neg(x) y = Add(c, t)", "y = Sub(c, x)"),
    "-x - c": ("t = Neg(x) y = Sub(t, row)", "y = Sub(row, x)"),
    "c - -x": ("t = Neg(x) y = Sub(c, t)", "y = Add(c, x)"),
    "-x * -z": ("t = Neg(x) u = Neg(z) y = Mul(t, u)", "y = Mul(x, z)"),
    "-x * c": ("t = Neg(x) y = Mul(t, c)", "y = Mul(x, c)"),
    "c * -x": ("t = Neg(x) y = Mul(row, t)", "y = Mul(row, x)"),
    "-(x * c)": ("t = Mul(x, c) y = Neg(t)", "y = Mul(x, c)"),
    "-(c * x)": ("t = Mul(row, x) y = Neg(t)", "y = Mul(row, x)"),
    "-(x - z)": ("t = Sub(x, z) y = Neg(t)", "y = Sub(z, x)"),
    "-(x + c)": ("t = Add(x, c) y = Neg(t)", "y = Sub(c, x)"),
    "x * -1": ("y = Mul(x, m)", "y = Neg(x)"),
    "-1 * x": ("y = Mul(m, x)", "y = Neg(x)"),
    "0 - x": ("y = Sub(o, x)", "y = Neg(x)"),
    "x * -1 + z": ("t = Mul(x, m) y = Add(t, z)", "y = Sub(z, x)"),
}
OF_FLOATS = {
    "-x / -z": ("t = Neg(x) u = Neg(z) y = Div(t, u)", "y = Div(x, z)"),
    "-x / c": ("t = Neg(x) y = Div(t, c)", "y = Div(x, c)"),
    "c / -x": ("t = Neg(x) y = Div(c, t)", "y = Div(c, x)"),
    "-(x / c)": ("t = Div(x, row) y = Neg(t)", "y = Div(x, row)"),
    "-(c / x)": ("t = Div(c, x) y = Neg(t)", "y = Div(c, x)"),
    "x / -1": ("y = Div(x, m)", "y = Neg(x)"),
}


def model(body: str, dtype: str = "float") -> str:
    inputs = ", ".join(f"{dtype}[2,3] {i}" for i in "xz" if f"{i})" in body or f"({i}" in body)
    return f"g ({inputs}) => ({dtype}[n,m] y) {NUMBERS.format(dtype)} {{ {body} }}"


@each(("before", "after"), REWRITES | OF_FLOATS)
def test_becomes(before: str, after: str) -> None:
    becomes(model(before), model(after), *PASSES)


DTYPES = in_turn(REWRITES.items(), ["double", "int32", "int64"])


@each(("before", "after", "dtype"), {f"{name}, {dtype}": tier(*row, dtype) for (name, row), dtype, tier in DTYPES})
def test_every_type(before: str, after: str, dtype: str) -> None:
    becomes(model(before, dtype), model(after, dtype), *PASSES)


@each("opset", [7, 13, 14, 22])
def test_every_opset(opset: int) -> None:
    before = "a = Mul(x, m) b = Add(a, z) c1 = Neg(b) y = Mul(c1, m)"
    source = load(model(before), opset)
    out = to_onnx(apply_passes(source, *PASSES)[0])
    assert op_types(out) == ["Sub"]
    require_equivalent(source, out)


def test_the_constant_is_negated() -> None:
    out = becomes(model("t = Neg(x) y = Mul(t, row)"), model("y = Mul(x, row)"), *PASSES)
    assert initializers(out)[out.graph.node[0].input[1]].tolist() == [-1, -2, -4]


def test_negations_read_elsewhere_cancel_too() -> None:
    before = "t = Neg(x) u = Neg(t) y = Add(t, u)"
    out = to_onnx(apply_passes(load(model(before)), MERGE_NEGATIONS.rules[0])[0])
    assert op_types(out) == ["Neg", "Add"]
    require_equivalent(load(model(before)), out, exact=True)


signs = Rewrites("g ({x}) => (float[] y)", *PASSES, x="float[2,3] x")

test_stays = signs.all_stay("""
    alone: y = Neg(x)
    a difference [x=float[2,3] x, float[2,3] z]: y = Sub(x, z)
    -x - z [x=float[2,3] x, float[2,3] z]: t = Neg(x) y = Sub(t, z)
    -x * z [x=float[2,3] x, float[2,3] z]: t = Neg(x) y = Mul(t, z)
    -(x * z) [x=float[2,3] x, float[2,3] z]: t = Mul(x, z) y = Neg(t)
    -(x + z) [x=float[2,3] x, float[2,3] z]: t = Add(x, z) y = Neg(t)
    read elsewhere: t = Neg(x) u = Mul(t, 3.0) y = Add(t, u)
    the product is read elsewhere: t = Mul(x, 3.0) u = Neg(t) y = Max(t, u)
    the difference is read elsewhere [x=float[2,3] x, float[2,3] z]: t = Sub(x, z) u = Neg(t) y = Max(t, u)
    -1 / x: y = Div(-1.0, x)
    x - 0: y = Sub(x, 0.0)
    3 - x: y = Sub(3.0, x)
    x * 3: y = Mul(x, 3.0)
    apart: t = Neg(x) u = Relu(t) y = Neg(u)
""")

test_stays_elsewhere = signs.all_stay("""
    integer quotient [graph=g (int32[2] x) => (int32[] y) <int32 m = {3}>]: t = Neg(x) y = Div(t, m)
    integers by -1 [graph=g (int32[2] x) => (int32[] y) <int32 m = {-1}>]: y = Div(x, m)
    no sign to turn [graph=g (uint32[2] x) => (uint32[] y) <uint32 o = {0}>]: y = Sub(o, x)
    raises the rank [x=float[2] x]: y = Mul(x, [[-1.0]])
    stretches [x=float[1] x]: y = Sub([0.0,0.0,0.0], x)
    overridable initializer [x=float[2] x, float m = {-1}]: y = Mul(x, m)
    overridable factor [x=float[2] x, float m = {3}]: t = Neg(x) y = Mul(t, m)
    the inner value is an output [graph=g (float[2] x, float[2] z) => (float[2] t, float[] y)]: t = Neg(x) y = Add(t, z)
    across the border of an If body [x=bool c, float[2] x]: t = Neg(x) y = If(c) <then_branch = a () => (float[n] r) {
        r = Neg(t) }, else_branch = b () => (float[n] s) { s = Abs(x) }>
""")


def test_shared_large_constant_stays() -> None:
    text = "g (float[64,64] x) => (float[n,m] y) { t = Neg(x) u = Mul(t, a) y = Add(u, a) }"
    stays(text, *PASSES, weights={"a": np.full((64, 64), 2, np.float32)})


STEPS = st.sampled_from([
    "Neg({0})", "Mul({0}, m)", "Mul({0}, c)", "Div({0}, c)", "Div(c, {0})", "Add({0}, row)", "Sub({0}, c)",
    "Sub(c, {0})", "Sub(o, {0})", "Add(z, {0})", "Sub(z, {0})", "Mul({0}, z)", "Add({0}, {0})",
])  # fmt: skip
DIFFERENCES = {"Sub({0}, c)", "Sub(c, {0})", "Sub(o, {0})", "Add(z, {0})", "Sub(z, {0})", "Add({0}, row)"}
"""Steps whose rewrites may change the sign of a zero, which decides the sign of an infinity in `Div(c, {0})`."""


@given(steps=st.lists(STEPS, min_size=2, max_size=5))
def test_any_chain_is_equivalent(steps: list[str]) -> None:
    assume("Div(c, {0})" not in steps or DIFFERENCES.isdisjoint(steps))
    lines = [f"t{i} = {s.format(f't{i - 1}' if i else 'x')}" for i, s in enumerate(steps)]
    before = load(model(f"{' '.join(lines)} y = Sum(t{len(steps) - 1}, z)"))
    after = to_onnx(apply_passes(before, *PASSES)[0])
    assert len(op_types(after)) <= len(steps) + 1
    require_equivalent(before, after)
