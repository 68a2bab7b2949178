"""Scales and shifts in front of a convolution."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import affine_into_conv
from rewrite_tables import Rewrites
from rewriting import apply_passes, load, op_types, require_equivalent
from weights import numbers

FOLD_AFFINE_BEFORE_CONV = rule_pass(affine_into_conv, "fold-affine-before-conv")

WEIGHTS = {
    "w": numbers(6, 4, 3, 2),
    "c": numbers(4, 1, 1, seed=1),
    "s": numbers(4),
    "m": numbers(4, seed=2),
    "n": numbers(4, seed=3),
    "v": abs(numbers(4, seed=4)),
    "k": numbers(6),
    "k3": numbers(3),
    "w2": numbers(6, 2, 3, 2),
    "w8": numbers(8, 1, 2, 2),
    "wt": numbers(4, 3, 2, 2),
    "w1": numbers(6, 4, 1, 1),
    "w0": numbers(0, 4, 3, 2),
    "none": np.zeros(4, np.float32),
    "last": numbers(4),
    "rows": numbers(5, 1),
    "batch": numbers(2, 1, 1, 1),
    "elements": numbers(4, 5, 4),
    "nan": np.nan,
    "deep": numbers(1, 4, 1, 1),
}
affine = Rewrites("g (float[{x}] x) => (float[] y)", FOLD_AFFINE_BEFORE_CONV, weights=WEIGHTS, x="2,4,5,4")
NORMALIZED = "t = BatchNormalization(x, s, m, n, v)"
CONSTANTS = {"per channel": WEIGHTS["c"], "scalar": 0.7, "rank 4": [[[[1.5]]]]}
OPS = {
    "product": "t = Mul(x, c) y = Conv<pads=[1,0,1,2]>(t, w) => y = Conv<pads=[1,0,1,2]>(x, i)",
    "product, the constant first": "t = Mul(c, x) y = Conv(t, w) => y = Conv(x, i)",
    "quotient": "t = Div(x, c) y = Conv<pads=[1,1,1,1]>(t, w) => y = Conv<pads=[1,1,1,1]>(x, i)",
    "sum": "t = Add(x, c) y = Conv(t, w) => y = Conv(x, i, j)",
    "sum, the constant first": "t = Add(c, x) y = Conv(t, w) => y = Conv(x, i, j)",
    "difference": "t = Sub(x, c) y = Conv(t, w, k) => y = Conv(x, i, j)",
    "difference from a constant": "t = Sub(c, x) y = Conv(t, w) => y = Conv(x, i, j)",
    "negation": "t = Neg(x) y = Conv<pads=[1,1,1,1]>(t, w) => y = Conv<pads=[1,1,1,1]>(x, i)",
    "mean and deviation": "t = Sub(x, c) u = Div(t, c) y = Conv(u, w) => y = Conv(x, i, j)",
    "deviation only, where it pads": (
        "t = Sub(x, c) u = Div(t, c) y = Conv<pads=[1,1,1,1]>(u, w) => t = Sub(x, c) y = Conv<pads=[1,1,1,1]>(t, i)"
    ),
    "no auto_pad": 'u = Add(x, c) y = Conv<auto_pad="VALID">(u, w) => y = Conv<auto_pad="VALID">(x, i, j)',
    "scaled, auto_pad": 'u = Mul(x, c) y = Conv<auto_pad="SAME_LOWER">(u, w) => y = Conv<auto_pad="SAME_LOWER">(x, i)',
    "normalization": f"{NORMALIZED} y = Conv<strides=[2,1]>(t, w, k) => y = Conv<strides=[2,1]>(x, i, j)",
}
test_becomes = affine.all_become(
    {f"{kind}, {op}": (text, {"weights": {"c": c}}) for kind, c in CONSTANTS.items() for op, text in OPS.items()}
)
test_becomes_with_other_convolutions = affine.all_become(f"""
    scale, grouped: t = Mul(x, c) y = Conv<group=2>(t, w2) => y = Conv<group=2>(x, i)
    shift, grouped: t = Sub(x, c) y = Conv<group=2>(t, w2) => y = Conv<group=2>(x, i, j)
    normalization, depthwise: {NORMALIZED} y = Conv<group=4>(t, w8) => y = Conv<group=4>(x, i, j)
    transposed, grouped: t = Mul(x, c) y = ConvTranspose<group=2, pads=[1,1,0,0]>(t, wt)
        => y = ConvTranspose<group=2, pads=[1,1,0,0]>(x, i)
    transposed, with bias: t = Div(x, c) y = ConvTranspose(t, wt, k3) => y = ConvTranspose(x, i, j)
    a normalization that does not shift, where it pads: t = BatchNormalization(x, s, none, none, v)
        y = Conv<pads=[1,1,1,1]>(t, w) => y = Conv<pads=[1,1,1,1]>(x, i)
    one point needs no padding: u = Add(x, c) y = Conv<auto_pad="SAME_UPPER">(u, w1)
        => y = Conv<auto_pad="SAME_UPPER">(x, i, j)
""")
BOTH = "t = Sub(x, c) u = BatchNormalization(t, s, m, n, v) y = Conv(u, w) => y = Conv(x, i, j)"
test_every_opset_since_7 = affine.all_become({str(opset): (BOTH, {"opset": opset}) for opset in (7, 9, 13, 15, 22)})
test_other_types = affine.using(weights={"w": WEIGHTS["w"] / 4, "c": WEIGHTS["c"] / 4}).all_become("""
    half [dtype=float16]: t = Sub(x, c) u = Mul(t, c) y = Conv(u, w) => y = Conv(x, i, j)
    double [dtype=double]: t = Sub(x, c) u = Mul(t, c) y = Conv(u, w) => y = Conv(x, i, j)
""")
test_stays = affine.all_stay(f"""
    shift where it pads: t = Add(x, c) y = Conv<pads=[0,0,0,1]>(t, w)
    shift, auto_pad: t = Add(x, c) y = Conv<auto_pad="SAME_UPPER">(t, w)
    normal, pads: {NORMALIZED} y = Conv<pads=[1,0,0,0]>(t, w)
    shift, transposed: t = Add(x, c) y = ConvTranspose(t, wt)
    along the last axis, as many as channels: t = Mul(x, last) y = Conv(t, w)
    along rows: t = Mul(x, rows) y = Conv(t, w)
    along the batch: t = Mul(x, batch) y = Conv(t, w)
    per element: t = Mul(x, elements) y = Conv(t, w)
    quotient of a constant: t = Div(c, x) y = Conv(t, w)
    division by zero: t = Div(x, 0.0) y = Conv(t, w)
    overflow: t = Mul(x, 3e38) y = Conv(t, w)
    bias overflows: t = Add(x, 3e38) y = Conv(t, w)
    not a number: t = Sub(x, nan) y = Conv(t, w)
    apart: t = Mul(x, c) r = Relu(t) y = Conv(r, w)
    shared: t = Mul(x, c) p = Conv(t, w) r = Relu(t) q = Conv(r, w) y = Add(p, q)
    no constant: t = Mul(x, x) y = Conv(t, w)
    computed weights: b = Neg(w) t = Mul(x, c) y = Conv(t, b)
    computed bias: b = Neg(k) t = Add(x, c) y = Conv(t, w, b)
    the weights are scaled: t = Mul(w, c) y = Conv(x, t)
    no channels come out: t = Mul(x, c) y = Conv(t, w0)
    stretches the channels [x=2,1,5,4]: t = Mul(x, c) y = Conv(t, w)
    may stretch the channels [x=2,C,5,4]: t = Mul(x, c) y = Conv(t, w)
    stretches the rank [x=5,4]: t = Mul(x, deep) y = Conv(t, w)
    inner value is a graph output [graph=g (float[2,4,5,4] x) => (float[a,b,c,d] y, float[a,b,c,d] t)]:
        t = Mul(x, c) y = Conv(t, w)
    overridable factor [graph=g (float[2,4,5,4] x, float[1] k = {{2}}) => (float[] y)]: t = Mul(x, k) y = Conv(t, w)
    broadcast by attribute [opset=6; runs=False]: t = Mul<axis=1, broadcast=1>(x, c) y = Conv(t, w)
    training mode [opset=15]: t, p, r = BatchNormalization<training_mode=1>(x, s, m, n, v) y = Conv(t, w)
""")


@given(
    transposed=st.booleans(),
    groups=st.integers(1, 3),
    inputs=st.integers(1, 2),
    spatial=st.integers(1, 3),
    padded=st.booleans(),
    op=st.sampled_from(["Add(x, c)", "Sub(x, c)", "Sub(c, x)", "Mul(x, c)", "Div(x, c)", "Neg(x)"]),
    uniform=st.booleans(),
)
def test_any_convolution(
    *, transposed: bool, groups: int, inputs: int, spatial: int, padded: bool, op: str, uniform: bool
) -> None:
    shape = (groups * inputs, 2) if transposed else (groups * 2, inputs)
    dims = ",".join(map(str, (2, groups * inputs, *[3] * spatial)))
    conv = f"{'ConvTranspose' if transposed else 'Conv'}<group={groups}, pads={[int(padded)] * 2 * spatial}>"
    text = f"g (float[{dims}] x) => (float[{','.join('abcde'[: spatial + 2])}] y) {{ t = {op} y = {conv}(t, w) }}"
    c = numbers(1 if uniform else groups * inputs, *[1] * spatial, seed=2)
    model = load(text, weights={"w": numbers(*shape, *[2] * spatial), "c": c})
    result, _ = apply_passes(model, FOLD_AFFINE_BEFORE_CONV)
    out = to_onnx(result)
    shifts = op.startswith(("Add", "Sub"))
    assert len(op_types(out)) == 1 + (shifts and (transposed or padded))
    require_equivalent(model, out)
