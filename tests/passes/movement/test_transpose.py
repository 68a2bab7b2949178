"""Transpose merging."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.movement.layout_propagation import move_transposes
from passwright.passes.movement.layout_propagation.move_transposes import drop_no_op_transpose, merge_transposes
from rewrite_tables import Rewrites
from rewriting import becomes, each, load

from passwright import optimize

MERGE_TRANSPOSES = rule_pass(move_transposes, "merge-transposes")

G = "g (float[2,3,4] x) => (float[n,m,k] y)"
RULES = (merge_transposes, drop_no_op_transpose)

transpose = Rewrites("g ({x}) => (float[] y)", *RULES, x="float[2,3,4] x")

test_becomes = transpose.all_become("""
    merges: t = Transpose<perm=[1,2,0]>(x) y = Transpose<perm=[1,2,0]>(t) => y = Transpose<perm=[2,0,1]>(x)
    cancels: t = Transpose<perm=[0,2,1]>(x) y = Transpose<perm=[0,2,1]>(t) => y = Identity(x)
    default perms cancel: t = Transpose(x) y = Transpose(t) => y = Identity(x)
    outer perm only: t = Transpose(x) y = Transpose<perm=[1,0,2]>(t) => y = Transpose<perm=[1,2,0]>(x)
    inner perm only: t = Transpose<perm=[1,0,2]>(x) y = Transpose(t) => y = Transpose<perm=[2,0,1]>(x)
    moves nothing: y = Transpose<perm=[0,1,2]>(x) => y = Identity(x)
    moves nothing, inside: s = Neg(x) t = Transpose<perm=[0,1,2]>(s) y = Relu(t) => s = Neg(x) y = Relu(s)
    a chain cancels: a = Transpose<perm=[1,0,2]>(x) b = Transpose<perm=[0,2,1]>(a) c = Transpose<perm=[0,2,1]>(b)
        y = Transpose<perm=[1,0,2]>(c) => y = Identity(x)
    a chain of three cancels:
        a = Transpose<perm=[1,2,0]>(x) b = Transpose<perm=[1,2,0]>(a) c = Transpose<perm=[1,2,0]>(b) y = Relu(c)
        => y = Relu(x)
    shared inner value, all users merge: t = Transpose<perm=[1,0,2]>(x) p = Transpose<perm=[1,0,2]>(t)
        q = Transpose<perm=[2,1,0]>(t) r = Shape(q) s = Reshape(p, r) y = Relu(s)
        => q = Transpose<perm=[2,0,1]>(x) r = Shape(q) s = Reshape(x, r) y = Relu(s)
    shared inner value stays for its other user: t = Transpose<perm=[1,2,0]>(x) r = Relu(t)
        p = Transpose<perm=[2,0,1]>(t) q = Transpose<perm=[2,0,1]>(r) y = Add(p, q)
        => t = Transpose<perm=[1,2,0]>(x) r = Relu(t) q = Transpose<perm=[2,0,1]>(r) y = Add(x, q)
    the same value twice: t = Transpose<perm=[1,2,0]>(x) s = Transpose<perm=[2,0,1]>(t) y = Add(s, s) => y = Add(x, x)
""")

test_becomes_elsewhere = transpose.all_become("""
    inner value is a graph output [graph=g (float[2,3] x) => (float[3,2] t, float[] y)]:
        t = Transpose<perm=[1,0]>(x) y = Transpose<perm=[1,0]>(t) => t = Transpose<perm=[1,0]>(x) y = Identity(x)
    inner value is a graph output and the outer one too [graph=g (float[2,3,1] x) => (float[n,m,k] t, float[] y)]:
        t = Transpose<perm=[1,2,0]>(x) y = Transpose<perm=[1,2,0]>(t)
        => t = Transpose<perm=[1,2,0]>(x) y = Transpose<perm=[2,0,1]>(x)
    a vector has nothing to move [x=float[n] x]: t = Neg(x) y = Transpose(t) => y = Neg(x)
    a scalar has nothing to move [x=float x]: t = Neg(x) y = Transpose(t) => y = Neg(x)
    unknown extents do not matter [graph=g (float[n,m] x) => (float[a,b] y, float[a,b] z)]:
        t = Transpose(x) u = Transpose(t) y = Relu(u) z = Identity(u) => y = Relu(x) z = Identity(x)
    strings too [graph=g (string[2,3] x) => (string[] y)]:
        t = Transpose<perm=[1,0]>(x) u = Transpose<perm=[1,0]>(t) y = Transpose<perm=[1,0]>(u)
        => y = Transpose<perm=[1,0]>(x)
    inside an If body, of a captured value [x=bool c, float[2,3] x]: y = If(c) <then_branch = a () => (float[n,m] r) {
        t = Transpose(x) u = Transpose(t) r = Neg(u) }, else_branch = b () => (float[n,m] s) { s = Relu(x) }> =>
        y = If(c) <then_branch = a () => (float[n,m] r) { r = Neg(x) }, else_branch = b () => (float[n,m] s) {
        s = Relu(x) }>
    a body may not return a captured value itself [x=bool c, float[2,3] x]:
        y = If(c) <then_branch = a () => (float[n,m] r) { t = Transpose(x) r = Transpose(t) },
        else_branch = b () => (float[n,m] s) { s = Relu(x) }> => y = If(c) <then_branch = a () => (float[n,m] r) {
        r = Identity(x) }, else_branch = b () => (float[n,m] s) { s = Relu(x) }>
    overridable initializer [x=float[2,3] w = {1,2,3,4,5,6}]: t = Transpose(w) u = Transpose(t) y = Neg(u) => y = Neg(w)
""")


@each("opset", [1, 7, 13, 21, 25])
def test_every_opset(opset: int) -> None:
    text = "g (float[2,3] x) => (float[n,m] y) {{ {} }}"
    before = "t = Transpose<perm=[1,0]>(x) u = Transpose(t) r = Neg(u) y = Transpose<perm=[0,1]>(r)"
    becomes(text.format(before), text.format("y = Neg(x)"), *RULES, opset=opset, runs=opset >= 7)


test_stays = transpose.all_stay("""
    alone, graph input and output at either end: y = Transpose<perm=[1,2,0]>(x)
    alone, default perm: y = Transpose(x)
    apart: t = Transpose<perm=[1,2,0]>(x) r = Relu(t) y = Transpose<perm=[1,2,0]>(r)
    an Identity is not its business: y = Identity(x)
    one, read by several others: t = Transpose<perm=[1,2,0]>(x) a = Neg(t) b = Relu(t) y = Add(a, b)
""")

test_stays_elsewhere = transpose.all_stay("""
    unknown rank [x=float[] x]: y = Transpose(x)
    symbolic shape [x=float[n,m] x]: y = Transpose(x)
    moving an axis of 1 is a reshape [x=float[1,3] x]: y = Transpose(x)
    across the border of an If body [x=bool c, float[2,3] x]: t = Transpose(x)
        y = If(c) <then_branch = a () => (float[n,m] r) { r = Transpose(t) }, else_branch = b () => (float[n,m] s) {
        u = Relu(x) s = Neg(u) }>
""")


def test_the_pass_has_both_rules() -> None:
    assert MERGE_TRANSPOSES.rules == RULES


@given(p=st.permutations(range(3)), q=st.permutations(range(3)))
def test_any_two_perms(p: list[int], q: list[int]) -> None:
    r = [p[i] for i in q]
    after = "y = Identity(x)" if r == [0, 1, 2] else f"y = Transpose<perm={r}>(x)"
    becomes(f"{G} {{ t = Transpose<perm={p}>(x) y = Transpose<perm={q}>(t) }}", f"{G} {{ {after} }}", *RULES)


@given(perms=st.lists(st.permutations(range(4)), min_size=1, max_size=5))
def test_any_chain_becomes_at_most_one(perms: list[list[int]]) -> None:
    lines, order = [], list(range(4))
    for i, p in enumerate(perms):
        order = [order[j] for j in p]
        lines.append(f"v{i + 1} = Transpose<perm={p}>({f'v{i}' if i else 'x'})")
    g = "g (float[2,3,4,5] x) => (float[a,b,c,d] y)"
    after = f"t = Transpose<perm={order}>(x) y = Neg(t)" if order != [0, 1, 2, 3] else "y = Neg(x)"
    becomes(f"{g} {{ {' '.join(lines)} y = Neg(v{len(perms)}) }}", f"{g} {{ {after} }}", *RULES)


@each(
    ("ops", "left"),
    [
        ("t = Transpose<perm: ints = []>(x) y = Relu(t)", {"Transpose": 1, "Relu": 1}),
        ("t = Transpose<perm: ints = []>(x) u = Transpose<perm: ints = []>(t) y = Relu(u)", {"Relu": 1}),
        ("t = Transpose<perm: ints = []>(x) u = Transpose(t) y = Relu(u)", {"Relu": 1}),
    ],
)
def test_empty_perm_is_the_default_as_in_the_reference(ops: str, left: dict[str, int]) -> None:
    """onnxruntime runs no such model, so that onnx.reference verifies it."""
    result = optimize(load(f"{G} {{ {ops} }}"), verify=False)
    assert result.report.after.ops == left
