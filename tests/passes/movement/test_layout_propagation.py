"""Layout propagation: NHWC islands in NCHW models lose the Transposes around them."""

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import Model
from passwright.passes.movement.layout_propagation.move_transposes import MoveTransposes
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, load, op_types, require_equivalent, to_onnx

MOVE = MoveTransposes()
IN, OUT = "t = Transpose<perm=[0,2,3,1]>(x)", "y = Transpose<perm=[0,3,1,2]>(r)"

rewrites = Rewrites("g ({x}) => (float[] y)", MOVE, x="float[2,3,4,5] x")

test_becomes = rewrites.all_become(f"""
    an activation: {IN} r = Relu(t) {OUT} => y = Relu(x)
    Clip, its bounds as they are: {IN} r = Clip(t, 0.0, 6.0) {OUT} => y = Clip(x, c, c)
    Cast and back: {IN} i = Cast<to=6>(t) r = Cast<to=1>(i) {OUT} => v2 = Cast<to=6>(x) y = Cast<to=1>(v2)
    Dropout in inference form: {IN} r = Dropout(t) {OUT} => y = Dropout(x)
    a bias along the last axis: {IN} r = Add(t, [1.0,2.0,3.0]) {OUT} => y = Add(x, c)
    a constant as first operand: {IN} r = Sub([1.0,2.0,3.0], t) {OUT} => y = Sub(c, x)
    a number: {IN} r = Mul(t, 2.0) {OUT} => y = Mul(x, c)
    a number of full rank stays: {IN} r = Mul(t, [[[[2.0]]]]) {OUT} => y = Mul(x, c)
    a constant along an inner axis: {IN} r = Div(t, [[[1.0]],[[2.0]],[[3.0]],[[4.0]]]) {OUT} => y = Div(x, c)
    Where with a constant condition of lower rank [graph=g (float[2,3,4,5] x) => (float[] y) <bool[5,3] c =
        {{1,0,1,0,1,1,0,0,0,1,1,1,0,1,0}}>]: {IN} n = Neg(t) r = Where(c, t, n) {OUT} => v2 = Neg(x) y = Where(c, x, v2)
    PRelu: {IN} r = PRelu(t, [1.0,2.0,3.0]) {OUT} => y = PRelu(x, c)
    three operands: {IN} n = Neg(t) r = Max(t, [1.0,2.0,3.0], n) {OUT} => v2 = Neg(x) y = Max(x, c, v2)
    the same value twice: {IN} r = Add(t, t) {OUT} => y = Add(x, x)
    Softmax: {IN} r = Softmax<axis=1>(t) {OUT} => y = Softmax<axis=2>(x)
    LogSoftmax, then the last: {IN} r = LogSoftmax<axis=2>(t) {OUT} => y = LogSoftmax<axis=3>(x)
    Softmax of opset 11 over all that follows [opset=11]: {IN} r = Softmax<axis=1>(t) {OUT} => y = Softmax<axis=1>(x)
    Concat: {IN} r = Concat<axis=3>(t, t) {OUT} => y = Concat<axis=1>(x, x)
    Split by an input: {IN} a, b = Split<axis=-1>(t, [1,2]) r = Concat<axis=-1>(b, a) {OUT}
        => v3, v4 = Split<axis=1>(x, c) y = Concat<axis=1>(v4, v3)
    Split by an attribute [opset=11]: {IN} a, b = Split<axis=3,split=[1,2]>(t) r = Concat<axis=-1>(b, a) {OUT}
        => v2, v3 = Split<axis=1, split=[1, 2]>(x) y = Concat<axis=1>(v3, v2)
    Pad by an input: {IN} r = Pad(t, [0,1,2,0,0,0,0,3]) {OUT} => y = Pad(x, c)
    Pad by an attribute [opset=10]: {IN} r = Pad<pads=[0,1,2,0,0,0,0,3]>(t) {OUT}
        => y = Pad<pads=[0, 0, 1, 2, 0, 3, 0, 0]>(x)
    Pad of named axes [opset=18]: {IN} r = Pad(t, [1,2,0,3], , [1,-1]) {OUT} => y = Pad(x, c, , c)
    Slice: {IN} r = Slice(t, [1,0], [4,2], [2,-1]) {OUT} => y = Slice(x, c, c, c)
    Slice without axes: {IN} r = Slice(t, [0,1], [2,3]) {OUT} => y = Slice(x, c, c, c)
    Slice by attributes [opset=9]: {IN} r = Slice<starts=[1],ends=[3],axes=[2]>(t) {OUT}
        => y = Slice<axes=[3], ends=[3], starts=[1]>(x)
    Tile: {IN} r = Tile(t, [1,1,2,3]) {OUT} => y = Tile(x, c)
    Expand: {IN} r = Expand(t, [1,4,1,3]) {OUT} => y = Expand(x, c)
    Resize by scales: {IN} r = Resize(t, , [1.0,2.0,2.0,1.0]) {OUT} => y = Resize(x, , c)
    Resize, linear, of the inner axes: {IN} r = Resize<mode="linear">(t, , [1.0,2.0,2.0,1.0]) {OUT}
        => y = Resize<mode="linear">(x, , c)
    Resize by sizes: {IN} r = Resize(t, , , [2,8,7,3]) {OUT} => y = Resize(x, , , c)
    Resize of named axes [opset=18]: {IN} r = Resize<axes=[1,2]>(t, , , [8,7]) {OUT}
        => y = Resize<axes=[2, 3]>(x, , , c)
    quantization along the channels [graph=g (float[2,3,4,5] x) => (float[] y) <int8[3] z = {{0,1,2}}>]: {IN}
        q = QuantizeLinear<axis=-1>(t, [1.0,2.0,3.0], z) r = DequantizeLinear<axis=3>(q, [1.0,2.0,3.0], z) {OUT}
        => q = QuantizeLinear<axis=1>(x, c, d) y = DequantizeLinear<axis=1>(q, c, d)
    quantization of a tensor [graph=g (float[2,3,4,5] x) => (float[] y) <uint8 z = {{3}}>]:
        {IN} q = QuantizeLinear(t, 1.0, z) r = DequantizeLinear(q, 1.0, z) {OUT}
        => q = QuantizeLinear(x, c, d) y = DequantizeLinear(q, c, d)
    ReduceMean, axes kept: {IN} m = ReduceMean<axes=[1,-2]>(t) r = Mul(t, m) {OUT}
        => v2 = ReduceMean<axes=[2, 3]>(x) y = Mul(x, v2)
    ReduceMean by an input [opset=18]: {IN} m = ReduceMean(t, [1,-2]) r = Mul(t, m) {OUT}
        => v3 = ReduceMean(x, c) y = Mul(x, v3)
    ArgMax: {IN} m = ArgMax<axis=3>(t) f = Cast<to=1>(m) r = Mul(t, f) {OUT}
        => v2 = ArgMax<axis=1>(x) v3 = Cast<to=1>(v2) y = Mul(x, v3)
    TopK: {IN} r, i = TopK(t, [2]) {OUT} => y, v3 = TopK<axis=1>(x, c)
    CumSum: {IN} r = CumSum(t, 1) {OUT} => y = CumSum(x, c)
    GatherElements: {IN} e = GatherElements<axis=3>(t, [[[[2,0,1]]]]) r = Add(e, t) {OUT}
        => v3 = GatherElements<axis=1>(x, c) y = Add(v3, x)
    Gather of some channels: {IN} r = Gather<axis=-1>(t, [2,0]) {OUT} => y = Gather<axis=1>(x, c)
    Unsqueeze and Squeeze: {IN} u = Unsqueeze(t, [2]) s = Squeeze(u, [2]) r = Relu(s) {OUT}
        => u = Unsqueeze(x, c) s = Squeeze(u, d) y = Relu(s)
    Unsqueeze and Squeeze by attributes [opset=11]:
        {IN} u = Unsqueeze<axes=[2]>(t) n = Neg(u) s = Squeeze<axes=[2]>(n) r = Relu(s) {OUT}
        => v2 = Unsqueeze<axes=[3]>(x) v3 = Neg(v2) v4 = Squeeze<axes=[3]>(v3) y = Relu(v4)
    nearest upsampling of rows by Expand and Reshape:
        {IN} u = Unsqueeze(t, [2]) e = Expand(u, [1,1,2,1,1]) r = Reshape(e, [2,8,5,3]) {OUT}
        => u = Unsqueeze(x, c) v = Expand(u, d) y = Reshape(v, e)
    channel shuffle by Reshape: {IN} u = Reshape(t, [2,4,5,3,1]) n = Neg(u) r = Reshape(n, [0,0,0,-1]) {OUT}
        => v3 = Reshape(x, c) v4 = Neg(v3) y = Reshape(v4, c)
    Identity: {IN} r = Identity(t) {OUT} => y = Identity(x)
""")

test_becomes_elsewhere = rewrites.all_become(f"""
    the inner value is a graph output [graph=g (float[2,3] x) => (float[a,b] r, float[] y)]:
        t = Transpose(x) r = Relu(t) y = Transpose(r) => y = Relu(x) r = Transpose<perm=[1,0]>(y)
    two become one [x=float[2,3] x, float[2,3] z]: t = Transpose(x) u = Transpose(z) y = Add(t, u)
        => r = Add(x, z) y = Transpose<perm=[1,0]>(r)
    two are hoisted and become one [graph=g (float[2,3] x) => (float[a,b] y, float[c,d] z)]:
        u = Neg(x) v = Exp(u) w = Abs(u) y = Transpose(v) z = Transpose(w)
        => u = Neg(x) v = Transpose<perm=[1,0]>(u) y = Exp(v) z = Abs(v)
    two that do not cancel become one [x=float[2,3,4] x]:
        t = Transpose<perm=[1,2,0]>(x) r = Relu(t) y = Transpose<perm=[0,2,1]>(r)
        => r = Relu(x) y = Transpose<perm=[1,0,2]>(r)
    a chain merges [x=float[2,3,4] x, float[4,3,2] z]: t = Transpose<perm=[1,2,0]>(x) u = Transpose<perm=[1,0,2]>(t)
        r = Mul(z, u) y = Transpose<perm=[1,2,0]>(r)
        => u = Transpose<perm=[2,1,0]>(x) r = Mul(z, u) y = Transpose<perm=[1,2,0]>(r)
    the other operand gets a Transpose of its own [x=float[2,3,4] x, float[3,4,2] z]:
        t = Transpose<perm=[1,2,0]>(x) r = Mul(z, t) y = Transpose<perm=[2,0,1]>(r)
        => u = Transpose<perm=[2,0,1]>(z) y = Mul(u, x)
    an operand of lower rank is unsqueezed [x=float[2,3,4] x, float[2] z]:
        t = Transpose<perm=[1,2,0]>(x) r = Mul(z, t) y = Transpose<perm=[2,0,1]>(r) => u = Unsqueeze(z, c) y = Mul(u, x)
    an overridable initializer is not a constant [x=float[2,3,4] x, float[2] z = {{1,2}}]:
        t = Transpose<perm=[1,2,0]>(x) r = Mul(z, t) y = Transpose<perm=[2,0,1]>(r) => u = Unsqueeze(z, c) y = Mul(u, x)
    extents need not be known [x=float[n,h,w,3] x]: t = Transpose<perm=[0,3,1,2]>(x) r = Relu(t)
        u = Transpose<perm=[0,2,3,1]>(r) y = ReduceMean<axes=[1,2],keepdims=0>(u)
        => r = Relu(x) y = ReduceMean<axes=[1,2],keepdims=0>(r)
    nothing is left to move after a reduction: {IN} y = ReduceSum<keepdims=0>(t, [2,1])
        => y = ReduceSum<keepdims=0>(x, c)
    nor after ArgMin [graph=g (float[2,3,4,5] x) => (int64[a,b] y)]:
        t = Transpose<perm=[0,2,1,3]>(x) m = ArgMin<axis=1,keepdims=0>(t) y = ReduceSum<keepdims=1>(m)
        => m = ArgMin<axis=2,keepdims=0>(x) y = ReduceSum<keepdims=1>(m)
    nor after Squeeze [x=float[2,3,1,1] x]: {IN} s = Squeeze(t, [2,1]) y = Relu(s) => s = Squeeze(x, c) y = Relu(s)
    nor after Flatten of axes of 1 [x=float[2,3,1,1] x]: {IN} y = Flatten(t) => y = Flatten<axis=1>(x)
    nor where Gather takes the moved axis away [x=float[2,3,4] x]:
        t = Transpose<perm=[2,0,1]>(x) y = Gather<axis=0>(t, 1) => y = Gather<axis=2>(x, c)
    nor in a table whose rows stay rows [graph=g (int64[4] i) => (float[] y) <float[3,2,2] w =
        {{1,2,3,4,5,6,7,8,9,10,11,12}}>]: r = Gather(w, i) t = Transpose<perm=[0,2,1]>(r) y = Relu(t)
        => r = Gather<axis=0>(c, i) y = Relu(r)
    rows of MatMul [graph=g (float[2,3,4] x) => (float[a,b] y) <float[4,2] w = {{1,2,3,4,5,6,7,8}}>]:
        t = Transpose<perm=[1,0,2]>(x) m = MatMul(t, w) y = Transpose<perm=[1,0,2]>(m) => y = MatMul(x, c)
    both factors of MatMul are exchanged [x=float[2,3,4] x, float[2,3,5] z]:
        s = Transpose<perm=[0,2,1]>(x) m = MatMul(s, z) y = Transpose<perm=[0,2,1]>(m)
        => s = Transpose<perm=[0,2,1]>(z) y = MatMul(s, x)
    an extent is picked by another number [graph=g (float[2,3,4] x) => (int64 y, float[a,b,c] z)]:
        t = Transpose<perm=[2,0,1]>(x) s = Shape(t) y = Gather(s, -1) r = Relu(t) z = Transpose<perm=[1,2,0]>(r)
        => s = Shape(x) y = Gather(s, c) z = Relu(x)
    a shape is put in order [graph=g (float[2,3,4] x) => (int64[k] y, float[a,b,c] z)]:
        t = Transpose<perm=[2,0,1]>(x) y = Shape<start=1>(t) r = Relu(t) z = Transpose<perm=[1,2,0]>(r)
        => s = Shape(x) y = Gather<axis=0>(s, c) z = Relu(x)
    inside an If body, of a captured value [x=bool c, float[2,3] x]: y = If(c) <then_branch = a () => (float[n,m] r) {{
        t = Transpose(x) u = Relu(t) r = Transpose(u) }}, else_branch = b () => (float[n,m] s) {{ s = Relu(x) }}> =>
        y = If(c) <then_branch = a () => (float[n,m] r) {{ r = Relu(x) }}, else_branch = b () => (float[n,m] s) {{
        s = Relu(x) }}>
    strings [graph=g (string[2,3] x) => (string[] y)]: t = Transpose(x) r = Concat<axis=0>(t, t) y = Transpose(r)
        => y = Concat<axis=1>(x, x)
""")


def test_an_integer_constant_keeps_its_type() -> None:
    text = "g (int32[2,3,4] x) => (int32[a,b,c] y) <int32[2] w = {1,2}>"
    before = "t = Transpose<perm=[1,2,0]>(x) r = Add(t, w) y = Transpose<perm=[2,0,1]>(r)"
    out = becomes(f"{text} {{ {before} }}", f"{text} {{ y = Add(x, w) }}", MOVE)
    assert [(t.data_type, list(t.dims)) for t in out.graph.initializer] == [(6, [2, 1, 1])]


def count(model: Model) -> int:
    return sum(1 for g in model.graph.with_subgraphs() for _ in g.ops("Transpose"))


@given(data=st.data())
def test_any_perm_around_any_op(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 3), min_size=2, max_size=5))
    perm = data.draw(st.permutations(range(len(shape))).filter(lambda p: p != sorted(p)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    is_last = axis % len(shape) == len(shape) - 1 and perm[-1] != len(shape) - 1
    held = [shape[i] for i in perm]
    w = np.arange(prod(held[1:]), dtype=np.float32).reshape(held[1:])
    work = data.draw(
        st.sampled_from(
            [
                *([] if is_last else [f"r = Softmax<axis={axis}>(t)"]),
                f"m = ReduceMean<axes=[{axis}]>(t) r = Sub(t, m)",
                f"r = Concat<axis={axis}>(t, t)",
                "r = Add(w, t)",
                f"i = ArgMax<axis={axis}>(t) f = Cast<to=1>(i) r = Add(t, f)",
                "s = Sigmoid(t) r = Mul(s, t)",
            ]
        )
    )
    back = sorted(range(len(perm)), key=perm.__getitem__)
    extents = ",".join(f"d{i}" for i, _ in enumerate(shape))
    text = f"g (float{shape} x) => (float[{extents}] y)"
    before = f"{text} {{ t = Transpose<perm={perm}>(x) {work} y = Transpose<perm={back}>(r) }}"
    model = load(before, weights={"w": w} if "w" in work else None)
    result, _ = apply_passes(model, MOVE)
    assert count(result) == 0
    assert len(op_types(to_onnx(result))) == len(op_types(model)) - 2
    require_equivalent(model, to_onnx(result))
