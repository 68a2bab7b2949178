"""Boolean logic."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.arithmetic import logic
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, initializers, load, op_types, require_equivalent, stays

MERGE_LOGIC = rule_pass(logic, "merge-logic")

CONSTANTS = "<bool yes = {1}, bool no = {0}, bool[3] row = {1, 1, 1}, bool[3] mixed = {1, 0, 1}>"


def truths(body: str, out: str = "bool[n,m]") -> str:
    return f"g (bool[2,3] p, bool[2,3] q, bool[3] r) => ({out} y) {CONSTANTS} {{ {body} }}"


def numbers(body: str, dtype: str = "int32", out: str = "bool") -> str:
    return f"g (bool[2,3] p, {dtype}[2,3] a, {dtype}[3] b, {dtype}[2,1] c) => ({out}[n,m] y) {{ {body} }}"


rewrites = Rewrites(
    "g ({x}) => (bool[] y)",
    MERGE_LOGIC,
    weights={
        "yes": np.bool_(1),
        "row": np.array([1, 1, 1], np.bool_),
        "no": np.bool_(0),
        "mixed": np.array([1, 0, 1], np.bool_),
    },
    x="bool[2,3] p, bool[2,3] q, bool[3] r",
)

test_logic_becomes = rewrites.all_become("""
    not not: t = Not(p) u = Not(t) y = And(u, q) => y = And(p, q)
    and itself: t = And(p, p) y = Not(t) => y = Not(p)
    or itself: t = Or(p, p) y = Not(t) => y = Not(p)
    xor true: y = Xor(p, yes) => y = Not(p)
    true xor, a row: y = Xor(row, p) => y = Not(p)
    equal true: t = Equal(p, yes) y = And(t, q) => y = And(p, q)
    equal false: y = Equal(no, p) => y = Not(p)
    neither: t = Not(p) u = Not(q) y = And(t, u) => t = Or(p, q) y = Not(t)
    not both: t = Not(p) u = Not(r) y = Or(t, u) => t = And(p, r) y = Not(t)
    not neither: t = Not(p) u = Not(q) v = And(t, u) y = Not(v) => y = Or(p, q)
    xor of nots: t = Not(p) u = Not(q) y = Xor(t, u) => y = Xor(p, q)
    xor true twice: t = Xor(p, yes) y = Xor(t, yes) => y = Identity(p)
    the inner not is read too: t = Not(p) u = Not(t) y = Or(t, u) => t = Not(p) y = Or(t, p)
    bits [opset=18; graph=g (int32[2,3] a) => (int32[] y)]:
        t = BitwiseNot(a) u = BitwiseNot(t) v = BitwiseAnd(u, u) w = BitwiseOr(v, v) y = Abs(w) => y = Abs(a)
""")


@each("dtype", ["int32", "int64", "uint8"])
@each(
    ("comparison", "negated"),
    [("Less", "GreaterOrEqual"), ("LessOrEqual", "Greater"), ("Greater", "LessOrEqual"), ("GreaterOrEqual", "Less")],
)
def test_negated_comparisons(comparison: str, negated: str, dtype: str) -> None:
    before, after = f"t = {comparison}(a, b) y = Not(t)", f"y = {negated}(a, b)"
    becomes(numbers(before, dtype), numbers(after, dtype), MERGE_LOGIC, opset=13)


@each("dtype", ["float", "int64", "string"])
@each(
    ("before", "after"),
    {
        "where not": ("n = Not(p) y = Where(n, a, b)", "y = Where(p, b, a)"),
        "the same condition, false": ("t = Where(p, b, a) y = Where(p, c, t)", "y = Where(p, c, a)"),
        "the same condition, true": ("t = Where(p, c, b) y = Where(p, t, a)", "y = Where(p, c, a)"),
        "not not not": ("n = Not(p) t = Not(n) u = Not(t) y = Where(u, a, b)", "y = Where(p, b, a)"),
    },
)
def test_where(before: str, after: str, dtype: str) -> None:
    becomes(numbers(before, dtype, dtype), numbers(after, dtype, dtype), MERGE_LOGIC)


# onnxruntime has no Where of bools
test_where_of_bools = rewrites.using(runs=False).all_become("""
    true or false: t = Where(p, yes, no) y = And(t, q) => y = And(p, q)
    false or true: y = Where(p, no, row) => y = Not(p)
""")


@each(
    ("body", "out", "want"),
    {
        "equal": ("y = Equal(a, a)", "bool", True),
        "not greater": ("y = LessOrEqual(a, a)", "bool", True),
        "less": ("y = Less(a, a)", "bool", False),
        "difference": ("y = Sub(a, a)", "int32", 0),
        "bits": ("y = BitwiseXor(a, a)", "int32", 0),
        "truths": ("y = Xor(p, p)", "bool", False),
    },
)
def test_compared_with_itself(body: str, out: str, want: int) -> None:
    text = numbers(body, out=out)
    result = to_onnx(apply_passes(load(text, 18), MERGE_LOGIC)[0])
    assert not op_types(result)
    assert np.array_equal(initializers(result)["y"], np.full((2, 3), want))
    require_equivalent(load(text, 18), result, exact=True)


@each("opset", [7, 13, 22])
def test_every_opset(opset: int) -> None:
    before = "t = Not(p) u = Not(q) v = And(t, u) w = Not(v) y = Xor(w, yes)"
    becomes(truths(before), truths("t = Or(p, q) y = Not(t)"), MERGE_LOGIC, opset=opset)


test_stays = rewrites.all_stay("""
    not: y = Not(p)
    and: y = And(p, q)
    one not: t = Not(p) y = And(t, q)
    a not that is read elsewhere: t = Not(p) u = Not(q) v = And(t, u) y = Or(v, t)
    not both: t = And(p, q) y = Not(t)
    xor itself, of unknown size [x=bool[n] p]: y = Xor(p, p)
    infinity minus itself is not 0 [graph=g (float[2] a) => (float[] y)]: y = Sub(a, a)
    a NaN does not equal itself [x=float[2] a]: y = Equal(a, a)
    too large to be written down [graph=g (int32[40,40] a) => (int32[] y)]: y = Sub(a, a)
    no constant: y = Xor(r, q)
    xor some: y = Xor(p, mixed)
    xor false is another pass's: y = Xor(p, no)
    equal to some: y = Equal(p, mixed)
    equal: y = Equal(p, q)
    with a NaN neither holds [x=bool[2,3] p, float[2,3] a, float[3] b, float[2,1] c]: t = Less(a, b) y = Not(t)
    there is no NotEqual [x=bool[2,3] p, int32[2,3] a, int32[3] b, int32[2,1] c]: t = Equal(a, b) y = Not(t)
    the comparison is read elsewhere [x=bool[2,3] p, int32[2,3] a, int32[3] b, int32[2,1] c]:
        t = Less(a, b) u = Not(t) y = And(t, u)
    not, of a choice [graph=g (bool[2,3] p, int32[2,3] a, int32[3] b, int32[2,1] c) => (int32[] y)]:
        n = Not(p) t = Where(n, a, b) s = Cast<to=6>(n) y = Add(t, s)
    two conditions [graph=g (bool[2,3] p, int32[2,3] a, int32[3] b, int32[2,1] c) => (int32[] y)]:
        t = Where(p, a, b) u = Less(a, b) y = Where(u, c, t)
    the dropped operand stretches the result [graph=g (bool p, int32[3] a, int32 b, int32 d) => (int32[] y)]:
        t = Where(p, a, b) y = Where(p, d, t)
    a constant raises the rank [graph=g (bool[3] p) => (bool[] y) <bool[1,1] yes = {1}>]: y = Xor(p, yes)
    a constant stretches [graph=g (bool[1] p) => (bool[] y) <bool[3] yes = {1,1,1}>]: y = Equal(p, yes)
    overridable initializer [x=bool[3] p, bool yes = {1}]: y = Xor(p, yes)
    a not is an output [graph=g (bool[3] p, bool[3] q) => (bool[3] t, bool[] y)]: t = Not(p) u = Not(q) y = And(t, u)
    across the border of an If body [x=bool c, bool[3] p]: t = Not(p) y = If(c) <then_branch = a () => (bool[n] r) {
        r = Not(t) }, else_branch = b () => (bool[n] s) { s = And(p, t) }>
""")


def test_where_of_equal_bools_and_of_floats_stays() -> None:
    stays(truths("y = Where(p, yes, yes)"), MERGE_LOGIC, runs=False)
    stays("g (bool[2] p) => (float[2] y) <float a = {1}, float b = {0}> { y = Where(p, a, b) }", MERGE_LOGIC)


test_stays_older_comparisons_stay = rewrites.all_stay("""
    older comparisons stay [opset=11; x=int32[2] a, int32[2] b]: t = Less(a, b) y = Not(t)
""")

STEPS = st.sampled_from([
    "Not({0})", "And({0}, {0})", "And({0}, {1})", "Or({0}, {1})", "Xor({0}, {1})", "Xor({0}, yes)", "Equal({0}, no)",
])  # fmt: skip


@given(steps=st.lists(STEPS, min_size=3, max_size=8))
def test_any_chain_is_equivalent(steps: list[str]) -> None:
    lines = ["s0 = Not(p)", "s1 = Not(q)"]
    lines += [f"s{i} = {s.format(f's{i - 1}', f's{i - 2}')}" for i, s in enumerate(steps, 2)]
    before = load(truths(f"{' '.join(lines)} y = Identity(s{len(steps) + 1})"))
    after = to_onnx(apply_passes(before, MERGE_LOGIC)[0])
    assert len(op_types(after)) <= len(op_types(before))
    require_equivalent(before, after, exact=True)


@given(data=st.lists(st.booleans(), min_size=3, max_size=3))
def test_xor_with_all_true_is_not(data: list[bool]) -> None:
    weights = {"c": np.array(data)}
    g = "g (bool[2,3] p) => (bool[2,3] y)"
    if all(data):
        becomes(f"{g} {{ y = Xor(p, c) }}", f"{g} {{ y = Not(p) }}", MERGE_LOGIC, weights=weights)
    else:
        stays(f"{g} {{ y = Xor(p, c) }}", MERGE_LOGIC, weights=weights)
