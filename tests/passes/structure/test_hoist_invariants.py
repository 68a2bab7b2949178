"""Hoisting of loop-invariant ops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import to_onnx
from passwright.passes.structure.loops import HoistInvariants
from rewrite_tables import Rewrites
from rewriting import apply_passes, each, load, op_types, require_equivalent, stays

G = "g (int64 k, float[2] x, float[2] z, float[2,2] m, int64[2] j, string[2] w) => (float[n] y) <bool t = {1}>"
KEEP = "o = Identity(c)"


def loop(ops: str, ins: str = "a", outs: str = "b", inits: str = "x", constants: str = "") -> str:
    carried = "".join(f", float[2] {v}" for v in ins.split())
    results = "".join(f", float[2] {v}" for v in outs.split())
    starts = "".join(f", {v}" for v in inits.split())
    head = f"Loop (k, t{starts}) <body = b (int64 i, bool c{carried}) => (bool o{results})"
    return f"{head} {constants} {{ {KEEP} {ops} }}>"


INNER = (
    "Loop (k, t, a) <body = d (int64 n, bool h, float[2] l) => (bool p, float[2] r)"
    " { p = Identity(h) q = Exp(z) s = Add(q, a) r = Mul(l, s) }>"
)
INNER_AFTER = INNER.replace("q = Exp(z) s = Add(q, a) ", "")

hoist_invariants = Rewrites(
    "g (int64 k, float[2] x, float[2] z, float[2,2] m, int64[2] j, string[2] w) => (float[n] y)",
    HoistInvariants(),
    weights={"t": np.bool_(1)},
)

test_becomes = hoist_invariants.all_become(f"""
    a chain: y = {loop("e = Exp(z) f = Neg(e) b = Add(a, f)")} => e = Exp(z) f = Neg(e) y = {loop("b = Add(a, f)")}
    a product: y = {loop("e = MatMul(m, m) f = MatMul(e, a) b = Add(a, f)")}
        => e = MatMul(m, m) y = {loop("f = MatMul(e, a) b = Add(a, f)")}
    constants of the body: y = {loop("e = Mul(z, v) b = Add(a, e)", constants="<float[1] v = {2}>")}
        => e = Mul(z, t) y = {loop("b = Add(a, e)")}
    names that are borne outside: e = Neg(x) l = {loop("e = Exp(z) b = Add(a, e)")} y = Add(e, l)
        => e = Neg(x) f = Exp(z) l = {loop("b = Add(a, f)")} y = Add(e, l)
    out of two Loops, and out of one: y = {loop(f"r = {INNER} b = Add(a, r)")}
        => q = Exp(z) y = {loop(f"s = Add(q, a) r = {INNER_AFTER} b = Add(a, r)")}
    a carried value that does not change:
        q, e = {loop("b = Add(a, d) f = Identity(d)", "a d", "b f", "x z")} y = Add(q, e)
        => q = {loop("b = Add(a, z)")} y = Add(q, z)
    one that the body returns as it is: e, y = {loop("b = Add(a, d)", "d a", "d b", "z x")}
        => y = {loop("b = Add(a, z)")}
    and its consumers: l = Exp(z) e, y = {loop("f = Neg(d) b = Add(a, f)", "d a", "d b", "l x")}
        => l = Exp(z) f = Neg(l) y = {loop("b = Add(a, f)")}
    a Loop that does nothing: l = Neg(x) y = {loop("b = Identity(a)", inits="l")} => y = Neg(x)
""")

test_scans = hoist_invariants.using(graph="g (float[2] x, float[2] z, float[N,2] p) => (float[] y)").all_become("""
    an op: y, q = Scan(x, p) <body = b (float[2] a, float[2] s) => (float[2] d, float[2] e) { f = Exp(z) g = Add(a, f)
        d = Add(g, s) e = Neg(d) }, num_scan_inputs = 1> => f = Exp(z)
        y, q = Scan(x, p) <body = b (float[2] a, float[2] s) => (float[2] d, float[2] e) { g = Add(a, f) d = Add(g, s)
        e = Neg(d) }, num_scan_inputs = 1>
    a carried value: y, q = Scan(x, z, p) <body = b (float[2] a, float[2] l, float[2] s) => (float[2] d, float[2] e) {
        g = Add(a, l) d = Add(g, s) e = Identity(l) }, num_scan_inputs = 1> =>
        y = Scan(x, p) <body = b (float[2] a, float[2] s) => (float[2] d) { g = Add(a, z)
        d = Add(g, s) }, num_scan_inputs = 1>
    constants still used by the body [graph=g (int64 k, float[2] x, float[2] z, float[2,2] m, int64[2] j, string[2] w)
        => (float[n] y)]:
        y = Loop(k, t, x) <body = b (int64 i, bool c, float[2] a) => (bool o, float[2] b) <float[1] v = {2}> {
        o = Identity(c) e = Mul(z, v) f = Add(a, e) b = Sub(f, v) }> => e = Mul(z, v)
        y = Loop(k, t, x) <body = b (int64 i, bool c, float[2] a) => (bool o, float[2] b) { o = Identity(c)
        f = Add(a, e) b = Sub(f, v) }>
    invariant scan output [graph=g (int64 k, float[2] x, float[2] z, float[2,2] m, int64[2] j, string[2] w) => (float[n]
        y)]: q, u = Loop(k, t, x) <body = b (int64 i, bool c, float[2] a) => (bool o, float[2] b, float[2] f) {
        o = Identity(c) b = Identity(a) f = Mul(a, z) }> y = ReduceSum<keepdims=0>(u) =>
        u = Loop(k, t) <body = b (int64 i, bool c) => (bool o, float[2] f) { o = Identity(c) f = Mul(x, z) }>
        y = ReduceSum<keepdims=0>(u)
""")


@each(
    "text",
    {
        "of a carried value": ("y = " + loop("e = Exp(a) b = Add(a, e)")),
        "of the number of the trip": ("y = " + loop("e = Cast<to=1>(i) b = Add(a, e)")),
        "a body may not return an outer value itself": ("y = " + loop("b = Exp(z)")),
        "carried values change places": (f"q, y = {loop('b = Identity(d) f = Identity(a)', 'a d', 'b f', 'x z')}"),
    },
)
def test_stays(text: str) -> None:
    stays(f"{G} {{ {text} }}", HoistInvariants())


test_possibly_failing_ops_stay = hoist_invariants.using(runs=False).all_stay("""
    an index may be out of range: y = Loop(k, t, x) <body = b (int64 i, bool c, float[2] a) => (bool o, float[2] b) {
        o = Identity(c) e = Gather(z, j) b = Add(a, e) }>
    integers divided by zero: y = Loop(k, t, x) <body = b (int64 i, bool c, float[2] a) => (bool o, float[2] b) {
        o = Identity(c) e = Div(j, j) f = Cast<to=1>(e) b = Add(a, f) }>
    text may not be a number: y = Loop(k, t, x) <body = b (int64 i, bool c, float[2] a) => (bool o, float[2] b) {
        o = Identity(c) e = Cast<to=1>(w) b = Add(a, e) }>
    a shape may not fit: y = Loop(k, t, x) <body = b (int64 i, bool c, float[2] a) => (bool o, float[2] b) {
        o = Identity(c) e = Expand(z, j) f = ReduceMax<keepdims=0>(e) b = Add(a, f) }>
    random: y = Loop(k, t, x) <body = b (int64 i, bool c, float[2] a) => (bool o, float[2] b) { o = Identity(c)
        e = RandomNormalLike(z) b = Add(a, e) }>
    possibly mismatched shapes stay [graph=g (int64 k, float[2] x, float[A] f, float[B] g, float[2] z, float[2,2] m,
        int64[2] j, string[2] w) => (float[n] y)]:
        y = Loop(k, t, x) <body = b (int64 i, bool c, float[2] a) => (bool o, float[2] b) { o = Identity(c)
        e = Mul(f, g) l = ReduceSum<keepdims=0>(e) b = Add(a, l) }>
    branches stay [runs]: y = Loop(k, t, x) <body = b (int64 i, bool c, float[2] a) => (bool o, float[2] b) {
        o = Identity(c) b = If(c) <then_branch = q () => (float[2] r) { l = Exp(z) r = Mul(a, l) },
        else_branch = s () => (float[2] v) { v = Neg(a) }> }>
    loop input as output stays [runs]: e, y = Loop(k, t, x, z) <body = b (int64 i, bool c, float[2] a, float[2] d) =>
        (bool o, float[2] b, float[2] d) { o = Identity(c) b = Add(a, d) }>
""")


@given(same=st.lists(st.booleans(), min_size=3, max_size=3))
def test_any_carried_values(same: list[bool]) -> None:
    ops = " ".join(f"b{i} = {'Identity' if s else 'Neg'}(a{i})" for i, s in enumerate(same))
    ops += " e = Add(a0, a1) f = Add(e, a2)"
    text = loop(ops, "a0 a1 a2", "b0 b1 b2 f", "l0 l1 l2")
    model = load(
        f"{G} {{ l0 = Neg(x) l1 = Exp(x) l2 = Abs(z) u, v, r, q = {text}"
        " s = Add(u, v) w0 = Add(s, r) d = ReduceSum<keepdims=0>(q) y = Add(w0, d) }"
    )
    result, _ = apply_passes(model, HoistInvariants())
    out = to_onnx(result)
    (node,) = (n for n in out.graph.node if n.op_type == "Loop")
    assert len(node.input) == 2 + same.count(False)
    assert op_types(out).count("Add") == 3 + (same[0] and same[1])
    require_equivalent(model, out, exact=True)
