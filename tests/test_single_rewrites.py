"""Single rewrites, each a small model: nothing that can go may be left, and the result means the same.

`left` is what may stay of a case, besides the ops around it: they keep numbers small, so that what is merged neither
overflows nor cancels.
"""

from typing import Any

import numpy as np
from passwright.core import to_onnx
from passwright.passes.pipelines import PIPELINES
from rewriting import apply_passes, cases, load, op_types, require_equivalent, table
from weights import read_by

BASIC = PIPELINES["basic"]
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(size=shape).astype(np.float32)


NUMBERS = {"zero": 0, "one": 1, "two": 2, "three": 3, "six": 6, "half": 0.5, "eps": 1e-5, "ratio0": 0}
VECTORS = {"zeros4": np.zeros(4), "ones4": np.ones(4), "scales": np.ones(4), "empty": np.zeros((2, 0, 4))}
SHAPES = {"v4": (4,), "u4": (4,), "c4": (4,), "m44": (4, 4), "n44": (4, 4), "k44": (4, 4), "x2": (2, 3, 4)}
KERNELS = {"w33": (4, 4, 3, 3), "w31": (4, 4, 3, 3), "w11": (4, 4, 1, 1), "wt": (4, 4, 2, 2), "c411": (4, 1, 1)}
AXES = {"i0": [0], "i1": [1], "i2": [2], "i3": [3], "far": [2**63 - 1], "none": [], "all3": [0, 1, 2], "split3": [1, 2]}
DIMS = {"s234": [2, 3, 4], "s2m4": [2, -1, 4], "s64": [6, 4], "s24": [24], "s1111": [-1, 2, 2, 1], "ones3": [1, 1, 1]}
PADS = {"pads0": [0] * 6, "pads1": [0, 0, 1, 0, 0, 1], "places": [[0], [1]]}
WEIGHTS: dict[str, Any] = {
    **{name: np.asarray(a, np.float32) for name, a in {**NUMBERS, **VECTORS}.items()},
    **{name: normal(*shape) for name, shape in {**SHAPES, **KERNELS}.items()},
    **{name: np.array(a, np.int64) for name, a in {**AXES, **DIMS, **PADS}.items()},
    "p4": np.abs(normal(4)) + 1,
    "d411": np.abs(normal(4, 1, 1)) + 1,
    "yes": np.ones((2, 3, 4), np.bool_),
    "true": np.array(True),
}
HEADS = {
    "V": "g (float[2,3,4] raw) => (float[a,b,c] y)",
    "M": "g (float[B,4] raw) => (float[a,b] y)",
    "T": "g (float[4,B] raw) => (float[a,b] y)",
    "C": "g (float[N,4,8,8] raw) => (float[a,b,c,d] y)",
    "P": "g (float[N,4,1,1] raw) => (float[a,b,c,d] y)",
    "L": "g (float[B,S,4] raw) => (float[a,b,c] y)",
}


@cases(
    ("head", "left", "body"),
    table("""
    Identity: V => 0 => t = Identity(x)
    Dropout: V => 0 => t = Dropout(x)
    Dropout of ratio 0 in training: V => 0 => t = Dropout(x, ratio0, true)
    Cast to the same: V => 0 => t = Cast<to=1>(x)
    Cast there and back: V => 0 => a = Cast<to=11>(x) t = Cast<to=1>(a)
    Transpose of nothing: V => 0 => t = Transpose<perm=[0,1,2]>(x)
    Transposes cancel: V => 0 => a = Transpose<perm=[2,0,1]>(x) t = Transpose<perm=[1,2,0]>(a)
    Transposes merge: V => 1 => a = Transpose<perm=[2,0,1]>(x) t = Transpose<perm=[2,0,1]>(a)
    Transposes of 1-dims: P => 0 => a = Transpose<perm=[0,2,3,1]>(x) t = Transpose<perm=[0,3,1,2]>(a)
    Reshape to the same: V => 0 => t = Reshape(x, s234)
    Reshape to the same, -1: V => 0 => t = Reshape(x, s2m4)
    Reshapes merge: V => 1 => a = Reshape(x, s64) t = Reshape(a, s24)
    Reshapes cancel: V => 0 => a = Reshape(x, s64) t = Reshape(a, s234)
    Flatten of a matrix: M => 0 => t = Flatten(x)
    Slice of all: V => 0 => t = Slice(x, i0, far, i1)
    Slices of two axes: V => 1 => a = Slice(x, i0, i2, i1) t = Slice(a, i1, i3, i2)
    Slices of one axis: V => 1 => a = Slice(x, i1, far, i2) t = Slice(a, i0, i2, i2)
    Pad of nothing: V => 0 => t = Pad(x, pads0)
    Pads merge: V => 1 => a = Pad(x, pads1) t = Pad(a, pads1)
    Concat of one: V => 0 => t = Concat<axis=1>(x)
    Concat with an empty piece: V => 0 => t = Concat<axis=1>(x, empty)
    Concats merge: V => 1 => a = Concat<axis=1>(x, x) t = Concat<axis=1>(a, x)
    Expand of nothing: V => 0 => t = Expand(x, ones3)
    Tile once: V => 0 => t = Tile(x, ones3)
    Split into one: V => 0 => t = Split<axis=1>(x)
    Split and Concat: V => 0 => a, b = Split<axis=1>(x, split3) t = Concat<axis=1>(a, b)
    Unsqueeze and Squeeze: V => 0 => a = Unsqueeze(x, i1) t = Squeeze(a, i1)
    Squeeze and Unsqueeze: P => 0 => a = Squeeze(x, i2) t = Unsqueeze(a, i2)
    Unsqueezes: V => 1 => a = Unsqueeze(x, i1) b = Unsqueeze(a, i0) t = Squeeze(b, i0)
    Squeezes: P => 1 => a = Squeeze(x, i3) b = Squeeze(a, i2) t = Unsqueeze(b, i2)
    Squeeze and Reshape: P => 1 => a = Squeeze(x, i2) t = Reshape(a, s1111)
    Add 0: V => 0 => t = Add(x, zero)
    Add a vector of 0: V => 0 => t = Add(x, zeros4)
    0 + x: V => 0 => t = Add(zero, x)
    Mul 1: V => 0 => t = Mul(x, one)
    Mul a vector of 1: V => 0 => t = Mul(ones4, x)
    Sub 0: V => 0 => t = Sub(x, zero)
    Div 1: V => 0 => t = Div(x, one)
    Pow 1: V => 0 => t = Pow(x, one)
    Muls merge: V => 1 => a = Mul(x, two) t = Mul(a, three)
    Adds merge: V => 1 => a = Add(x, v4) t = Add(u4, a)
    Negs cancel: V => 1 => a = Neg(x) b = Neg(a) t = Abs(b)
    Relus: V => 1 => a = Relu(x) t = Relu(a)
    Relu of Exp: V => 1 => a = Exp(x) t = Relu(a)
    Clips: V => 1 => a = Clip(x, zero, six) t = Clip(a, one, three)
    Relu and Clip: V => 1 => a = Relu(x) t = Clip(a, zero, six)
    Min and Max: V => 1 => a = Min(x, six) t = Max(a, zero)
    Clip without bounds: V => 0 => t = Clip(x)
    ReduceSum of nothing: V => 0 => t = ReduceSum<noop_with_empty_axes=1>(x, none)
    ReduceMean over 1: P => 0 => t = ReduceMean<axes=[2,3]>(x)
    ReduceSum and Unsqueeze: V => 1 => a = ReduceSum<keepdims=0>(x, i1) t = Unsqueeze(a, i1)
    ReduceMeans: V => 1 => a = ReduceMean<axes=[2]>(x) t = ReduceMean<axes=[1]>(a)
    GlobalAveragePool of 1x1: P => 0 => t = GlobalAveragePool(x)
    AveragePool of 1x1: C => 0 => t = AveragePool<kernel_shape=[1,1]>(x)
    Resize of nothing: C => 0 => t = Resize<mode="linear">(x, , scales)
    Gather of all: V => 0 => t = Gather<axis=1>(x, all3)
    Where with a constant condition: V => 0 => a = Exp(x) t = Where(yes, x, a)
    Max of one: V => 0 => t = Max(x)
    Sum of one: V => 0 => t = Sum(x)
    Nots cancel: V => 2 => a = Greater(x, zero) b = Not(a) c = Not(b) t = Cast<to=1>(c)
    LogSoftmax: V => 1 => a = Softmax<axis=-1>(x) t = Log(a)
    Neg and Add: V => 2 => a = Neg(x) b = Exp(x) t = Add(a, b)
    HardSwish: V => 1 => a = Add(x, three) b = Clip(a, zero, six) c = Mul(x, b) t = Div(c, six)
    LayerNormalization: L => 1 => m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) q = Pow(d, two)
        v = ReduceMean<axes=[-1]>(q) e = Add(v, eps) s = Sqrt(e) n = Div(d, s) g = Mul(n, v4) t = Add(g, u4)
    LayerNormalization, Mul(d, d): L => 1 => m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) q = Mul(d, d)
        v = ReduceMean<axes=[-1]>(q) e = Add(v, eps) s = Sqrt(e) n = Div(d, s) g = Mul(n, v4) t = Add(g, u4)
    Einsum: L => 1 => t = Einsum<equation="bij,jk->bik">(x, m44)
    MatMuls: M => 1 => a = MatMul(x, m44) t = MatMul(a, n44)
    MatMul and Mul: L => 1 => a = MatMul(x, m44) t = Mul(a, two)
    QKV: M => 4 => q = MatMul(x, m44) k = MatMul(x, n44) v = MatMul(x, k44) s = Mul(q, k) t = Add(s, v)
    Transpose and MatMul: T => 1 => a = Transpose(x) t = MatMul(a, m44)
    Conv and Conv 1x1: C => 1 => a = Conv(x, w33) t = Conv(a, w11)
    branches: C => 1 => a = Conv<pads=[1,1,1,1]>(x, w33) b = Conv<pads=[1,1,1,1]>(x, w31) t = Add(a, b)
    Conv and Sub: C => 1 => a = Conv(x, w33) t = Sub(a, c411)
    Conv and Div: C => 1 => a = Conv(x, w33) t = Div(a, d411)
    Mul and Conv: C => 1 => a = Mul(x, c411) t = Conv<pads=[1,1,1,1]>(a, w33)
    normalized Conv: C => 1 => a = Sub(x, c411) b = Div(a, d411) t = Conv(b, w33)
    ConvTranspose and Add: C => 1 => t = ConvTranspose(x, wt) u = Add(t, c411)
    the same twice: V => 2 => a = Sqrt(x) b = Sqrt(x) t = Add(a, b)
    the same twice, swapped: V => 3 => b = Exp(x) a = Add(x, b) c = Add(b, x) t = Mul(a, c)
    dead ops: V => 1 => d = Exp(x) e = Sqrt(d) t = Abs(x)
    shape arithmetic: L => 1 => s = Shape(x) b = Gather(s, i0) l = Gather(s, i1) n = Concat<axis=0>(b, l, i2, i2)
        t = Reshape(x, n)
    ScatterND: V => 2 => a = ScatterND(x, places, x2) t = Abs(a)
    a RepVGG block: C => 1 => a = Conv<pads=[1,1,1,1]>(x, w33) b = Conv(x, w11) s = Add(a, b)
        n = BatchNormalization(x, p4, c4, c4, p4) t = Add(s, n)
    Conv and BatchNormalization: C => 1 => a = Conv(x, w33) t = BatchNormalization(a, p4, c4, c4, p4)
    BatchNormalization and Conv: C => 1 => a = BatchNormalization(x, p4, c4, c4, p4) t = Conv(a, w33)
    MatMul and BatchNormalization: M => 1 => a = MatMul(x, m44) t = BatchNormalization(a, p4, c4, c4, p4)
    Gemm and Add: M => 1 => a = Gemm(x, m44) t = Add(a, c4)
"""),
)
def test_single_rewrite_is_complete(head: str, left: str, body: str) -> None:
    last = body.rsplit(" = ", 1)[0].rsplit(" ", 1)[-1].removesuffix(",")
    text = f"{HEADS[head]} {{ x = Tanh(raw) {body} y = Softsign({last}) }}"
    model = load(text, weights=read_by(text, WEIGHTS))
    result, change_log = apply_passes(model, BASIC)
    out = to_onnx(result)
    require_equivalent(model, out, exact=change_log.is_exact)
    assert len(op_types(out)) <= int(left) + 2, op_types(out)
