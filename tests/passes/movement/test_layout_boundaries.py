"""Boundaries of layout propagation: ops that it does not cross, and regions where it saves nothing."""

from __future__ import annotations

import numpy as np
import pytest
from passwright.passes.movement.layout_propagation.move_transposes import MoveTransposes
from rewriting import apply_passes, load, op_types, stays, to_onnx

MOVE = MoveTransposes()
IN, OUT = "t = Transpose<perm=[0,2,3,1]>(x)", "y = Transpose<perm=[0,3,1,2]>(r)"


@pytest.mark.parametrize(
    ("constants", "body", "opset"),
    [
        pytest.param("float[4] c = {1,2,3,4}", "r = BatchNormalization(t, c, c, c, c)", 17, id="channels on axis 1"),
        pytest.param("float[4] c = {1,2,3,4}", "r = InstanceNormalization(t, c, c)", 17, id="and of another kind"),
        pytest.param("", "r = LRN<size=3>(t)", 17, id="channels on axis 1, of LRN"),
        pytest.param("", "r = AveragePool<kernel_shape=[1,1]>(t)", 17, id="a window over the last axes"),
        pytest.param("float[3] c = {1,2,3}", "r = LayerNormalization<axis=-1>(t, c)", 17, id="the last axis moves"),
        pytest.param("", "r = Softmax<axis=2>(t)", 11, id="Softmax over axes that part, opset 11"),
        pytest.param("", "r = LogSoftmax<axis=3>(t)", 12, id="LogSoftmax over the last axis, opset 12"),
        pytest.param("", "r = Softmax(t)", 17, id="Softmax along the last axis"),
        pytest.param("", "r = LogSoftmax<axis=-1>(t)", 17, id="LogSoftmax along the last axis"),
        pytest.param("", "r = LpNormalization(t)", 17, id="LpNormalization along the last axis"),
        pytest.param("float[3,1] c = {1,2,3}", "m = MatMul(t, c) r = Mul(m, m)", 17, id="columns of MatMul"),
        pytest.param(
            "int64[3] c = {2,4,15}, int64[4] k = {2,4,5,3}",
            "s = Reshape(t, c) n = Neg(s) r = Reshape(n, k)",
            17,
            id="axes that part are merged",
        ),
        pytest.param("int64[4] c = {4,2,5,3}", "r = Reshape(t, c)", 17, id="axes that part are merged and split"),
        pytest.param("int64[4] k = {2,4,5,3}", "s = Flatten<axis=3>(t) n = Neg(s) r = Reshape(n, k)", 17, id="Flatten"),
        pytest.param("float u = {0.5}, bool m = {1}", "r = Dropout(t, u, m)", 17, id="Dropout in training form"),
        pytest.param(
            "float[4] c = {1,1,2,2}", 'r = Resize<mode="linear">(t, , c)', 17, id="linear, along the channels"
        ),
        pytest.param(
            "int64[2] c = {2,4}, int64[6] d = {1,1,2,1,2,1}, int64[4] e = {2,8,10,3}",
            "s = Unsqueeze(t, c) v = Expand(s, d) r = Reshape(v, e)",
            17,
            id="nearest upsampling by Expand, of pixels",
        ),
        pytest.param("", "r = Trilu(t)", 17, id="Trilu"),
        pytest.param("", "r = Hardmax(t)", 17, id="which NaN is the greatest"),
        pytest.param("", "q, s, z = DynamicQuantizeLinear(t) r = Cast<to=1>(q)", 17, id="also the scale output"),
        pytest.param("", "s = Cast<to=12>(t) r = Cast<to=1>(s)", 17, id="a cast that wraps around"),
        pytest.param("", 'r = Einsum<equation="abcd->abcd">(t)', 17, id="Einsum"),
        pytest.param("", "r, w = MaxPool<kernel_shape=[1,1]>(t)", 17, id="MaxPool"),
        pytest.param("", "r = GlobalAveragePool(t)", 17, id="GlobalAveragePool"),
        pytest.param("int64[1] c = {1}", "m = ReduceMax<axes=[3]>(t) r = Add(m, m)", 17, id="which NaN wins"),
        pytest.param("", "m = ReduceSum(t, a) r = Mul(m, t)", 17, id="axes of a reduction are not known"),
        pytest.param("", "r = CumSum(t, i)", 17, id="the axis of a sum is not known"),
        pytest.param("", "r = Tile(t, k)", 17, id="repeats are not known"),
        pytest.param("", "r = Expand(t, k)", 17, id="a shape is not known"),
        pytest.param("", "r = Pad(t, p)", 17, id="pads are not known"),
        pytest.param("", "r = Resize(t, , f)", 17, id="scales are not known"),
        pytest.param("", "r = Slice(t, a, a, a)", 17, id="the axis of a slice is not known"),
        pytest.param("", "s = Unsqueeze(t, a) r = Squeeze(s, a)", 17, id="a new axis is not known"),
        pytest.param("", "r = Reshape(t, k)", 17, id="the shape of a reshape is not known"),
        pytest.param("", "r = Add(t, u)", 17, id="an operand of unknown rank"),
        pytest.param("", "r = Sum(t, u)", 17, id="and one among several"),
        pytest.param("", "r = Where(b, t, u)", 17, id="and one of a choice"),
    ],
)
def test_stays_between(constants: str, body: str, opset: int) -> None:
    inputs = "float[2,3,4,5] x, int64[1] a, int64 i, int64[4] k, int64[8] p, float[4] f, float[] u, bool[] b"
    text = f"g ({inputs}) => (float[a,b,c,d] y) <{constants}> {{ {IN} {body} {OUT} }}"
    result, change_log = apply_passes(load(text.replace(" <>", ""), opset), MOVE)
    assert not change_log.changes
    assert op_types(to_onnx(result)).count("Transpose") == 2


X = "g (float[2,3,4] x, float[4,3,2] z) => (float[n,m,k] y)"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{X} {{ y = Transpose(x) }}", id="alone between input and output"),
        pytest.param(f"{X} {{ t = Transpose(x) y = Relu(t) }}", id="up front"),
        pytest.param(f"{X} {{ r = Relu(x) y = Transpose(r) }}", id="at the end"),
        pytest.param(f"{X} {{ t = Transpose(x) y = Add(t, z) }}", id="of one of two operands"),
        pytest.param(f"{X} {{ a = Relu(x) t = Transpose(a) b = Relu(t) y = Mul(z, b) }}", id="in the middle"),
        pytest.param(f"{X} {{ t = Transpose(x) a = Neg(t) b = Relu(t) y = Add(a, b) }}", id="read by two that meet"),
        pytest.param(
            "g (float[2,3] x) => (float[a,b] y, float[a,b] z) { t = Transpose(x) y = Relu(t) z = Neg(t) }",
            id="read by two that do not meet",
        ),
        pytest.param(
            "g (float[2,3] x) => (float[a,b] t, float[c,d] y) { t = Transpose(x) r = Relu(t) y = Neg(r) }",
            id="a graph output",
        ),
        pytest.param(
            "g (float[2,3] x, float[3,2] z) => (float[a,b] y, float[c,d] w)"
            " { t = Transpose(x) y = Add(t, z) u = Exp(z) w = Transpose(u) }",
            id="as many would be needed",
        ),
        pytest.param("g (float[2,3,4] x) => (float[a,b] y) { t = Transpose(x) y = Flatten(t) }", id="into Flatten"),
        pytest.param(
            "g (int64[4,5] i) => (float[a,b,c] y) <float[3,2] w = {1,2,3,4,5,6}>"
            " { r = Gather(w, i) y = Transpose<perm=[2,0,1]>(r) }",
            id="of rows of a table, which would be turned round",
        ),
        pytest.param("g (float[] x) => (float[] y) { t = Transpose(x) r = Relu(t) y = Transpose(r) }", id="no rank"),
        pytest.param(
            "g (float[2,2] x) => (float[a,b] y) { t = Transpose<perm=[0,1]>(x) r = Relu(t)"
            " y = Transpose<perm=[0,1]>(r) }",
            id="that move nothing",
        ),
        pytest.param(
            "g (bool c, float[2,3] x) => (float[n,m] y) { t = Transpose(x) y = If (c) <"
            "then_branch = a () => (float[n,m] r) { r = Transpose(t) }, "
            "else_branch = b () => (float[n,m] s) { u = Relu(x) s = Neg(u) }> }",
            id="across the border of an If body",
        ),
        pytest.param(
            "g (bool c, float[2,3] x) => (float[n,m] y) { t = Transpose(x) r = Relu(t) y = If (c) <"
            "then_branch = a () => (float[n,m] p) { p = Neg(r) }, "
            "else_branch = b () => (float[n,m] q) { q = Neg(t) }> }",
            id="read by If bodies",
        ),
    ],
)
def test_stays(text: str) -> None:
    stays(text, MOVE)


def test_an_op_of_another_domain_is_opaque() -> None:
    text = f"g (float[2,3,4,5] x) => (float[a,b,c,d] y) {{ {IN} r = my.own.Relu(t) {OUT} }}"
    model = load(text)
    model.opset_import.add(domain="my.own", version=1)
    assert not apply_passes(model, MOVE)[1].changes


def test_broadcasting_of_opset_6_stays() -> None:
    text = "g (float[2,3] x, float[3] c) => (float[a,b] y)"
    stays(
        f"{text} {{ t = Transpose(x) r = Add<axis=0,broadcast=1>(t, c) y = Transpose(r) }}", MOVE, opset=6, runs=False
    )


@pytest.mark.parametrize("work", ["Sigmoid(t)", "Softmax<axis=0>(t)", "Exp(t)", "ReduceMean<axes=[0]>(t)", "Pow(t, t)"])
def test_rounding_ops_stay_in_exact_runs(work: str) -> None:
    model = load(f"g (float[2,3] x) => (float[a,b] y) {{ t = Transpose(x) r = {work} y = Transpose(r) }}")
    assert not apply_passes(model, MOVE, exact_only=True)[1].changes
    assert apply_passes(model, MOVE)[1].changes


def test_half_precision_change_is_not_exact() -> None:
    model = load("g (float16[2,3] x) => (float16[a,b] y) { t = Transpose(x) r = Relu(t) y = Transpose(r) }")
    _, change_log = apply_passes(model, MOVE)
    assert [c.exact for c in change_log.changes] == [False]


@pytest.mark.parametrize(("extent", "flips"), [(500, True), (600, False)])
def test_a_large_constant_is_not_stored_twice(extent: int, flips: bool) -> None:
    text = f"g (float[{extent},{extent}] x) => (float[a,b] y, float[c,d] z)"
    body = "t = Transpose(x) r = Add(t, w) y = Transpose(r) z = MatMul(x, w)"
    model = load(f"{text} {{ {body} }}", weights={"w": np.ones((extent, extent), np.float32)})
    assert bool(apply_passes(model, MOVE)[1].changes) == flips
