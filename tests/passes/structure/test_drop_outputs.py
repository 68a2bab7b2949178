"""Removal of unused outputs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from passwright.core import from_onnx, to_onnx
from passwright.core.errors import GraphError
from passwright.core.ir.graph import drop_output
from passwright.passes.structure.drop_outputs import DropOutputs
from rewrite_tables import Rewrites
from rewriting import apply_passes, load, op_types, require_equivalent

LSTM = "g (float[S,2,3] x, float[1,16,3] w, float[1,16,4] r) => (float[a,b,d] y, float[e,f,h] z)"
GRU = "g (float[S,2,3] x, float[1,12,3] w, float[1,12,4] r) => (float[a,b,d] y)"
G = "g (bool c, int64 k, float[2] x, float[2] z) => (float[n] y) <bool t = {1}>"
S = "g (float[2] x, float[N,2] p, float[N,2] q) => (float[n] y)"

rewrites = Rewrites("g ({x}) => (float[] y)", DropOutputs(), x="float[2,3] x")

test_optional_outputs = rewrites.all_become("""
    mask of Dropout: a, m = Dropout(x) y = Neg(a) => a = Dropout(x) y = Neg(a)
    the first output of an LSTM [graph=g (float[S,2,3] x, float[1,16,3] w, float[1,16,4] r) => (float[a,b,d] y,
        float[e,f,h] z)]: o, y, z = LSTM<hidden_size=4>(x, w, r) => , y, z = LSTM<hidden_size=4>(x, w, r)
    an inner one [graph=g (float[S,2,3] x, float[1,16,3] w, float[1,16,4] r) => (float[a,b,d] y, float[e,f,h] z)]:
        o, h, z = LSTM<hidden_size=4>(x, w, r) y = Neg(h) => , h, z = LSTM<hidden_size=4>(x, w, r) y = Neg(h)
    the first output of a GRU [x=float[S,2,3] x, float[1,12,3] w, float[1,12,4] r]:
        o, h = GRU<hidden_size=4>(x, w, r) y = Neg(h) => , h = GRU<hidden_size=4>(x, w, r) y = Neg(h)
    of an RNN [x=float[S,2,3] x, float[1,4,3] w, float[1,4,4] r]: o, y = RNN<hidden_size=4>(x, w, r)
        => , y = RNN<hidden_size=4>(x, w, r)
    mean and deviation [x=float[2,3] x, float[3] s]: y, m, v = LayerNormalization(x, s) => y = LayerNormalization(x, s)
    the deviation alone [graph=g (float[2,3] x, float[3] s) => (float[2,3] y, float[2,1] m)]:
        y, m, v = LayerNormalization(x, s) => y, m = LayerNormalization(x, s)
    some in the middle [graph=g (float[6] x) => (float[n] y, int64[m] k)]: y, i, j, k = Unique(x)
        => y, , , k = Unique(x)
    the last three [x=float[6] x]: y, i, j, k = Unique(x) => y = Unique(x)
""")

test_needed_outputs_stay = rewrites.all_stay("""
    TopK [x=float[4] x]: y, i = TopK(x, [2])
    Split [opset=13; x=float[6,2] x]: y, i = Split<axis=0>(x)
    MaxPool [x=float[1,1,4,4] x]: y, i = MaxPool<kernel_shape=[2,2]>(x)
    all are read [graph=g (float[2,3] x, float[3] s) => (float[2,3] y, float[2,1] m)]: y, m = LayerNormalization(x, s)
    nothing is read: y = Neg(x) a, m = Dropout(x)
    left out already [graph=g (float[6] x) => (float[n] y, int64[m] k)]: y, , , k = Unique(x)
    training outputs of batchnorm stay [x=float[2,3] x, float[3] s; runs=False]:
        y, b, c = BatchNormalization<training_mode=1>(x, s, s, s, s)
""")


def test_used_output_cannot_be_dropped() -> None:
    model = from_onnx(load("g (float[2] x) => (float[2] y) { a, m = Dropout(x) y = Neg(a) }"))
    (op,) = model.graph.ops("Dropout")
    with pytest.raises(GraphError, match="cannot drop a of Dropout a: it is still used"):
        drop_output(op, 0)
    drop_output(op, 1)
    model.graph.validate()
    assert [v.name for v in op.outputs] == ["a"]


def when(then: str, otherwise: str, outs: str, others: str) -> str:
    first, second = (", ".join(f"float[n] {o}" for o in names.split()) for names in (outs, others))
    return f"If (c) <then_branch = p () => ({first}) {{ {then} }}, else_branch = q () => ({second}) {{ {otherwise} }}>"


def loop(ops: str, ins: str, outs: str, inits: str) -> str:
    carried = "".join(f", float[2] {v}" for v in ins.split())
    results = "".join(f", float[2] {v}" for v in outs.split())
    return f"Loop ({inits}) <body = b (int64 i, bool e{carried}) => (bool o{results}) {{ {ops} }}>"


def scan(ops: str, ins: str, outs: str, args: str, attrs: str) -> str:
    first, second = (", ".join(f"float[2] {o}" for o in names.split()) for names in (ins, outs))
    return f"Scan ({args}) <body = b ({first}) => ({second}) {{ {ops} }}, {attrs}>"


INNER = when("r = Neg(a) s = Exp(a)", "m = Abs(a) l = Exp(a)", "r s", "m l")
NEEDED = "m = ReduceSum<keepdims=0>(a) h = Less(m, w) o = And(e, h) b = Add(a, a) f = Neg(d)"
bodies = Rewrites(G.partition(" <")[0], DropOutputs(), weights={"t": np.bool_(1), "w": 9.0})

test_bodies = bodies.all_become(f"""
    an output of an If: y, u = {when("r = Neg(x) a = Exp(z)", "s = Abs(x) b = Sqrt(z)", "r a", "s b")}
        => y = {when("r = Neg(x)", "s = Abs(x)", "r", "s")}
    the one in the middle is read:
        u, v, q = {when("r = Neg(x) a = Exp(r) e = Exp(a)", "s = Abs(x) b = Neg(z) f = Abs(b)", "r a e", "s b f")}
        y = Neg(v) => v = {when("r = Neg(x) a = Exp(r)", "b = Neg(z)", "a", "b")} y = Neg(v)
    with outer values: l = Exp(z) y, u = {when("r = Neg(x) a = Exp(l)", "s = Abs(x) b = Sqrt(z)", "r a", "s b")}
        => y = {when("r = Neg(x)", "s = Abs(x)", "r", "s")}
    a scan output of a Loop: y, u = {loop("o = Identity(e) b = Neg(a) f = Exp(b)", "a", "b f", "k, t, x")}
        => y = {loop("o = Identity(e) b = Neg(a)", "a", "b", "k, t, x")}
    a carried value: y, u = {loop("o = Identity(e) b = Neg(a) f = Add(a, d)", "a d", "b f", "k, t, x, z")}
        => y = {loop("o = Identity(e) b = Neg(a)", "a", "b", "k, t, x")}
    the first of two carried values, and its initial value:
        l = Exp(z) u, y = {loop("o = Identity(e) b = Add(a, d) f = Neg(d)", "a d", "b f", "k, t, l, x")}
        => y = {loop("o = Identity(e) f = Neg(d)", "d", "f", "k, t, x")}
    bodies in bodies: y, u = {loop(f"o = Identity(e) b, h = {INNER}", "a", "b h", "k, t, x")}
        => y = {loop("o = Identity(e) b = " + when("r = Neg(a)", "m = Abs(a)", "r", "m"), "a", "b", "k, t, x")}
""")

test_scans = bodies.using(graph=S).all_become(f"""
    a scan output: y, u = {scan("b = Add(a, s) f = Neg(b)", "a s", "b f", "x, p", "num_scan_inputs = 1")}
        => y = {scan("b = Add(a, s)", "a s", "b", "x, p", "num_scan_inputs = 1")}
    one scan input stays to say how often:
        u, y = {scan("b = Neg(a) d = Abs(e)", "a e s m", "b d", "x, x, p, q", "num_scan_inputs = 2")}
        => y = {scan("d = Abs(e)", "e s", "d", "x, p", "num_scan_inputs = 1")}
""")


def test_scan_axes_and_directions_are_dropped_with_inputs() -> None:
    attrs = (
        "num_scan_inputs = 2, scan_input_axes = [0, 0], scan_input_directions = [0, 1], scan_output_directions = [0, 1]"
    )
    text = "y, u, v = " + scan("b = Add(a, m) f = Neg(s) h = Abs(m)", "a s m", "b f h", "x, p, q", attrs)
    model = load(f"{S} {{ {text} }}")
    result, _ = apply_passes(model, DropOutputs())
    out = to_onnx(result)
    (node,) = out.graph.node
    assert list(node.input) == ["x", "q"]
    assert {a.name: list(a.ints) for a in node.attribute if "directions" in a.name or "axes" in a.name} == {
        "scan_input_axes": [0],
        "scan_input_directions": [1],
        "scan_output_directions": [],
    }
    require_equivalent(model, out, exact=True)


test_bodies_stay = bodies.all_stay(f"""
    an If with one output: y = {when("r = Neg(x)", "s = Abs(x)", "r", "s")}
    a carried value that another needs:
        u, y = {loop("o = Identity(e) b = Add(a, d) f = Add(a, d)", "a d", "b f", "k, t, x, z")}
    a carried value that the condition needs: u, y = {loop(NEEDED, "a d", "b f", "k, t, x, z")}
    a final value that the next trip needs:
        u, v = {loop("o = Identity(e) b = Neg(a) f = Exp(b)", "a", "b f", "k, t, x")} m = ReduceSum<keepdims=0>(v)
        y = Add(m, x)
    nothing is read: u = {loop("o = Identity(e) b = Neg(a)", "a", "b", "k, t, x")} y = Neg(x)
""")


def test_inputs_of_opaque_ops_stay() -> None:
    text = loop("o = Identity(e) b = Neg(a) f = Exp(d) l = my.own.Log(d)", "a d", "b f", "k, t, x, z")
    model = load(f"{G} {{ y, u = {text} }}")
    model.opset_import.append(helper.make_opsetid("my.own", 1))
    result, change_log = apply_passes(model, DropOutputs())
    assert not change_log.changes
    assert to_onnx(result) == model


@given(edges=st.lists(st.integers(0, 3), min_size=4, max_size=4), read=st.integers(0, 3))
def test_any_carried_values(edges: list[int], read: int) -> None:
    """Value i depends on value `edges[i]` and itself; dependencies of the used value stay."""
    ins, outs = [f"a{i}" for i in range(4)], [f"b{i}" for i in range(4)]
    ops = " ".join(f"b{i} = Add(a{i}, a{e})" for i, e in enumerate(edges))
    text = loop(f"o = Identity(e) {ops}", " ".join(ins), " ".join(outs), "k, t, x, z, x, z")
    outputs = ", ".join("y" if i == read else f"u{i}" for i in range(4))
    model = load(f"{G} {{ {outputs} = {text} }}")
    result, _ = apply_passes(model, DropOutputs())
    out = to_onnx(result)
    needed = {read}
    while (more := needed | {edges[i] for i in needed}) != needed:
        needed = more
    loops = [n for n in out.graph.node if n.op_type == "Loop"]
    assert op_types(out) == ["Loop"]
    assert [len(n.input) for n in loops] == [2 + len(needed)]
    require_equivalent(model, out, exact=True)
