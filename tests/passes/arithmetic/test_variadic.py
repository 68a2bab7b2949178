"""Max, Min, Sum and Mean."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.arithmetic import variadic
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, initializers, load, op_types, require_equivalent, stays

MERGE_VARIADIC = rule_pass(variadic, "merge-variadic")

CONSTANTS = "<{0} one = {{1}}, {0}[3] row = {{1, 5, 2}}, {0}[2,1] column = {{3, 4}}>"


def model(body: str, dtype: str = "float") -> str:
    inputs = f"{dtype}[2,3] a, {dtype}[3] b, {dtype}[2,1] c, {dtype}[2,3] d"
    return f"g ({inputs}) => ({dtype}[n,m] y) {CONSTANTS.format(dtype)} {{ {body} }}"


@each("op", ["Max", "Min", "Sum"])
@each(
    ("before", "after"),
    {
        "of one": ("t = {0}(a) y = Abs(t)", "y = Abs(a)"),
        "first": ("t = {0}(a, b) y = {0}(t, c)", "y = {0}(a, b, c)"),
        "last": ("t = {0}(a, b) y = {0}(c, t)", "y = {0}(c, a, b)"),
        "in the middle": ("t = {0}(a, b) y = {0}(c, t, d)", "y = {0}(c, a, b, d)"),
        "two": ("t = {0}(a, b) u = {0}(c, d) y = {0}(t, u)", "y = {0}(a, b, c, d)"),
        "a chain": ("t = {0}(a, b) u = {0}(t, c) y = {0}(u, d)", "y = {0}(a, b, c, d)"),
        "with constants": ("t = {0}(a, row) y = {0}(t, b, column)", "y = {0}(a, row, b, column)"),
    },
)
def test_becomes(before: str, after: str, op: str) -> None:
    becomes(model(before.format(op)), model(after.format(op)), MERGE_VARIADIC)


@each("dtype", ["int32", "int64", "uint8", "double"])
@each(
    ("before", "after"),
    {
        "of one": ("t = Max(a) y = Abs(t)", "y = Abs(a)"),
        "of the same": ("t = Max(a, a) u = Min(t, t) y = Abs(u)", "y = Abs(a)"),
        "nested": ("t = Min(a, b) y = Min(t, c)", "y = Min(a, b, c)"),
        "constants": ("t = Max(a, row) y = Max(column, t)", "y = Max(a, row)"),
    },
)
def test_every_type(before: str, after: str, dtype: str) -> None:
    becomes(model(before, dtype), model(after, dtype), MERGE_VARIADIC)


def test_mean_of_one() -> None:
    becomes(model("t = Mean(a) y = Abs(t)"), model("y = Abs(a)"), MERGE_VARIADIC)


def test_constants_are_compared() -> None:
    out = becomes(model("t = Max(a, row) y = Max(t, column)"), model("y = Max(a, row)"), MERGE_VARIADIC)
    assert initializers(out)[out.graph.node[0].input[1]].tolist() == [[3, 5, 3], [4, 5, 4]]
    out = becomes(model("t = Min(row, a) y = Min(t, one)"), model("y = Min(a, row)"), MERGE_VARIADIC)
    assert initializers(out)[out.graph.node[0].input[1]].tolist() == [1, 1, 1]


@each("opset", [8, 12, 13, 21])
def test_every_opset(opset: int) -> None:
    before = "s = Sum(a) t = Max(s, b) u = Max(t, c) v = Min(u) y = Neg(v)"
    becomes(model(before), model("u = Max(a, b, c) y = Neg(u)"), MERGE_VARIADIC, opset=opset)


rewrites = Rewrites("g (float[2,3] a, float[3] b, float[2,1] c, float[2,3] d) => (float[] y)", MERGE_VARIADIC)

test_stays = rewrites.all_stay("""
    of two: y = Max(a, b)
    a sum of the same: y = Sum(a, a)
    a mean of the same: y = Mean(a, a)
    a mean of means: t = Mean(a, b) y = Mean(t, c)
    min of max: t = Max(a, b) y = Min(t, c)
    a sum of an add: t = Add(a, b) y = Sum(t, c)
    an add of a sum: t = Sum(a, b) y = Add(t, c)
    read elsewhere: t = Max(a, b) u = Max(t, c) y = Sub(t, u)
    constants of min and max: t = Max(a, [1.0,5.0,2.0]) y = Min(t, [[3.0],[4.0]])
    the same among others: t = Max(a, a, b) y = Neg(t)
    older max without broadcasting stays [opset=7; graph=g (float[2] a, float[2] b) => (float[] y)]:
        t = Max(a, b) y = Max(t, a)
""")

test_stays_elsewhere = rewrites.all_stay("""
    the inner value is an output [graph=g (float[2] a, float[2] b) => (float[2] t, float[] y)]:
        t = Max(a, b) y = Max(t, b)
    across the border of an If body [graph=g (bool p, float[2] a, float[2] b) => (float[] y)]: t = Max(a, b)
        y = If(p) <then_branch = u () => (float[n] r) { r = Max(t, b) }, else_branch = v () => (float[n] s) {
        s = Neg(a) }>
""")


def test_large_combined_constant_stays() -> None:
    weights = {"p": np.ones((64, 1), np.float32), "q": np.ones((1, 64), np.float32)}
    text = "g (float[64,64] a) => (float[n,m] y) { t = Max(a, p) s = Neg(t) u = Neg(s) y = Max(u, q) }"
    stays(text, MERGE_VARIADIC, weights=weights)


def test_flattening_is_bounded() -> None:
    steps = " ".join(f"t{i + 1} = Sum(t{i}, a)" for i in range(100))
    out = to_onnx(apply_passes(load(model(f"t0 = Neg(a) {steps} y = Neg(t100)")), MERGE_VARIADIC)[0])
    assert op_types(out) == ["Neg", "Sum", "Sum", "Neg"]


@given(
    ops=st.lists(st.sampled_from(["Max", "Min", "Sum"]), min_size=2, max_size=6),
    others=st.lists(st.sampled_from(["a", "b", "c", "row", "column"]), min_size=6, max_size=6),
    turned=st.booleans(),
)
def test_any_chain_is_equivalent(ops: list[str], others: list[str], turned: bool) -> None:
    lines = []
    for i, (op, other) in enumerate(zip(ops, others, strict=False)):
        pair = [f"t{i - 1}" if i else "d", other]
        lines.append(f"t{i} = {op}({', '.join(pair[::-1] if turned else pair)})")
    before = load(model(f"{' '.join(lines)} y = Identity(t{len(ops) - 1})"))
    after = to_onnx(apply_passes(before, MERGE_VARIADIC)[0])
    changes = 1 + sum(x != y for x, y in pairwise(ops))
    assert len(op_types(after)) <= changes + 1
    require_equivalent(before, after)
