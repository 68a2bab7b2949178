"""Hoisting of loop-invariant ops."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import to_onnx
from passwright.passes.structure.loops import HoistInvariants
from rewriting import apply_passes, becomes, cases, load, op_types, require_equivalent, stays

G = "g (int64 k, float[2] x, float[2] z, float[2,2] m, int64[2] j, string[2] w) => (float[n] y) <bool t = {1}>"
S = "g (float[2] x, float[2] z, float[N,2] p) => (float[n] y)"
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


@cases(
    ("before", "after"),
    {
        "a chain": (
            f"y = {loop('e = Exp(z) f = Neg(e) b = Add(a, f)')}",
            f"e = Exp(z) f = Neg(e) y = {loop('b = Add(a, f)')}"),
        "a product": (
            f"y = {loop('e = MatMul(m, m) f = MatMul(e, a) b = Add(a, f)')}",
            f"e = MatMul(m, m) y = {loop('f = MatMul(e, a) b = Add(a, f)')}"),
        "constants of the body": (
            f"y = {loop('e = Mul(z, v) b = Add(a, e)', constants='<float[1] v = {2}>')}",
            f"e = Mul(z, t) y = {loop('b = Add(a, e)')}"),
        "names that are borne outside": (
            f"e = Neg(x) l = {loop('e = Exp(z) b = Add(a, e)')} y = Add(e, l)",
            f"e = Neg(x) f = Exp(z) l = {loop('b = Add(a, f)')} y = Add(e, l)"),
        "out of two Loops, and out of one": (
            f"y = {loop(f'r = {INNER} b = Add(a, r)')}",
            f"q = Exp(z) y = {loop(f's = Add(q, a) r = {INNER_AFTER} b = Add(a, r)')}"),
        "a carried value that does not change": (
            f"q, e = {loop('b = Add(a, d) f = Identity(d)', 'a d', 'b f', 'x z')} y = Add(q, e)",
            f"q = {loop('b = Add(a, z)')} y = Add(q, z)"),
        "one that the body returns as it is": (
            f"e, y = {loop('b = Add(a, d)', 'd a', 'd b', 'z x')}",
            f"y = {loop('b = Add(a, z)')}"),
        "and its consumers": (
            f"l = Exp(z) e, y = {loop('f = Neg(d) b = Add(a, f)', 'd a', 'd b', 'l x')}",
            f"l = Exp(z) f = Neg(l) y = {loop('b = Add(a, f)')}"),
        "a Loop that does nothing": (
            f"l = Neg(x) y = {loop('b = Identity(a)', inits='l')}", "y = Neg(x)"),
    },
)  # fmt: skip
def test_becomes(before: str, after: str) -> None:
    becomes(f"{G} {{ {before} }}", f"{G} {{ {after} }}", HoistInvariants())


def test_constants_still_used_by_the_body() -> None:
    before = f"y = {loop('e = Mul(z, v) f = Add(a, e) b = Sub(f, v)', constants='<float[1] v = {2}>')}"
    after = f"e = Mul(z, v) y = {loop('f = Add(a, e) b = Sub(f, v)')}"
    head = G.replace("{1}>", "{1}, float[1] v = {2}>")
    becomes(f"{G} {{ {before} }}", f"{head} {{ {after} }}", HoistInvariants())


def test_invariant_scan_output() -> None:
    before = f"q, u = {loop('b = Identity(a) f = Mul(a, z)', outs='b f')} y = ReduceSum<keepdims=0>(u)"
    after = f"u = {loop('f = Mul(x, z)', '', 'f', '')} y = ReduceSum<keepdims=0>(u)"
    becomes(f"{G} {{ {before} }}", f"{G} {{ {after} }}", HoistInvariants())


@cases(
    ("before", "after"),
    {
        "an op": (
            (
                "y, q = Scan (x, p) <body = b (float[2] a, float[2] s) => (float[2] d, float[2] e)"
                " { f = Exp(z) g = Add(a, f) d = Add(g, s) e = Neg(d) }, num_scan_inputs = 1>"
            ),
            (
                "f = Exp(z) y, q = Scan (x, p) <body = b (float[2] a, float[2] s) => (float[2] d, float[2] e)"
                " { g = Add(a, f) d = Add(g, s) e = Neg(d) }, num_scan_inputs = 1>"
            ),
        ),
        "a carried value": (
            (
                "y, q = Scan (x, z, p) <body = b (float[2] a, float[2] l, float[2] s) => (float[2] d, float[2] e)"
                " { g = Add(a, l) d = Add(g, s) e = Identity(l) }, num_scan_inputs = 1>"
            ),
            (
                "y = Scan (x, p) <body = b (float[2] a, float[2] s) => (float[2] d)"
                " { g = Add(a, z) d = Add(g, s) }, num_scan_inputs = 1>"
            ),
        ),
    },
)
def test_scans(before: str, after: str) -> None:
    becomes(f"{S} {{ {before} }}", f"{S} {{ {after} }}", HoistInvariants())


@cases(
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


@cases(
    "ops",
    {
        "an index may be out of range": ("e = Gather(z, j) b = Add(a, e)"),
        "integers divided by zero": ("e = Div(j, j) f = Cast<to=1>(e) b = Add(a, f)"),
        "text may not be a number": ("e = Cast<to=1>(w) b = Add(a, e)"),
        "a shape may not fit": ("e = Expand(z, j) f = ReduceMax<keepdims=0>(e) b = Add(a, f)"),
        "random": ("e = RandomNormalLike(z) b = Add(a, e)"),
    },
)
def test_possibly_failing_ops_stay(ops: str) -> None:
    stays(f"{G} {{ y = {loop(ops)} }}", HoistInvariants(), runs=False)


def test_possibly_mismatched_shapes_stay() -> None:
    text = G.replace("float[2] x", "float[2] x, float[A] f, float[B] g")
    stays(f"{text} {{ y = {loop('e = Mul(f, g) l = ReduceSum<keepdims=0>(e) b = Add(a, l)')} }}", HoistInvariants(),
          runs=False)  # fmt: skip


def test_branches_stay() -> None:
    """Ops inside an If may never run."""
    branch = (
        "If (c) <then_branch = q () => (float[2] r) { l = Exp(z) r = Mul(a, l) },"
        " else_branch = s () => (float[2] v) { v = Neg(a) }>"
    )
    stays(f"{G} {{ y = {loop(f'b = {branch}')} }}", HoistInvariants())


def test_loop_input_as_output_stays() -> None:
    """An Identity would be needed between them."""
    stays(f"{G} {{ e, y = {loop('b = Add(a, d)', 'a d', 'b d', 'x z')} }}", HoistInvariants())


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
