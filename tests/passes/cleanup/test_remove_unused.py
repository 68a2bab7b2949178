"""Removal of unused ops, constants and bodies."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from onnx import checker, helper
from passwright.core import to_onnx
from passwright.passes.cleanup.no_ops import RemoveUnused
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, initializers, load, op_types, require_equivalent, table

G = "g (float[n] x) => (float[n] y)"
LOOP = "y = Loop (n, t, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) {{ {} }}>"

remove_unused = Rewrites(
    "g ({x}) => (float[] y)", RemoveUnused(), weights={"w": [1.0, 2.0], "t": np.bool_(1)}, x="float[n] x"
)

test_becomes = remove_unused.all_become("""
    a dead op: a = Neg(x) y = Relu(x) => y = Relu(x)
    a dead chain: a = Neg(x) b = Abs(a) c = Exp(b) y = Relu(x) => y = Relu(x)
    a dead end of a live op: a = Neg(x) b = Abs(a) y = Relu(a) => a = Neg(x) y = Relu(a)
    a dead diamond: a = Neg(x) b = Abs(a) c = Add(a, b) y = Relu(x) => y = Relu(x)
    all outputs dead: a, i = TopK(x, [1]) y = Relu(x) => y = Relu(x)
    random numbers nobody reads: a = RandomNormalLike(x) y = Relu(x) => y = Relu(x)
    a dead Constant: k2 = Constant<value_float=1.0>() y = Relu(x) => y = Relu(x)
    the same value twice: a = Neg(x) b = Add(a, a) y = Relu(x) => y = Relu(x)
""")


@each(
    ("before", "after"),
    table(f"""
    unused initializer: g (float[2] x) => (float[2] y) <float[2] w = {{1,2}}, float[2] v = {{1,2}}> {{ y = Add(x, w) }}
        => g (float[2] x) => (float[2] y) <float[2] w = {{1,2}}> {{ y = Add(x, w) }}
    initializer of a dead op: g (float[2] x) => (float[2] y) <float[2] w = {{1,2}}> {{ a = Mul(x, w) y = Neg(x) }}
        => g (float[2] x) => (float[2] y) {{ y = Neg(x) }}
    inside If bodies: g (bool c, float[2] x) => (float[2] y) {{ y = If (c) <then_branch = p () => (float[2] r) {{
        a = Exp(x) b = Abs(a) r = Neg(x) }}, else_branch = q () => (float[2] s) <float[2] w = {{1,2}}> {{
        s = Relu(x) }}> }} => g (bool c, float[2] x) => (float[2] y) {{
        y = If (c) <then_branch = p () => (float[2] r) {{ r = Neg(x) }}, else_branch = q () => (float[2] s) {{
        s = Relu(x) }}> }}
    outside, captured by a dead op: g (bool c, float[2] x) => (float[2] y) <float[2] w = {{1,2}}> {{ e = Exp(x)
        y = If (c) <then_branch = p () => (float[2] r) {{ a = Mul(e, w) r = Neg(x) }},
        else_branch = q () => (float[2] s) {{ s = Relu(x) }}> }} => g (bool c, float[2] x) => (float[2] y) {{
        y = If (c) <then_branch = p () => (float[2] r) {{ r = Neg(x) }}, else_branch = q () => (float[2] s) {{
        s = Relu(x) }}> }}
    a dead If and its captured values: g (bool c, float[2] x) => (float[2] y) <float[2] w = {{1,2}}> {{ e = Exp(x)
        a = If (c) <then_branch = p () => (float[2] r) {{ r = Mul(e, w) }}, else_branch = q () => (float[2] s) {{
        s = Relu(x) }}> y = Neg(x) }} => g (bool c, float[2] x) => (float[2] y) {{ y = Neg(x) }}
    inside a Loop body: g (int64 n, float[2] x) => (float[2] y) <bool t = {{1}}> {{
        {LOOP.format("a = Neg(s) e = Exp(a) d = Identity(c) r = Abs(s)")} }}
        => g (int64 n, float[2] x) => (float[2] y) <bool t = {{1}}> {{ {LOOP.format("d = Identity(c) r = Abs(s)")} }}
    sequences: g (seq(float[2]) q, float[2] x) => (float[2] y) {{ a = SequenceInsert(q, x) b = SequenceLength(a)
        y = Neg(x) }} => g (seq(float[2]) q, float[2] x) => (float[2] y) {{ y = Neg(x) }}
    """),
)
def test_becomes_elsewhere(before: str, after: str) -> None:
    out = becomes(before, after, RemoveUnused())
    assert set(initializers(out)) == set(initializers(load(after)))


test_stays = remove_unused.all_stay("""
    unused input [x=float[2] x, float[2] z]: y = Neg(x)
    unused overridable input [x=float[2] x, float[2] w = {1,2}]: y = Neg(x)
    a graph output [graph=g (float[2] x) => (float[2] y, float[2] z)]: z = Abs(x) y = Neg(x)
    an initializer that is a graph output [graph=g (float[2] x) => (float[2] y, float[2] w)]: y = Neg(x)
    one of two outputs is read [x=float[4] x]: a, i = TopK(x, [2]) y = Concat<axis=0>(a, a)
    read inside an If body alone [x=bool c, float[2] x]: e = Exp(x) y = If(c) <then_branch = p () => (float[2] r) {
        r = Mul(e, w) }, else_branch = q () => (float[2] s) { s = Relu(x) }>
    read two bodies deep [x=bool c, bool k, float[2] x]: e = Exp(x) y = If(c) <then_branch = p () => (float[2] r) {
        r = If(k) <then_branch = u () => (float[2] v) { v = Neg(e) }, else_branch = w () => (float[2] z) {
        z = Abs(x) }> }, else_branch = q () => (float[2] s) { s = Relu(x) }>
    an initializer that a body returns [x=bool c, float[2] x]:
        y = If(c) <then_branch = p () => (float[2] r) <float[2] r = {1,2}> { }, else_branch = q () => (float[2] s) {
        s = Relu(x) }>
    unused inputs of a Loop body [graph=g (int64 n, float[2] x) => (float[2] y)]:
        y = Loop(n, t, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) { d = Identity(c)
        r = Abs(s) }>
""")


@each(
    "text",
    table(f"""
    dead: {G} {{ a = my.own.Log(x) y = Neg(x) }}
    dead, and its inputs: {G} {{ e = Exp(x) a = my.own.Log(e) y = Neg(x) }}
    inside a dead If: g (bool c, float[n] x) => (float[n] y) {{ a = If (c) <then_branch = p () => (float[n] r) {{
        r = my.own.Log(x) }}, else_branch = q () => (float[n] s) {{ s = Relu(x) }}> y = Neg(x) }}
    dead, inside an If body: g (bool c, float[n] x) => (float[n] y) {{ y = If (c) <then_branch = p () => (float[n] r) {{
        a = my.own.Log(x) r = Neg(x) }}, else_branch = q () => (float[n] s) {{ s = Relu(x) }}> }}
    """),
)
def test_unknown_domains_stay(text: str) -> None:
    """An unknown operator may have side effects."""
    model = load(text)
    model.opset_import.append(helper.make_opsetid("my.own", 1))
    result, change_log = apply_passes(model, RemoveUnused())
    assert not change_log.changes
    assert to_onnx(result) == model


@given(
    edges=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9), wanted=st.integers(0, 8)
)
def test_only_ops_needed_by_outputs_remain(edges: list[tuple[int, int]], wanted: int) -> None:
    """Op i reads two of the values before it."""
    sources = [(a % (i + 1), b % (i + 1)) for i, (a, b) in enumerate(edges)]
    names = ["x", *(f"v{i}" for i in range(len(sources)))]
    lines = [f"v{i} = Max({names[a]}, {names[b]})" for i, (a, b) in enumerate(sources)]
    goal = wanted % len(sources) + 1
    model = load(f"{G} {{ {' '.join(lines)} y = Neg({names[goal]}) }}")
    result, _ = apply_passes(model, RemoveUnused())
    out = to_onnx(result)
    needed, queue = set(), [goal]
    while queue:
        v = queue.pop()
        if v and v not in needed:
            needed.add(v)
            queue += sources[v - 1]
    checker.check_model(out)
    assert [n.output[0] for n in out.graph.node] == [*(names[v] for v in sorted(needed)), "y"]
    assert op_types(out).count("Max") == len(needed)
    require_equivalent(model, out, exact=True)


def test_bodies_of_dead_ops_are_removed() -> None:
    """It is one change: the ops of the body are no longer in the model."""
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = Relu(x)
        i = If(c) <
            then_branch = t () => (float[2] a) { d = Neg(x) a = Abs(x) },
            else_branch = e () => (float[2] b) { b = Neg(x) }
        >
    }"""
    result, change_log = apply_passes(load(text), RemoveUnused())
    assert [op.type for op in result.graph.ops()] == ["Relu"]
    assert [c.place for c in change_log.changes] == ["i"]
