"""Boundaries of layout propagation: ops that it does not cross, and regions where it saves nothing."""

import numpy as np
from passwright.passes.movement.layout_propagation.move_transposes import MoveTransposes
from rewrite_tables import Rewrites
from rewriting import apply_passes, each, load, op_types, to_onnx

MOVE = MoveTransposes()
IN, OUT = "t = Transpose<perm=[0,2,3,1]>(x)", "y = Transpose<perm=[0,3,1,2]>(r)"


@each(
    ("constants", "body", "opset"),
    {
        "channels on axis 1": ("float[4] c = {1,2,3,4}", "r = BatchNormalization(t, c, c, c, c)", 17),
        "and of another kind": ("float[4] c = {1,2,3,4}", "r = InstanceNormalization(t, c, c)", 17),
        "channels on axis 1, of LRN": ("", "r = LRN<size=3>(t)", 17),
        "a window over the last axes": ("", "r = AveragePool<kernel_shape=[1,1]>(t)", 17),
        "the last axis moves": ("float[3] c = {1,2,3}", "r = LayerNormalization<axis=-1>(t, c)", 17),
        "Softmax over axes that part, opset 11": ("", "r = Softmax<axis=2>(t)", 11),
        "LogSoftmax over the last axis, opset 12": ("", "r = LogSoftmax<axis=3>(t)", 12),
        "Softmax along the last axis": ("", "r = Softmax(t)", 17),
        "LogSoftmax along the last axis": ("", "r = LogSoftmax<axis=-1>(t)", 17),
        "LpNormalization along the last axis": ("", "r = LpNormalization(t)", 17),
        "columns of MatMul": ("float[3,1] c = {1,2,3}", "m = MatMul(t, c) r = Mul(m, m)", 17),
        "axes that part are merged": (
            "int64[3] c = {2,4,15}, int64[4] k = {2,4,5,3}",
            "s = Reshape(t, c) n = Neg(s) r = Reshape(n, k)",
            17,
        ),
        "axes that part are merged and split": ("int64[4] c = {4,2,5,3}", "r = Reshape(t, c)", 17),
        "Flatten": ("int64[4] k = {2,4,5,3}", "s = Flatten<axis=3>(t) n = Neg(s) r = Reshape(n, k)", 17),
        "Dropout in training form": ("float u = {0.5}, bool m = {1}", "r = Dropout(t, u, m)", 17),
        "linear, along the channels": ("float[4] c = {1,1,2,2}", 'r = Resize<mode="linear">(t, , c)', 17),
        "nearest upsampling by Expand, of pixels": (
            "int64[2] c = {2,4}, int64[6] d = {1,1,2,1,2,1}, int64[4] e = {2,8,10,3}",
            "s = Unsqueeze(t, c) v = Expand(s, d) r = Reshape(v, e)",
            17,
        ),
        "Trilu": ("", "r = Trilu(t)", 17),
        "which NaN is the greatest": ("", "r = Hardmax(t)", 17),
        "also the scale output": ("", "q, s, z = DynamicQuantizeLinear(t) r = Cast<to=1>(q)", 17),
        "a cast that wraps around": ("", "s = Cast<to=12>(t) r = Cast<to=1>(s)", 17),
        "Einsum": ("", 'r = Einsum<equation="abcd->abcd">(t)', 17),
        "MaxPool": ("", "r, w = MaxPool<kernel_shape=[1,1]>(t)", 17),
        "GlobalAveragePool": ("", "r = GlobalAveragePool(t)", 17),
        "which NaN wins": ("int64[1] c = {1}", "m = ReduceMax<axes=[3]>(t) r = Add(m, m)", 17),
        "axes of a reduction are not known": ("", "m = ReduceSum(t, a) r = Mul(m, t)", 17),
        "the axis of a sum is not known": ("", "r = CumSum(t, i)", 17),
        "repeats are not known": ("", "r = Tile(t, k)", 17),
        "a shape is not known": ("", "r = Expand(t, k)", 17),
        "pads are not known": ("", "r = Pad(t, p)", 17),
        "scales are not known": ("", "r = Resize(t, , f)", 17),
        "the axis of a slice is not known": ("", "r = Slice(t, a, a, a)", 17),
        "a new axis is not known": ("", "s = Unsqueeze(t, a) r = Squeeze(s, a)", 17),
        "the shape of a reshape is not known": ("", "r = Reshape(t, k)", 17),
        "an operand of unknown rank": ("", "r = Add(t, u)", 17),
        "and one among several": ("", "r = Sum(t, u)", 17),
        "and one of a choice": ("", "r = Where(b, t, u)", 17),
    },
)
def test_stays_between(constants: str, body: str, opset: int) -> None:
    inputs = "float[2,3,4,5] x, int64[1] a, int64 i, int64[4] k, int64[8] p, float[4] f, float[] u, bool[] b"
    text = f"g ({inputs}) => (float[a,b,c,d] y) <{constants}> {{ {IN} {body} {OUT} }}"
    result, change_log = apply_passes(load(text.replace(" <>", ""), opset), MOVE)
    assert not change_log.changes
    assert op_types(to_onnx(result)).count("Transpose") == 2


layout_boundaries = Rewrites("g ({x}) => (float[] y)", MOVE, x="float[2,3,4] x, float[4,3,2] z")

test_stays = layout_boundaries.all_stay("""
    alone between input and output: y = Transpose(x)
    up front: t = Transpose(x) y = Relu(t)
    at the end: r = Relu(x) y = Transpose(r)
    of one of two operands: t = Transpose(x) y = Add(t, z)
    in the middle: a = Relu(x) t = Transpose(a) b = Relu(t) y = Mul(z, b)
    read by two that meet: t = Transpose(x) a = Neg(t) b = Relu(t) y = Add(a, b)
    read by two that do not meet [graph=g (float[2,3] x) => (float[a,b] y, float[a,b] z)]:
        t = Transpose(x) y = Relu(t) z = Neg(t)
    a graph output [graph=g (float[2,3] x) => (float[a,b] t, float[] y)]: t = Transpose(x) r = Relu(t) y = Neg(r)
    as many would be needed [graph=g (float[2,3] x, float[3,2] z) => (float[a,b] y, float[c,d] w)]:
        t = Transpose(x) y = Add(t, z) u = Exp(z) w = Transpose(u)
    into Flatten [x=float[2,3,4] x]: t = Transpose(x) y = Flatten(t)
    of rows of a table, which would be turned round [x=int64[4,5] i]:
        r = Gather([[1.0,2.0],[3.0,4.0],[5.0,6.0]], i) y = Transpose<perm=[2,0,1]>(r)
    no rank [x=float[] x]: t = Transpose(x) r = Relu(t) y = Transpose(r)
    that move nothing [x=float[2,2] x]: t = Transpose<perm=[0,1]>(x) r = Relu(t) y = Transpose<perm=[0,1]>(r)
    across the border of an If body [x=bool c, float[2,3] x]: t = Transpose(x)
        y = If(c) <then_branch = a () => (float[n,m] r) { r = Transpose(t) }, else_branch = b () => (float[n,m] s) {
        u = Relu(x) s = Neg(u) }>
    read by If bodies [x=bool c, float[2,3] x]: t = Transpose(x) r = Relu(t)
        y = If(c) <then_branch = a () => (float[n,m] p) { p = Neg(r) }, else_branch = b () => (float[n,m] q) {
        q = Neg(t) }>
    broadcasting of opset 6 stays [opset=6; x=float[2,3] x, float[3] c; runs=False]:
        t = Transpose(x) r = Add<axis=0,broadcast=1>(t, c) y = Transpose(r)
""")


def test_an_op_of_another_domain_is_opaque() -> None:
    text = f"g (float[2,3,4,5] x) => (float[a,b,c,d] y) {{ {IN} r = my.own.Relu(t) {OUT} }}"
    model = load(text)
    model.opset_import.add(domain="my.own", version=1)
    assert not apply_passes(model, MOVE)[1].changes


@each("work", ["Sigmoid(t)", "Softmax<axis=0>(t)", "Exp(t)", "ReduceMean<axes=[0]>(t)", "Pow(t, t)"])
def test_rounding_ops_stay_in_exact_runs(work: str) -> None:
    model = load(f"g (float[2,3] x) => (float[a,b] y) {{ t = Transpose(x) r = {work} y = Transpose(r) }}")
    assert not apply_passes(model, MOVE, exact_only=True)[1].changes
    assert apply_passes(model, MOVE)[1].changes


def test_half_precision_change_is_not_exact() -> None:
    model = load("g (float16[2,3] x) => (float16[a,b] y) { t = Transpose(x) r = Relu(t) y = Transpose(r) }")
    _, change_log = apply_passes(model, MOVE)
    assert [c.exact for c in change_log.changes] == [False]


@each(("extent", "flips"), [(500, True), (600, False)])
def test_a_large_constant_is_not_stored_twice(extent: int, flips: bool) -> None:
    text = f"g (float[{extent},{extent}] x) => (float[a,b] y, float[c,d] z)"
    body = "t = Transpose(x) r = Add(t, w) y = Transpose(r) z = MatMul(x, w)"
    model = load(f"{text} {{ {body} }}", weights={"w": np.ones((extent, extent), np.float32)})
    assert bool(apply_passes(model, MOVE)[1].changes) == flips
