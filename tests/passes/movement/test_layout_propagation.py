"""Layout propagation: NHWC islands in NCHW models lose the Transposes around them."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import Model
from passwright.passes.movement.layout_propagation.move_transposes import MoveTransposes
from rewriting import apply_passes, becomes, cases, load, op_types, require_equivalent, to_onnx

MOVE = MoveTransposes()
G = "g (float[2,3,4,5] x) => (float[a,b,c,d] y)"
C = "<float c = {1}, float d = {1}, float e = {1}>"
IN, OUT = "t = Transpose<perm=[0,2,3,1]>(x)", "y = Transpose<perm=[0,3,1,2]>(r)"


@cases(
    ("constants", "before", "after", "opset"),
    {
        "an activation": ("", "r = Relu(t)", "y = Relu(x)", 17),
        "Clip, its bounds as they are": (
            "<float l = {0}, float h = {6}>",
            "r = Clip(t, l, h)",
            "y = Clip(x, c, c)",
            17,
        ),
        "Cast and back": ("", "i = Cast<to=6>(t) r = Cast<to=1>(i)", "v2 = Cast<to=6>(x) y = Cast<to=1>(v2)", 17),
        "Dropout in inference form": ("", "r = Dropout(t)", "y = Dropout(x)", 17),
        "a bias along the last axis": ("<float[3] c = {1,2,3}>", "r = Add(t, c)", "y = Add(x, c)", 17),
        "a constant as first operand": ("<float[3] c = {1,2,3}>", "r = Sub(c, t)", "y = Sub(c, x)", 17),
        "a number": ("<float c = {2}>", "r = Mul(t, c)", "y = Mul(x, c)", 17),
        "a number of full rank stays": ("<float[1,1,1,1] c = {2}>", "r = Mul(t, c)", "y = Mul(x, c)", 17),
        "a constant along an inner axis": ("<float[4,1,1] c = {1,2,3,4}>", "r = Div(t, c)", "y = Div(x, c)", 17),
        "Where with a constant condition of lower rank": (
            "<bool[5,3] c = {1,0,1,0,1,1,0,0,0,1,1,1,0,1,0}>",
            "n = Neg(t) r = Where(c, t, n)",
            "v2 = Neg(x) y = Where(c, x, v2)",
            17,
        ),
        "PRelu": ("<float[3] c = {1,2,3}>", "r = PRelu(t, c)", "y = PRelu(x, c)", 17),
        "three operands": (
            "<float[3] c = {1,2,3}>",
            "n = Neg(t) r = Max(t, c, n)",
            "v2 = Neg(x) y = Max(x, c, v2)",
            17,
        ),
        "the same value twice": ("", "r = Add(t, t)", "y = Add(x, x)", 17),
        "Softmax": ("", "r = Softmax<axis=1>(t)", "y = Softmax<axis=2>(x)", 17),
        "LogSoftmax, then the last": ("", "r = LogSoftmax<axis=2>(t)", "y = LogSoftmax<axis=3>(x)", 17),
        "Softmax of opset 11 over all that follows": ("", "r = Softmax<axis=1>(t)", "y = Softmax<axis=1>(x)", 11),
        "Concat": ("", "r = Concat<axis=3>(t, t)", "y = Concat<axis=1>(x, x)", 17),
        "Split by an input": (
            "<int64[2] k = {1,2}>",
            "a, b = Split<axis=-1>(t, k) r = Concat<axis=-1>(b, a)",
            "v3, v4 = Split<axis=1>(x, c) y = Concat<axis=1>(v4, v3)",
            17,
        ),
        "Split by an attribute": (
            "",
            "a, b = Split<axis=3,split=[1,2]>(t) r = Concat<axis=-1>(b, a)",
            "v2, v3 = Split<axis=1, split=[1, 2]>(x) y = Concat<axis=1>(v3, v2)",
            11,
        ),
        "Pad by an input": ("<int64[8] p = {0,1,2,0,0,0,0,3}>", "r = Pad(t, p)", "y = Pad(x, c)", 17),
        "Pad by an attribute": (
            "",
            "r = Pad<pads=[0,1,2,0,0,0,0,3]>(t)",
            "y = Pad<pads=[0, 0, 1, 2, 0, 3, 0, 0]>(x)",
            10,
        ),
        "Pad of named axes": (
            "<int64[4] p = {1,2,0,3}, int64[2] a = {1,-1}>",
            "r = Pad(t, p, , a)",
            "y = Pad(x, c, , c)",
            18,
        ),
        "Slice": (
            "<int64[2] b = {1,0}, int64[2] e = {4,2}, int64[2] a = {2,-1}>",
            "r = Slice(t, b, e, a)",
            "y = Slice(x, c, c, c)",
            17,
        ),
        "Slice without axes": (
            "<int64[2] b = {0,1}, int64[2] e = {2,3}>",
            "r = Slice(t, b, e)",
            "y = Slice(x, c, c, c)",
            17,
        ),
        "Slice by attributes": (
            "",
            "r = Slice<starts=[1],ends=[3],axes=[2]>(t)",
            "y = Slice<axes=[3], ends=[3], starts=[1]>(x)",
            9,
        ),
        "Tile": ("<int64[4] k = {1,1,2,3}>", "r = Tile(t, k)", "y = Tile(x, c)", 17),
        "Expand": ("<int64[4] k = {1,4,1,3}>", "r = Expand(t, k)", "y = Expand(x, c)", 17),
        "Resize by scales": ("<float[4] k = {1,2,2,1}>", "r = Resize(t, , k)", "y = Resize(x, , c)", 17),
        "Resize, linear, of the inner axes": (
            "<float[4] k = {1,2,2,1}>",
            'r = Resize<mode="linear">(t, , k)',
            'y = Resize<mode="linear">(x, , c)',
            17,
        ),
        "Resize by sizes": ("<int64[4] k = {2,8,7,3}>", "r = Resize(t, , , k)", "y = Resize(x, , , c)", 17),
        "Resize of named axes": (
            "<int64[2] k = {8,7}>",
            "r = Resize<axes=[1,2]>(t, , , k)",
            "y = Resize<axes=[2, 3]>(x, , , c)",
            18,
        ),
        "quantization along the channels": (
            "<float[3] s = {1,2,3}, int8[3] z = {0,1,2}>",
            "q = QuantizeLinear<axis=-1>(t, s, z) r = DequantizeLinear<axis=3>(q, s, z)",
            "q = QuantizeLinear<axis=1>(x, c, d) y = DequantizeLinear<axis=1>(q, c, d)",
            17,
        ),
        "quantization of a tensor": (
            "<float s = {1}, uint8 z = {3}>",
            "q = QuantizeLinear(t, s, z) r = DequantizeLinear(q, s, z)",
            "q = QuantizeLinear(x, c, d) y = DequantizeLinear(q, c, d)",
            17,
        ),
        "ReduceMean, axes kept": (
            "",
            "m = ReduceMean<axes=[1,-2]>(t) r = Mul(t, m)",
            "v2 = ReduceMean<axes=[2, 3]>(x) y = Mul(x, v2)",
            17,
        ),
        "ReduceMean by an input": (
            "<int64[2] a = {1,-2}>",
            "m = ReduceMean(t, a) r = Mul(t, m)",
            "v3 = ReduceMean(x, c) y = Mul(x, v3)",
            18,
        ),
        "ArgMax": (
            "",
            "m = ArgMax<axis=3>(t) f = Cast<to=1>(m) r = Mul(t, f)",
            "v2 = ArgMax<axis=1>(x) v3 = Cast<to=1>(v2) y = Mul(x, v3)",
            17,
        ),
        "TopK": ("<int64[1] k = {2}>", "r, i = TopK(t, k)", "y, v3 = TopK<axis=1>(x, c)", 17),
        "CumSum": ("<int64 a = {1}>", "r = CumSum(t, a)", "y = CumSum(x, c)", 17),
        "GatherElements": (
            "<int64[1,1,1,3] i = {2,0,1}>",
            "e = GatherElements<axis=3>(t, i) r = Add(e, t)",
            "v3 = GatherElements<axis=1>(x, c) y = Add(v3, x)",
            17,
        ),
        "Gather of some channels": (
            "<int64[2] i = {2,0}>",
            "r = Gather<axis=-1>(t, i)",
            "y = Gather<axis=1>(x, c)",
            17,
        ),
        "Unsqueeze and Squeeze": (
            "<int64[1] a = {2}>",
            "u = Unsqueeze(t, a) s = Squeeze(u, a) r = Relu(s)",
            "u = Unsqueeze(x, c) s = Squeeze(u, d) y = Relu(s)",
            17,
        ),
        "Unsqueeze and Squeeze by attributes": (
            "",
            "u = Unsqueeze<axes=[2]>(t) n = Neg(u) s = Squeeze<axes=[2]>(n) r = Relu(s)",
            "v2 = Unsqueeze<axes=[3]>(x) v3 = Neg(v2) v4 = Squeeze<axes=[3]>(v3) y = Relu(v4)",
            11,
        ),
        "nearest upsampling of rows by Expand and Reshape": (
            "<int64[1] a = {2}, int64[5] k = {1,1,2,1,1}, int64[4] s = {2,8,5,3}>",
            "u = Unsqueeze(t, a) e = Expand(u, k) r = Reshape(e, s)",
            "u = Unsqueeze(x, c) v = Expand(u, d) y = Reshape(v, e)",
            17,
        ),
        "channel shuffle by Reshape": (
            "<int64[5] a = {2,4,5,3,1}, int64[4] b = {0,0,0,-1}>",
            "u = Reshape(t, a) n = Neg(u) r = Reshape(n, b)",
            "v3 = Reshape(x, c) v4 = Neg(v3) y = Reshape(v4, c)",
            17,
        ),
        "Identity": ("", "r = Identity(t)", "y = Identity(x)", 17),
    },
)
def test_becomes(constants: str, before: str, after: str, opset: int) -> None:
    becomes(f"{G} {constants} {{ {IN} {before} {OUT} }}", f"{G} {C} {{ {after} }}", MOVE, opset=opset)


@cases(
    ("before", "after"),
    {
        "the inner value is a graph output": (
            "g (float[2,3] x) => (float[a,b] r, float[c,d] y) { t = Transpose(x) r = Relu(t) y = Transpose(r) }",
            "g (float[2,3] x) => (float[a,b] r, float[c,d] y) { y = Relu(x) r = Transpose<perm=[1,0]>(y) }",
        ),
        "two become one": (
            "g (float[2,3] x, float[2,3] z) => (float[a,b] y) { t = Transpose(x) u = Transpose(z) y = Add(t, u) }",
            "g (float[2,3] x, float[2,3] z) => (float[a,b] y) { r = Add(x, z) y = Transpose<perm=[1,0]>(r) }",
        ),
        "two are hoisted and become one": (
            (
                "g (float[2,3] x) => (float[a,b] y, float[c,d] z)"
                " { u = Neg(x) v = Exp(u) w = Abs(u) y = Transpose(v) z = Transpose(w) }"
            ),
            (
                "g (float[2,3] x) => (float[a,b] y, float[c,d] z)"
                " { u = Neg(x) v = Transpose<perm=[1,0]>(u) y = Exp(v) z = Abs(v) }"
            ),
        ),
        "two that do not cancel become one": (
            (
                "g (float[2,3,4] x) => (float[a,b,c] y)"
                " { t = Transpose<perm=[1,2,0]>(x) r = Relu(t) y = Transpose<perm=[0,2,1]>(r) }"
            ),
            "g (float[2,3,4] x) => (float[a,b,c] y) { r = Relu(x) y = Transpose<perm=[1,0,2]>(r) }",
        ),
        "a chain merges": (
            (
                "g (float[2,3,4] x, float[4,3,2] z) => (float[a,b,c] y)"
                " { t = Transpose<perm=[1,2,0]>(x) u = Transpose<perm=[1,0,2]>(t) r = Mul(z, u)"
                " y = Transpose<perm=[1,2,0]>(r) }"
            ),
            (
                "g (float[2,3,4] x, float[4,3,2] z) => (float[a,b,c] y)"
                " { u = Transpose<perm=[2,1,0]>(x) r = Mul(z, u) y = Transpose<perm=[1,2,0]>(r) }"
            ),
        ),
        "the other operand gets a Transpose of its own": (
            (
                "g (float[2,3,4] x, float[3,4,2] z) => (float[a,b,c] y)"
                " { t = Transpose<perm=[1,2,0]>(x) r = Mul(z, t) y = Transpose<perm=[2,0,1]>(r) }"
            ),
            "g (float[2,3,4] x, float[3,4,2] z) => (float[a,b,c] y) { u = Transpose<perm=[2,0,1]>(z) y = Mul(u, x) }",
        ),
        "an operand of lower rank is unsqueezed": (
            (
                "g (float[2,3,4] x, float[2] z) => (float[a,b,c] y)"
                " { t = Transpose<perm=[1,2,0]>(x) r = Mul(z, t) y = Transpose<perm=[2,0,1]>(r) }"
            ),
            (
                "g (float[2,3,4] x, float[2] z) => (float[a,b,c] y)"
                " <int64[2] c = {1,2}> { u = Unsqueeze(z, c) y = Mul(u, x) }"
            ),
        ),
        "an overridable initializer is not a constant": (
            (
                "g (float[2,3,4] x, float[2] z = {1,2}) => (float[a,b,c] y)"
                " { t = Transpose<perm=[1,2,0]>(x) r = Mul(z, t) y = Transpose<perm=[2,0,1]>(r) }"
            ),
            (
                "g (float[2,3,4] x, float[2] z = {1,2}) => (float[a,b,c] y)"
                " <int64[2] c = {1,2}> { u = Unsqueeze(z, c) y = Mul(u, x) }"
            ),
        ),
        "extents need not be known": (
            (
                "g (float[n,h,w,3] x) => (float[a,b] y)"
                " { t = Transpose<perm=[0,3,1,2]>(x) r = Relu(t) u = Transpose<perm=[0,2,3,1]>(r)"
                " y = ReduceMean<axes=[1,2],keepdims=0>(u) }"
            ),
            "g (float[n,h,w,3] x) => (float[a,b] y) { r = Relu(x) y = ReduceMean<axes=[1,2],keepdims=0>(r) }",
        ),
        "nothing is left to move after a reduction": (
            (
                "g (float[2,3,4,5] x) => (float[a,b] y)"
                " { t = Transpose<perm=[0,2,3,1]>(x) y = ReduceSum<keepdims=0>(t, k) }"
            ),
            "g (float[2,3,4,5] x) => (float[a,b] y) <int64[2] c = {2,3}> { y = ReduceSum<keepdims=0>(x, c) }",
        ),
        "nor after ArgMin": (
            (
                "g (float[2,3,4,5] x) => (int64[a,b] y)"
                " { t = Transpose<perm=[0,2,1,3]>(x) m = ArgMin<axis=1,keepdims=0>(t) y = ReduceSum<keepdims=1>(m) }"
            ),
            "g (float[2,3,4,5] x) => (int64[a,b] y) { m = ArgMin<axis=2,keepdims=0>(x) y = ReduceSum<keepdims=1>(m) }",
        ),
        "nor after Squeeze": (
            "g (float[2,3,1,1] x) => (float[a,b] y) { t = Transpose<perm=[0,2,3,1]>(x) s = Squeeze(t, k) y = Relu(s) }",
            "g (float[2,3,1,1] x) => (float[a,b] y) <int64[2] c = {2,3}> { s = Squeeze(x, c) y = Relu(s) }",
        ),
        "nor after Flatten of axes of 1": (
            "g (float[2,3,1,1] x) => (float[a,b] y) { t = Transpose<perm=[0,2,3,1]>(x) y = Flatten(t) }",
            "g (float[2,3,1,1] x) => (float[a,b] y) { y = Flatten<axis=1>(x) }",
        ),
        "nor where Gather takes the moved axis away": (
            (
                "g (float[2,3,4] x) => (float[a,b] y)"
                " <int64 i = {1}> { t = Transpose<perm=[2,0,1]>(x) y = Gather<axis=0>(t, i) }"
            ),
            "g (float[2,3,4] x) => (float[a,b] y) <int64 c = {1}> { y = Gather<axis=2>(x, c) }",
        ),
        "nor in a table whose rows stay rows": (
            (
                "g (int64[4] i) => (float[a,b,c] y) <float[3,2,2] w = {1,2,3,4,5,6,7,8,9,10,11,12}>"
                " { r = Gather(w, i) t = Transpose<perm=[0,2,1]>(r) y = Relu(t) }"
            ),
            (
                "g (int64[4] i) => (float[a,b,c] y) <float[3,2,2] c = {1,3,2,4,5,7,6,8,9,11,10,12}>"
                " { r = Gather<axis=0>(c, i) y = Relu(r) }"
            ),
        ),
        "rows of MatMul": (
            (
                "g (float[2,3,4] x) => (float[a,b] y) <float[4,2] w = {1,2,3,4,5,6,7,8}>"
                " { t = Transpose<perm=[1,0,2]>(x) m = MatMul(t, w) y = Transpose<perm=[1,0,2]>(m) }"
            ),
            "g (float[2,3,4] x) => (float[a,b] y) <float[1] c = {1}> { y = MatMul(x, c) }",
        ),
        "both factors of MatMul are exchanged": (
            (
                "g (float[2,3,4] x, float[2,3,5] z) => (float[a,b,c] y)"
                " { s = Transpose<perm=[0,2,1]>(x) m = MatMul(s, z) y = Transpose<perm=[0,2,1]>(m) }"
            ),
            (
                "g (float[2,3,4] x, float[2,3,5] z) => (float[a,b,c] y)"
                " { s = Transpose<perm=[0,2,1]>(z) y = MatMul(s, x) }"
            ),
        ),
        "an extent is picked by another number": (
            (
                "g (float[2,3,4] x) => (int64 y, float[a,b,c] z)"
                " <int64 i = {-1}> { t = Transpose<perm=[2,0,1]>(x) s = Shape(t) y = Gather(s, i)"
                " r = Relu(t) z = Transpose<perm=[1,2,0]>(r) }"
            ),
            (
                "g (float[2,3,4] x) => (int64 y, float[a,b,c] z)"
                " <int64 c = {1}> { s = Shape(x) y = Gather(s, c) z = Relu(x) }"
            ),
        ),
        "a shape is put in order": (
            (
                "g (float[2,3,4] x) => (int64[k] y, float[a,b,c] z)"
                " { t = Transpose<perm=[2,0,1]>(x) y = Shape<start=1>(t) r = Relu(t) z = Transpose<perm=[1,2,0]>(r) }"
            ),
            (
                "g (float[2,3,4] x) => (int64[k] y, float[a,b,c] z)"
                " <int64[2] c = {1,2}> { s = Shape(x) y = Gather<axis=0>(s, c) z = Relu(x) }"
            ),
        ),
        "inside an If body, of a captured value": (
            (
                "g (bool c, float[2,3] x) => (float[n,m] y) { y = If (c) <"
                "then_branch = a () => (float[n,m] r) { t = Transpose(x) u = Relu(t) r = Transpose(u) }, "
                "else_branch = b () => (float[n,m] s) { s = Relu(x) }> }"
            ),
            (
                "g (bool c, float[2,3] x) => (float[n,m] y) { y = If (c) <"
                "then_branch = a () => (float[n,m] r) { r = Relu(x) }, "
                "else_branch = b () => (float[n,m] s) { s = Relu(x) }> }"
            ),
        ),
        "strings": (
            "g (string[2,3] x) => (string[a,b] y) { t = Transpose(x) r = Concat<axis=0>(t, t) y = Transpose(r) }",
            "g (string[2,3] x) => (string[a,b] y) { y = Concat<axis=1>(x, x) }",
        ),
    },
)
def test_becomes_elsewhere(before: str, after: str) -> None:
    becomes(before, after, MOVE, weights={"k": np.array([2, 1])} if "k)" in before else None)


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
