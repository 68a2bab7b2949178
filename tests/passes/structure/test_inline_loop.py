"""Loops that run once or never."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from passwright.core import to_onnx
from passwright.passes.structure.loops import InlineLoop
from rewrite_tables import Rewrites
from rewriting import apply_passes, each, load, op_types, require_equivalent, stays

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

WEIGHTS = {"one": 1, "two": 2, "none": 0, "less": -3, "t": np.bool_(1), "f": np.bool_(0)}
loops = Rewrites("g (int64 k, bool e, float[2] x, float[2] z) => (float[n] y)", InlineLoop(), weights=WEIGHTS)

test_becomes = loops.all_become(f"""
    once: y = {loop("one, t, x", KEEP + " b = Neg(a)")} => y = Neg(x)
    once, without a condition: y = {loop("one, , x", KEEP + " b = Neg(a)")} => y = Neg(x)
    ends after once: y = {loop("two, t, x", "b = Neg(a)", constants="<bool o = {0}>")} => y = Neg(x)
    ends after once, with no limit: y = {loop(", t, x", "o = Identity(p) b = Neg(a)", constants="<bool p = {0}>")}
        => y = Neg(x)
    captured values, and a value that it starts from too:
        l = Exp(z) q = {loop("one, t, l", KEEP + " d = Add(a, x) b = Mul(d, l)")} y = Neg(q)
        => l = Exp(z) d = Add(l, x) q = Mul(d, l) y = Neg(q)
    carried values change places: y, q = {loop("one, t, x, z", KEEP, "a d", "d a")} => y = Identity(z)
    the number of the trip: q = {loop("one, t, x", KEEP + " d = Cast<to=1>(i) b = Add(a, d)")} y = Neg(q)
        => d = Cast<to=1>(none) q = Add(x, d) y = Neg(q)
    the condition: q = {loop("one, t, x", KEEP + " d = Where(c, a, z) b = Neg(d)")} y = Neg(q)
        => d = Where(t, x, z) q = Neg(d) y = Neg(q)
    constants of the body: q = {loop("one, t, x", KEEP + " b = Mul(a, w)", constants="<float[2] w = {1,2}>")} y = Neg(q)
        => q = Mul(x, t) y = Neg(q)
    names that are borne outside: q = {loop("one, t, x", KEEP + " w = Abs(a) b = Exp(w)")} w = Neg(q) y = Sqrt(w)
        => v = Abs(x) q = Exp(v) w = Neg(q) y = Sqrt(w)
    one in the other: y = {loop("one, t, x", KEEP + " r = " + INNER + " b = Exp(r)")} => r = Neg(x) y = Exp(r)
    never: y = {loop("none, t, x", KEEP + " b = Neg(a)")} => y = Identity(x)
    less than never: q = {loop("less, e, x", KEEP + " b = Neg(a)")} y = Exp(q) => y = Exp(x)
    the condition is false: q = {loop("k, f, x", KEEP + " b = Neg(a)")} y = Exp(q) => y = Exp(x)
    never, and no stack is read:
        l = Exp(z) q, u = {loop("none, t, l", KEEP + " b = Neg(a) d = Abs(x)", "a", "b d")} y = Neg(q)
        => l = Exp(z) y = Neg(l)
""")

test_scan_outputs = loops.using(
    graph="g (int64 k, bool e, float[2] x, float[2] z) => (float[n] y, float[a,b] u)"
).all_become(f"""
    of a computed value: y, u = {loop("one, t, x", KEEP + " b = Neg(a) d = Abs(b)", "a", "b d")}
        => y = Neg(x) d = Abs(y) u = Unsqueeze(d, one)
    of a carried value: y, u = {loop("one, t, x", KEEP + " b = Neg(a)", "a", "b a")} => y = Neg(x) u = Unsqueeze(x, one)
""")


@each(("opset", "inputs"), [(9, 1), (11, 1), (13, 2), (21, 2)])
def test_unsqueeze_axes_by_opset(opset: int, inputs: int) -> None:
    model = load(f"{G2} {{ y, u = {loop('one, t, x', KEEP + ' b = Neg(a) d = Abs(b)', 'a', 'b d')} }}", opset)
    result, _ = apply_passes(model, InlineLoop())
    out = to_onnx(result)
    assert [len(n.input) for n in out.graph.node if n.op_type == "Unsqueeze"] == [inputs]
    require_equivalent(model, out, exact=True)


@each(
    "text",
    {
        "twice": (loop("two, t, x", f"{KEEP} b = Neg(a)")),
        "nobody knows how often": (loop("k, t, x", f"{KEEP} b = Neg(a)")),
        "once or never": (loop("one, e, x", f"{KEEP} b = Neg(a)")),
        "once or never, by its number": (loop("k, t, x", "b = Neg(a)", constants="<bool o = {0}>")),
        "the body's condition may not count": (loop("two, , x", "b = Neg(a)", constants="<bool o = {0}>")),
        "does not end after once": (loop("two, t, x", "b = Neg(a)", constants="<bool o = {1}>")),
    },
)
def test_stays(text: str) -> None:
    stays(f"{G} {{ y = {text} }}", InlineLoop())


def test_scan_output_of_zero_trips_stays() -> None:
    text = loop("none, t, x", f"{KEEP} b = Neg(a) d = Abs(a)", "a", "b d")
    stays(f"{G2} {{ y, u = {text} }}", InlineLoop())


@each(
    ("outs", "fits"),
    {"as many": ("b d", True), "one for the Loop, one for its end": ("b d r", True), "more": ("b d r s", False)},
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


@given(trips=st.integers(-1, 3), start=st.booleans(), on=st.booleans(), order=st.permutations(range(3)))
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
