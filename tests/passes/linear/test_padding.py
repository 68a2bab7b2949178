"""Padding in front of a convolution."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import conv_padding
from rewrite_tables import Rewrites
from rewriting import apply_passes, load, op_types, require_equivalent
from weights import numbers

FOLD_PAD_INTO_CONV = rule_pass(conv_padding, "fold-pad-into-conv")

WEIGHTS = {
    "p": [0, 0, 1, 2, 0, 0, 0, 3],
    "channels": [0, 0, 0, 0, 0, 1, 0, 0],
    "w": numbers(4, 3, 3, 2),
    "v": numbers(3, 1, 3, 2),
    "w4": numbers(4, 4, 3, 2),
    "turned": numbers(3, 2, 2, 2),
}
pads = Rewrites("g (float[{x}] x) => (float[] y)", FOLD_PAD_INTO_CONV, weights=WEIGHTS, x="2,3,6,5")
ONE = "y = Conv<pads=[1,2,0,3]>(x, k)"
test_becomes = pads.all_become(f"""
    value left out: t = Pad(x, p) y = Conv(t, w) => {ONE}
    zero: t = Pad(x, p, 0.0) y = Conv(t, w) => {ONE}
    mode spelled out: t = Pad<mode="constant">(x, p, 0.0) y = Conv(t, w) => {ONE}
    with padding of its own: t = Pad(x, p) y = Conv<pads=[0,1,2,0], strides=[2,1], dilations=[1,2]>(t, w)
        => y = Conv<pads=[1,3,2,3], strides=[2,1], dilations=[1,2]>(x, k)
    valid: t = Pad(x, p) y = Conv<auto_pad="VALID">(t, w) => {ONE}
    same, upper: t = Pad(x, p) y = Conv<auto_pad="SAME_UPPER">(t, w) => y = Conv<pads=[2,2,1,4]>(x, k)
    same, lower: t = Pad(x, p) y = Conv<auto_pad="SAME_LOWER">(t, w) => y = Conv<pads=[2,3,1,3]>(x, k)
    same, with strides and a known extent: t = Pad(x, p) y = Conv<auto_pad="SAME_UPPER", strides=[2,3]>(t, w)
        => y = Conv<strides=[2,3], pads=[2,2,1,4]>(x, k)
    grouped: t = Pad(x, p) y = Conv<group=3>(t, v) => y = Conv<group=3, pads=[1,2,0,3]>(x, k)
    computed weights: n = Exp(w) t = Pad(x, p) y = Conv(t, n) => n = Exp(k) y = Conv<pads=[1,2,0,3]>(x, n)
    no: t = Pad(x, [0,0,0,0,0,0,0,0]) y = Conv(t, w) => y = Conv<pads=[0,0,0,0]>(x, k)
    symbolic extents [x=N,3,H,V]: t = Pad(x, p) y = Conv(t, w) => {ONE}
""")
test_every_opset = pads.all_become(
    {
        str(opset): (
            f"t = {'Pad<pads=[0,0,1,2,0,0,0,3]>(x)' if opset < 11 else 'Pad(x, p)'} y = Conv(t, w) => {ONE}",
            {"opset": opset},
        )
        for opset in (7, 10, 11, 13, 18, 19, 21, 23)
    }
)
AXES = {
    "spatial": ([2, 3], [1, 2, 0, 3], [1, 2, 0, 3]),
    "in another order": ([3, 2], [2, 1, 3, 0], [1, 2, 0, 3]),
    "from the end": ([-1], [2, 3], [0, 2, 0, 3]),
    "channels by nothing": ([1, 2], [0, 1, 0, 2], [1, 0, 2, 0]),
}
test_axes = pads.using(opset=18).all_become(
    {
        name: (
            f't = Pad(x, p, "", i) y = Conv(t, w) => y = Conv<pads={after}>(x, k)',
            {"weights": {"p": given_pads, "i": axes}},
        )
        for name, (axes, given_pads, after) in AXES.items()
    }
)
BYTES = {
    "z": np.uint8(7),
    "w": np.arange(16, dtype=np.uint8).reshape(2, 2, 2, 2),
    "u": np.uint8(3),
    "o": np.uint8(100),
    "p": [0, 0, 1, 1, 0, 0, 1, 1],
}
quantized = pads.using(graph="g (uint8[1,2,4,4] x) => ({y}[a,b,c,d] y)", weights=BYTES, y="uint8")
test_quantized = quantized.all_become("""
    QLinearConv: t = Pad(x, p, z) y = QLinearConv(t, 0.02, z, w, 0.02, u, 0.02, o)
        => y = QLinearConv<pads=[1,1,1,1]>(x, 0.02, z, w, 0.02, u, 0.02, o)
    zero point [y=int32]: t = Pad(x, p, z) y = ConvInteger(t, w, z) => y = ConvInteger<pads=[1,1,1,1]>(x, w, z)
    no zero point [y=int32]: t = Pad(x, p) y = ConvInteger(t, w) => y = ConvInteger<pads=[1,1,1,1]>(x, w)
""")
test_stays_if_quantized = quantized.all_stay("""
    zero, not the zero point: t = Pad(x, p) y = QLinearConv(t, 0.02, z, w, 0.02, u, 0.02, o)
    zero, not the zero point, integers: t = Pad(x, p) c = ConvInteger(t, w, z) f = Cast<to=2>(c) y = Identity(f)
    no zero point, and another fill: t = Pad(x, p, z) c = ConvInteger(t, w) f = Cast<to=2>(c) y = Identity(f)
""")
test_stays = pads.all_stay("""
    another value: t = Pad(x, p, 1.0) y = Conv(t, w)
    edge: t = Pad<mode="edge">(x, p) y = Conv(t, w)
    reflection: t = Pad<mode="reflect">(x, p) y = Conv(t, w)
    the batch: t = Pad(x, [1,0,0,0,0,0,0,0]) y = Conv(t, w)
    the channels: t = Pad(x, channels) y = Conv(t, w4)
    cuts off: t = Pad(x, [0,0,-1,0,0,0,1,0]) y = Conv(t, w)
    cuts the batch: t = Pad(x, [-1,0,0,0,0,0,1,0]) y = Conv(t, w)
    apart: t = Pad(x, p) r = Relu(t) y = Conv(r, w)
    shared: t = Pad(x, p) a = Conv(t, w) b = Conv(t, w) y = Add(a, b)
    computed value: z = ReduceMin<keepdims=0>(x) t = Pad(x, p, z) y = Conv(t, w)
    computed pads: q = Abs(p) t = Pad(x, q) y = Conv(t, w)
    transposed: t = Pad(x, p) y = ConvTranspose(t, turned)
    the weights are padded: t = Pad(w, [0,0,0,1,0,0,0,0]) y = Conv(x, t)
    inner value is a graph output [graph=g (float[2,3,6,5] x) => (float[a,b,c,d] y, float[a,b,c,d] t)]: t = Pad(x, p)
        y = Conv(t, w)
    overridable pads [graph=g (float[2,3,6,5] x, int64[8] p = {0,0,1,2,0,0,0,3}) => (float[a,b,c,d] y)]: t = Pad(x, p)
        y = Conv(t, w)
    overridable value [graph=g (float[2,3,6,5] x, float z = {0}) => (float[] y)]: t = Pad(x, p, z) y = Conv(t, w)
    same, with strides and an unknown extent [x=2,3,H,5]: t = Pad(x, p)
        y = Conv<auto_pad="SAME_UPPER", strides=[2,2]>(t, w)
    another value, as attribute [opset=10]: t = Pad<value=1.0, pads=[0,0,1,2,0,0,0,3]>(x) y = Conv(t, w)
""")


@given(
    more=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    auto=st.sampled_from(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]),
    strides=st.lists(st.integers(1, 3), min_size=2, max_size=2),
    extents=st.lists(st.integers(2, 7), min_size=2, max_size=2),
)
def test_any_padding(more: list[int], auto: str, strides: list[int], extents: list[int]) -> None:
    dims = ",".join(map(str, extents))
    text = f"g (float[1,3,{dims}] x) => (float[a,b,c,d] y) {{ t = Pad(x, p) y = Conv<auto_pad={auto!r}, strides="
    text = f"{text}{strides}>(t, w) }}".replace("'", '"')
    weights = {"w": WEIGHTS["w"][:, :, :2], "p": np.array([0, 0, *more[:2], 0, 0, *more[2:]])}
    model = load(text, weights=weights)
    result, _ = apply_passes(model, FOLD_PAD_INTO_CONV)
    out = to_onnx(result)
    assert op_types(out) == ["Conv"]
    require_equivalent(model, out)
