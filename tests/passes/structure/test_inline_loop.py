"""Loops that run once or never."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from passwright.core import to_onnx
from passwright.passes.structure.loops import InlineLoop
from rewriting import apply_passes, becomes, load, op_types, require_equivalent, stays

CONSTANTS = "<int64 one = {1}, int64 two = {2}, int64 none = {0}, int64 less = {-3}, bool t = {1}, bool f = {0}>"
G = f"g (int64 k, bool e, float[2] x, float[2] z) => (float[n] y) {CONSTANTS}"
G2 = f"g (int64 k, bool e, float[2] x, float[2] z) => (float[n] y, float[a,b] u) {CONSTANTS}"


def loop(inits: str, ops: str, ins: str = "a", outs: str = "b", constants: str = "") -> str:
    carried = "".join(f", float[2] {v}" for v in ins.split())
    results = "".join(f", float[2] {v}" for v in outs.split())
    return f"Loop ({inits}) <body = b (int64 i, bool c{carried}) => (bool o{results}) {constants} {{ {ops} }}>"


KEEP = "o = Identity(c)"
INNER = (
    "Loop (one, t, a) <body = d (int64 j, bool h, float[2] l) => (bool p, float[2] m) { p = Identity(h) m = Neg(l) }>"
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(f"y = {loop('one, t, x', KEEP + ' b = Neg(a)')}", "y = Neg(x)", id="once"),
        pytest.param(f"y = {loop('one, , x', KEEP + ' b = Neg(a)')}", "y = Neg(x)", id="once, without a condition"),
        pytest.param(
            f"y = {loop('two, t, x', 'b = Neg(a)', constants='<bool o = {0}>')}", "y = Neg(x)", id="ends after once"
        ),
        pytest.param(
            f"y = {loop(', t, x', 'o = Identity(p) b = Neg(a)', constants='<bool p = {0}>')}",
            "y = Neg(x)",
            id="ends after once, with no limit",
        ),
        pytest.param(
            f"l = Exp(z) q = {loop('one, t, l', KEEP + ' d = Add(a, x) b = Mul(d, l)')} y = Neg(q)",
            "l = Exp(z) d = Add(l, x) q = Mul(d, l) y = Neg(q)",
            id="captured values, and a value that it starts from too",
        ),
        pytest.param(
            f"y, q = {loop('one, t, x, z', KEEP, 'a d', 'd a')}", "y = Identity(z)", id="carried values change places"
        ),
        pytest.param(
            f"q = {loop('one, t, x', KEEP + ' d = Cast<to=1>(i) b = Add(a, d)')} y = Neg(q)",
            "d = Cast<to=1>(none) q = Add(x, d) y = Neg(q)",
            id="the number of the trip",
        ),
        pytest.param(
            f"q = {loop('one, t, x', KEEP + ' d = Where(c, a, z) b = Neg(d)')} y = Neg(q)",
            "d = Where(t, x, z) q = Neg(d) y = Neg(q)",
            id="the condition",
        ),
        pytest.param(
            f"q = {loop('one, t, x', KEEP + ' b = Mul(a, w)', constants='<float[2] w = {1,2}>')} y = Neg(q)",
            "q = Mul(x, t) y = Neg(q)",
            id="constants of the body",
        ),
        pytest.param(
            f"q = {loop('one, t, x', KEEP + ' w = Abs(a) b = Exp(w)')} w = Neg(q) y = Sqrt(w)",
            "v = Abs(x) q = Exp(v) w = Neg(q) y = Sqrt(w)",
            id="names that are borne outside",
        ),
        pytest.param(
            f"y = {loop('one, t, x', KEEP + ' r = ' + INNER + ' b = Exp(r)')}",
            "r = Neg(x) y = Exp(r)",
            id="one in the other",
        ),
        pytest.param(f"y = {loop('none, t, x', KEEP + ' b = Neg(a)')}", "y = Identity(x)", id="never"),
        pytest.param(f"q = {loop('less, e, x', KEEP + ' b = Neg(a)')} y = Exp(q)", "y = Exp(x)", id="less than never"),
        pytest.param(
            f"q = {loop('k, f, x', KEEP + ' b = Neg(a)')} y = Exp(q)", "y = Exp(x)", id="the condition is false"
        ),
        pytest.param(
            f"l = Exp(z) q, u = {loop('none, t, l', KEEP + ' b = Neg(a) d = Abs(x)', 'a', 'b d')} y = Neg(q)",
            "l = Exp(z) y = Neg(l)",
            id="never, and no stack is read",
        ),
    ],
)  # fmt: skip
def test_becomes(before: str, after: str) -> None:
    becomes(f"{G} {{ {before} }}", f"{G} {{ {after} }}", InlineLoop())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            f"y, u = {loop('one, t, x', KEEP + ' b = Neg(a) d = Abs(b)', 'a', 'b d')}",
            "y = Neg(x) d = Abs(y) u = Unsqueeze(d, one)",
            id="of a computed value",
        ),
        pytest.param(
            f"y, u = {loop('one, t, x', KEEP + ' b = Neg(a)', 'a', 'b a')}",
            "y = Neg(x) u = Unsqueeze(x, one)",
            id="of a carried value",
        ),
    ],
)
def test_scan_outputs(before: str, after: str) -> None:
    becomes(f"{G2} {{ {before} }}", f"{G2} {{ {after} }}", InlineLoop())


@pytest.mark.parametrize(("opset", "inputs"), [(9, 1), (11, 1), (13, 2), (21, 2)])
def test_unsqueeze_axes_by_opset(opset: int, inputs: int) -> None:
    model = load(f"{G2} {{ y, u = {loop('one, t, x', KEEP + ' b = Neg(a) d = Abs(b)', 'a', 'b d')} }}", opset)
    result, _ = apply_passes(model, InlineLoop())
    out = to_onnx(result)
    assert [len(n.input) for n in out.graph.node if n.op_type == "Unsqueeze"] == [inputs]
    require_equivalent(model, out, exact=True)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(loop("two, t, x", f"{KEEP} b = Neg(a)"), id="twice"),
        pytest.param(loop("k, t, x", f"{KEEP} b = Neg(a)"), id="nobody knows how often"),
        pytest.param(loop("one, e, x", f"{KEEP} b = Neg(a)"), id="once or never"),
        pytest.param(loop("k, t, x", "b = Neg(a)", constants="<bool o = {0}>"), id="once or never, by its number"),
        pytest.param(
            loop("two, , x", "b = Neg(a)", constants="<bool o = {0}>"), id="the body's condition may not count"
        ),
        pytest.param(loop("two, t, x", "b = Neg(a)", constants="<bool o = {1}>"), id="does not end after once"),
    ],
)
def test_stays(text: str) -> None:
    stays(f"{G} {{ y = {text} }}", InlineLoop())


def test_scan_output_of_zero_trips_stays() -> None:
    text = loop("none, t, x", f"{KEEP} b = Neg(a) d = Abs(a)", "a", "b d")
    stays(f"{G2} {{ y, u = {text} }}", InlineLoop())


@pytest.mark.parametrize(
    ("outs", "fits"),
    [
        pytest.param("b d", True, id="as many"),
        pytest.param("b d r", True, id="one for the Loop, one for its end"),
        pytest.param("b d r s", False, id="more"),
    ],
)
def test_node_count_never_grows(outs: str, fits: bool) -> None:
    ops = "l = Neg(a) r = Abs(a) s = Exp(a) d = Sqrt(a) b = Identity(l)"
    names = ["y", "p", "q", "w"][: len(outs.split())]
    reads = " ".join(f"s{n} = Shape({n})" for n in names[1:])
    text = f"{', '.join(names)} = {loop('one, t, x', f'{KEEP} {ops}', 'a', outs)} {reads}"
    outputs = ", ".join(f"int64[m] s{n}" for n in names[1:])
    model = load(f"{G.replace('(float[n] y)', f'(float[n] y, {outputs})')} {{ {text} }}")
    result, change_log = apply_passes(model, InlineLoop())
    assert bool(change_log.changes) == fits
    require_equivalent(model, to_onnx(result), exact=True)


def test_an_overridable_count_stays() -> None:
    head = "g (float[2] x, int64 m = {1}) => (float[n] y) <bool t = {1}>"
    stays(f"{head} {{ y = {loop('m, t, x', KEEP + ' b = Neg(a)')} }}", InlineLoop())


def test_opaque_ops_are_kept() -> None:
    model = load(f"{G} {{ y = {loop('one, t, x', KEEP + ' b = Neg(a) d = my.own.Log(a)')} }}")
    model.opset_import.append(helper.make_opsetid("my.own", 1))
    result, _ = apply_passes(model, InlineLoop())
    assert op_types(to_onnx(result)) == ["Neg", "Log"]


def test_declared_shapes_of_body_inputs_are_ignored() -> None:
    """The extents of a carried value may change from trip to trip, and its declared shape is not checked."""
    text = (
        loop("one, t, x", f"{KEEP} b = Neg(a)").replace("float[2] a", "float[7] a").replace("float[2] b", "float[m] b")
    )
    model = load(f"{G.replace('float[2] x', 'float[N] x')} {{ q = {text} y = Add(q, x) }}")
    result, _ = apply_passes(model, InlineLoop())
    assert result.graph.inputs[2].shape == ("N",)
    assert op_types(to_onnx(result)) == ["Neg", "Add"]


@given(
    trips=st.integers(-1, 3),
    start=st.booleans(),
    on=st.booleans(),
    order=st.permutations(range(3)),
)
def test_any_count(trips: int, start: bool, on: bool, order: list[int]) -> None:
    ins, outs = ["a0", "a1", "a2"], [f"b{i}" for i in order]
    ops = "b0 = Neg(a0) b1 = Add(a1, a0) b2 = Exp(a2)"
    text = loop("m, s, x, z, x", ops, " ".join(ins), " ".join(outs), f"<bool o = {{{int(on)}}}>")
    head = f"g (float[2] x, float[2] z) => (float[n] y) <int64 m = {{{trips}}}, bool s = {{{int(start)}}}>"
    model = load(f"{head} {{ y, p, q = {text} }}")
    result, _ = apply_passes(model, InlineLoop())
    out = to_onnx(result)
    runs = min(trips, 3 if on else 1) if start and trips > 0 else 0
    assert ("Loop" in op_types(out)) == (runs > 1)
    require_equivalent(model, out, exact=True)
