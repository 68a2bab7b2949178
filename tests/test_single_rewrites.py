"""Single rewrites, each a small model: nothing that can go may be left, and the result means the same.

`left` is what may stay of a case, besides the ops around it: they keep numbers small, so that what is merged neither
overflows nor cancels.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from passwright.core import to_onnx
from passwright.passes.pipelines import PIPELINES
from rewriting import apply_passes, load, op_types, require_equivalent

BASIC = PIPELINES["basic"]
RNG = np.random.default_rng(0)
F32 = np.float32


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(size=shape).astype(F32)


W: dict[str, Any] = {
    "zero": np.zeros((), F32),
    "one": np.ones((), F32),
    "two": np.array(2, F32),
    "three": np.array(3, F32),
    "six": np.array(6, F32),
    "half": np.array(0.5, F32),
    "eps": np.array(1e-5, F32),
    "zeros4": np.zeros(4, F32),
    "ones4": np.ones(4, F32),
    "v4": normal(4),
    "u4": normal(4),
    "m44": normal(4, 4),
    "n44": normal(4, 4),
    "k44": normal(4, 4),
    "i0": np.array([0]),
    "i1": np.array([1]),
    "i2": np.array([2]),
    "i3": np.array([3]),
    "last": np.array([-1]),
    "s234": np.array([2, 3, 4]),
    "s2m4": np.array([2, -1, 4]),
    "s64": np.array([6, 4]),
    "s24": np.array([24]),
    "none": np.zeros(0, np.int64),
    "far": np.array([2**63 - 1]),
    "all3": np.array([0, 1, 2]),
    "pads0": np.zeros(6, np.int64),
    "pads1": np.array([0, 0, 1, 0, 0, 1]),
    "ones3": np.ones(3, np.int64),
    "split3": np.array([1, 2]),
    "empty": np.zeros((2, 0, 4), F32),
    "yes": np.ones((2, 3, 4), np.bool_),
    "min": np.array(-1, F32),
    "max": np.array(1, F32),
    "w33": normal(4, 4, 3, 3),
    "w11": normal(4, 4, 1, 1),
    "w31": normal(4, 4, 3, 3),
    "c4": normal(4),
    "p4": np.abs(normal(4)) + 1,
    "c411": normal(4, 1, 1),
    "d411": np.abs(normal(4, 1, 1)) + 1,
    "scales": np.ones(4, F32),
    "wt": normal(4, 4, 2, 2),
    "places": np.arange(2).reshape(2, 1),
    "sqrt2": np.array(np.sqrt(2), F32),
    "gelu": np.array(0.044715, F32),
    "root": np.array(np.sqrt(2 / np.pi), F32),
    "true": np.array(True),
    "ratio0": np.zeros((), F32),
}

V = "g (float[2,3,4] raw) => (float[a,b,c] y)"
M = "g (float[B,4] raw) => (float[a,b] y)"
C = "g (float[N,4,8,8] raw) => (float[a,b,c,d] y)"
P = "g (float[N,4,1,1] raw) => (float[a,b,c,d] y)"
L = "g (float[B,S,4] raw) => (float[a,b,c] y)"
BN = "BatchNormalization(t, p4, c4, c4, p4)"

CASES = [
    pytest.param(V, "t = Identity(x)", 0, id="Identity"),
    pytest.param(V, "t = Dropout(x)", 0, id="Dropout"),
    pytest.param(V, "t = Dropout(x, ratio0, true)", 0, id="Dropout of ratio 0 in training"),
    pytest.param(V, "t = Cast<to=1>(x)", 0, id="Cast to the same"),
    pytest.param(V, "a = Cast<to=11>(x) t = Cast<to=1>(a)", 0, id="Cast there and back"),
    pytest.param(V, "t = Transpose<perm=[0,1,2]>(x)", 0, id="Transpose of nothing"),
    pytest.param(V, "a = Transpose<perm=[2,0,1]>(x) t = Transpose<perm=[1,2,0]>(a)", 0, id="Transposes cancel"),
    pytest.param(V, "a = Transpose<perm=[2,0,1]>(x) t = Transpose<perm=[2,0,1]>(a)", 1, id="Transposes merge"),
    pytest.param(P, "a = Transpose<perm=[0,2,3,1]>(x) t = Transpose<perm=[0,3,1,2]>(a)", 0, id="Transposes of 1-dims"),
    pytest.param(V, "t = Reshape(x, s234)", 0, id="Reshape to the same"),
    pytest.param(V, "t = Reshape(x, s2m4)", 0, id="Reshape to the same, -1"),
    pytest.param(V, "a = Reshape(x, s64) t = Reshape(a, s24)", 1, id="Reshapes merge"),
    pytest.param(V, "a = Reshape(x, s64) t = Reshape(a, s234)", 0, id="Reshapes cancel"),
    pytest.param(M, "t = Flatten(x)", 0, id="Flatten of a matrix"),
    pytest.param(V, "t = Slice(x, i0, far, i1)", 0, id="Slice of all"),
    pytest.param(V, "a = Slice(x, i0, i2, i1) t = Slice(a, i1, i3, i2)", 1, id="Slices of two axes"),
    pytest.param(V, "a = Slice(x, i1, far, i2) t = Slice(a, i0, i2, i2)", 1, id="Slices of one axis"),
    pytest.param(V, "t = Pad(x, pads0)", 0, id="Pad of nothing"),
    pytest.param(V, "a = Pad(x, pads1) t = Pad(a, pads1)", 1, id="Pads merge"),
    pytest.param(V, "t = Concat<axis=1>(x)", 0, id="Concat of one"),
    pytest.param(V, "t = Concat<axis=1>(x, empty)", 0, id="Concat with an empty piece"),
    pytest.param(V, "a = Concat<axis=1>(x, x) t = Concat<axis=1>(a, x)", 1, id="Concats merge"),
    pytest.param(V, "t = Expand(x, ones3)", 0, id="Expand of nothing"),
    pytest.param(V, "t = Tile(x, ones3)", 0, id="Tile once"),
    pytest.param(V, "t = Split<axis=1>(x)", 0, id="Split into one"),
    pytest.param(V, "a, b = Split<axis=1>(x, split3) t = Concat<axis=1>(a, b)", 0, id="Split and Concat"),
    pytest.param(V, "a = Unsqueeze(x, i1) t = Squeeze(a, i1)", 0, id="Unsqueeze and Squeeze"),
    pytest.param(P, "a = Squeeze(x, i2) t = Unsqueeze(a, i2)", 0, id="Squeeze and Unsqueeze"),
    pytest.param(V, "a = Unsqueeze(x, i1) b = Unsqueeze(a, i0) t = Squeeze(b, i0)", 1, id="Unsqueezes"),
    pytest.param(P, "a = Squeeze(x, i3) b = Squeeze(a, i2) t = Unsqueeze(b, i2)", 1, id="Squeezes"),
    pytest.param(P, "a = Squeeze(x, i2) t = Reshape(a, s1111)", 1, id="Squeeze and Reshape"),
    pytest.param(V, "t = Add(x, zero)", 0, id="Add 0"),
    pytest.param(V, "t = Add(x, zeros4)", 0, id="Add a vector of 0"),
    pytest.param(V, "t = Add(zero, x)", 0, id="0 + x"),
    pytest.param(V, "t = Mul(x, one)", 0, id="Mul 1"),
    pytest.param(V, "t = Mul(ones4, x)", 0, id="Mul a vector of 1"),
    pytest.param(V, "t = Sub(x, zero)", 0, id="Sub 0"),
    pytest.param(V, "t = Div(x, one)", 0, id="Div 1"),
    pytest.param(V, "t = Pow(x, one)", 0, id="Pow 1"),
    pytest.param(V, "a = Mul(x, two) t = Mul(a, three)", 1, id="Muls merge"),
    pytest.param(V, "a = Add(x, v4) t = Add(u4, a)", 1, id="Adds merge"),
    pytest.param(V, "a = Neg(x) b = Neg(a) t = Abs(b)", 1, id="Negs cancel"),
    pytest.param(V, "a = Relu(x) t = Relu(a)", 1, id="Relus"),
    pytest.param(V, "a = Exp(x) t = Relu(a)", 1, id="Relu of Exp"),
    pytest.param(V, "a = Clip(x, zero, six) t = Clip(a, one, three)", 1, id="Clips"),
    pytest.param(V, "a = Relu(x) t = Clip(a, zero, six)", 1, id="Relu and Clip"),
    pytest.param(V, "a = Min(x, six) t = Max(a, zero)", 1, id="Min and Max"),
    pytest.param(V, "t = Clip(x)", 0, id="Clip without bounds"),
    pytest.param(V, "t = ReduceSum<noop_with_empty_axes=1>(x, none)", 0, id="ReduceSum of nothing"),
    pytest.param(P, "t = ReduceMean<axes=[2,3]>(x)", 0, id="ReduceMean over 1"),
    pytest.param(V, "a = ReduceSum<keepdims=0>(x, i1) t = Unsqueeze(a, i1)", 1, id="ReduceSum and Unsqueeze"),
    pytest.param(V, "a = ReduceMean<axes=[2]>(x) t = ReduceMean<axes=[1]>(a)", 1, id="ReduceMeans"),
    pytest.param(P, "t = GlobalAveragePool(x)", 0, id="GlobalAveragePool of 1x1"),
    pytest.param(C, "t = AveragePool<kernel_shape=[1,1]>(x)", 0, id="AveragePool of 1x1"),
    pytest.param(C, 't = Resize<mode="linear">(x, , scales)', 0, id="Resize of nothing"),
    pytest.param(V, "t = Gather<axis=1>(x, all3)", 0, id="Gather of all"),
    pytest.param(V, "a = Exp(x) t = Where(yes, x, a)", 0, id="Where with a constant condition"),
    pytest.param(V, "t = Max(x)", 0, id="Max of one"),
    pytest.param(V, "t = Sum(x)", 0, id="Sum of one"),
    pytest.param(V, "a = Greater(x, zero) b = Not(a) c = Not(b) t = Cast<to=1>(c)", 2, id="Nots cancel"),
    pytest.param(V, "a = Softmax<axis=-1>(x) t = Log(a)", 1, id="LogSoftmax"),
    pytest.param(V, "a = Neg(x) b = Exp(x) t = Add(a, b)", 2, id="Neg and Add"),
    pytest.param(V, "a = Add(x, three) b = Clip(a, zero, six) c = Mul(x, b) t = Div(c, six)", 1, id="HardSwish"),
    pytest.param(
        L,
        "m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) q = Pow(d, two) v = ReduceMean<axes=[-1]>(q)"
        " e = Add(v, eps) s = Sqrt(e) n = Div(d, s) g = Mul(n, v4) t = Add(g, u4)",
        1,
        id="LayerNormalization",
    ),
    pytest.param(
        L,
        "m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[-1]>(q)"
        " e = Add(v, eps) s = Sqrt(e) n = Div(d, s) g = Mul(n, v4) t = Add(g, u4)",
        1,
        id="LayerNormalization, Mul(d, d)",
    ),
    pytest.param(L, 't = Einsum<equation="bij,jk->bik">(x, m44)', 1, id="Einsum"),
    pytest.param(M, "a = MatMul(x, m44) t = MatMul(a, n44)", 1, id="MatMuls"),
    pytest.param(L, "a = MatMul(x, m44) t = Mul(a, two)", 1, id="MatMul and Mul"),
    pytest.param(
        M, "q = MatMul(x, m44) k = MatMul(x, n44) v = MatMul(x, k44) s = Mul(q, k) t = Add(s, v)", 4, id="QKV"
    ),
    pytest.param(
        "g (float[4,B] raw) => (float[a,b] y)", "a = Transpose(x) t = MatMul(a, m44)", 1, id="Transpose and MatMul"
    ),
    pytest.param(C, "a = Conv(x, w33) t = Conv(a, w11)", 1, id="Conv and Conv 1x1"),
    pytest.param(
        C, "a = Conv<pads=[1,1,1,1]>(x, w33) b = Conv<pads=[1,1,1,1]>(x, w31) t = Add(a, b)", 1, id="branches"
    ),
    pytest.param(C, "a = Conv(x, w33) t = Sub(a, c411)", 1, id="Conv and Sub"),
    pytest.param(C, "a = Conv(x, w33) t = Div(a, d411)", 1, id="Conv and Div"),
    pytest.param(C, "a = Mul(x, c411) t = Conv<pads=[1,1,1,1]>(a, w33)", 1, id="Mul and Conv"),
    pytest.param(C, "a = Sub(x, c411) b = Div(a, d411) t = Conv(b, w33)", 1, id="normalized Conv"),
    pytest.param(C, "t = ConvTranspose(x, wt) u = Add(t, c411)", 1, id="ConvTranspose and Add"),
    pytest.param(V, "a = Sqrt(x) b = Sqrt(x) t = Add(a, b)", 2, id="the same twice"),
    pytest.param(V, "b = Exp(x) a = Add(x, b) c = Add(b, x) t = Mul(a, c)", 3, id="the same twice, swapped"),
    pytest.param(V, "d = Exp(x) e = Sqrt(d) t = Abs(x)", 1, id="dead ops"),
    pytest.param(
        L,
        "s = Shape(x) b = Gather(s, i0) l = Gather(s, i1) n = Concat<axis=0>(b, l, i2, i2) t = Reshape(x, n)",
        1,
        id="shape arithmetic",
    ),
    pytest.param(V, "a = ScatterND(x, places, x2) t = Abs(a)", 2, id="ScatterND"),
    pytest.param(
        C,
        "a = Conv<pads=[1,1,1,1]>(x, w33) b = Conv(x, w11) s = Add(a, b)"
        " n = BatchNormalization(x, p4, c4, c4, p4) t = Add(s, n)",
        1,
        id="a RepVGG block",
    ),
    pytest.param(C, "a = Conv(x, w33) t = BatchNormalization(a, p4, c4, c4, p4)", 1, id="Conv and BatchNormalization"),
    pytest.param(C, "a = BatchNormalization(x, p4, c4, c4, p4) t = Conv(a, w33)", 1, id="BatchNormalization and Conv"),
    pytest.param(
        M, "a = MatMul(x, m44) t = BatchNormalization(a, p4, c4, c4, p4)", 1, id="MatMul and BatchNormalization"
    ),
    pytest.param(M, "a = Gemm(x, m44) t = Add(a, c4)", 1, id="Gemm and Add"),
]


@pytest.mark.parametrize(("head", "body", "left"), CASES)
def test_single_rewrite_is_complete(head: str, body: str, left: int) -> None:
    last = body.rsplit(" = ", 1)[0].rsplit(" ", 1)[-1].removesuffix(",")
    text = f"{head} {{ x = Tanh(raw) {body} y = Softsign({last}) }}"
    names = set(re.findall(r"\w+", body))
    model = load(text, weights={n: a for n, a in MORE.items() if n in names})
    result, change_log = apply_passes(model, BASIC)
    out = to_onnx(result)
    require_equivalent(model, out, exact=change_log.is_exact)
    assert len(op_types(out)) <= left + 2, op_types(out)


MORE = W | {"s1111": np.array([-1, 2, 2, 1]), "x2": normal(2, 3, 4)}
