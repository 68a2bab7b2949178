"""Convolutions of one spatial axis as ones of two."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import conv_axes
from rewrite_tables import Rewrites
from rewriting import apply_passes, load, require_equivalent
from weights import numbers

LIFT_CONVS = rule_pass(conv_axes, "lift-convs")


def arrays(w: str, **_: Any) -> dict[str, np.ndarray]:
    """Weights of these dims, and a bias."""
    dims = tuple(map(int, w.split(",")))
    return {"w": numbers(*dims), "b": numbers(dims[0], seed=1)}


convs = Rewrites("g (float[{x}] x) => (float[] y)", LIFT_CONVS, weights=arrays, x="N,64,L", w="64,64,3")
test_becomes = convs.using(x="2,64,9").all_become("""
    plain: y = Conv<kernel_shape=[3]>(x, w, b)
        => u = Unsqueeze(x, a) v = Conv<kernel_shape=[1,3]>(u, w, b) y = Squeeze(v, a)
    strides: y = Conv<strides=[2], kernel_shape=[3]>(x, w, b)
        => u = Unsqueeze(x, a) v = Conv<strides=[1,2], kernel_shape=[1,3]>(u, w, b) y = Squeeze(v, a)
    pads [w=64,64,2]: y = Conv<dilations=[2], pads=[3,1], kernel_shape=[2]>(x, w, b)
        => u = Unsqueeze(x, a) v = Conv<dilations=[1,2], pads=[0,3,0,1], kernel_shape=[1,2]>(u, w, b) y = Squeeze(v, a)
    auto_pad [w=64,64,4]: y = Conv<auto_pad="SAME_LOWER", kernel_shape=[4]>(x, w, b)
        => u = Unsqueeze(x, a) v = Conv<auto_pad="SAME_LOWER", kernel_shape=[1,4]>(u, w, b) y = Squeeze(v, a)
    groups [w=32,32,3]: y = Conv<group=2, kernel_shape=[3]>(x, w, b)
        => u = Unsqueeze(x, a) v = Conv<group=2, kernel_shape=[1,3]>(u, w, b) y = Squeeze(v, a)
    depthwise [w=64,1,5]: y = Conv<group=64, kernel_shape=[5]>(x, w, b)
        => u = Unsqueeze(x, a) v = Conv<group=64, kernel_shape=[1,5]>(u, w, b) y = Squeeze(v, a)
    no bias and kernel_shape [x=N,64,L]: y = Conv(x, w)
        => u = Unsqueeze(x, a) v = Conv<kernel_shape=[1,3]>(u, w) y = Squeeze(v, a)
    axes of an old opset [x=N,64,L; opset=11]: y = Conv(x, w, b)
        => u = Unsqueeze<axes=[2]>(x) v = Conv<kernel_shape=[1,3]>(u, w, b) y = Squeeze<axes=[2]>(v)
""")
test_stays = convs.all_stay("""
    a point [w=64,64,1]: y = Conv(x, w, b)
    outputs do not fill blocks [w=40,64,3]: y = Conv(x, w, b)
    inputs do not fill blocks [w=64,40,3; x=N,40,L]: y = Conv(x, w, b)
    few channels [w=32,32,3; x=N,32,L]: y = Conv(x, w, b)
    many more outputs [w=160,64,3]: y = Conv(x, w, b)
    groups do not fill blocks [w=64,8,3]: y = Conv<group=8>(x, w, b)
    depthwise, does not fill blocks [w=40,1,3; x=N,40,L]: y = Conv<group=40>(x, w, b)
    two outputs for each channel [w=128,1,3]: y = Conv<group=64>(x, w, b)
    two axes already [w=64,64,3,3; x=N,64,L,M]: y = Conv(x, w, b)
    doubles [dtype=double; runs=False]: y = Conv(x, w)
    computed weights [graph=g (float[N,64,L] x, float[64,64,3] v) => (float[] y)]: y = Conv(x, v)
    most outputs read padding [w=64,64,9; x=2,64,9]: y = Conv<pads=[4,4]>(x, w, b)
""")
columns = convs.using(x="N,2,32,1", w="4,2,16,1")
test_columns_become = columns.all_become("""
    pads: y = Conv<kernel_shape=[16,1], pads=[7,0,8,0]>(x, w, b)
        => s = Squeeze(x, a) v = Conv<kernel_shape=[16], pads=[7,8], strides=[1], dilations=[1], group=1>(s, w, b)
           y = Unsqueeze(v, a)
    half of the points on padding [x=N,2,8,1]: y = Conv<pads=[7,0,8,0]>(x, w)
        => s = Squeeze(x, a) v = Conv<kernel_shape=[16], pads=[7,8], strides=[1], dilations=[1], group=1>(s, w)
           y = Unsqueeze(v, a)
    strides and groups [w=4,1,16,1]: y = Conv<pads=[8,0,0,0], strides=[2,3], dilations=[2,1], group=2>(x, w)
        => s = Squeeze(x, a) v = Conv<kernel_shape=[16], pads=[8,0], strides=[2], dilations=[2], group=2>(s, w)
           y = Unsqueeze(v, a)
    auto_pad: y = Conv<auto_pad="SAME_UPPER", strides=[4,1]>(x, w, b)
        => s = Squeeze(x, a) v = Conv<kernel_shape=[16], pads=[6,6], strides=[4], dilations=[1], group=1>(s, w, b)
           y = Unsqueeze(v, a)
""")
test_columns_stay = columns.all_stay("""
    no padding: y = Conv(x, w, b)
    short [w=4,2,15,1]: y = Conv<pads=[7,0,7,0]>(x, w, b)
    more padding than elements [x=N,2,7,1]: y = Conv<pads=[7,0,8,0]>(x, w, b)
    dilated [x=N,2,15,1]: y = Conv<pads=[15,0,15,0], dilations=[2,1]>(x, w, b)
    several columns [x=N,2,32,3]: y = Conv<pads=[7,0,8,0]>(x, w, b)
    columns of an unknown number [x=N,2,32,W]: y = Conv<pads=[7,0,8,0]>(x, w, b)
    padded columns: y = Conv<pads=[7,1,8,0]>(x, w, b)
    along the last axis [x=N,2,1,32; w=4,2,1,16]: y = Conv<pads=[0,7,0,8]>(x, w, b)
    doubles [dtype=double; runs=False]: y = Conv<pads=[7,0,8,0]>(x, w)
""")


@given(st.integers(2, 5), st.integers(1, 3), st.integers(1, 2), st.integers(0, 3), st.integers(0, 3), st.integers(1, 2))
def test_equivalent(kernel: int, stride: int, dilation: int, begin: int, end: int, groups: int) -> None:
    attrs = f"strides=[{stride}], dilations=[{dilation}], pads=[{begin},{end}], group={groups}"
    model = load(
        f"g (float[2,64,24] x) => (float[h,i,j] y) {{ y = Conv<{attrs}>(x, w, b) }}",
        weights=arrays(f"64,{64 // groups},{kernel}"),
    )
    result, change_log = apply_passes(model, LIFT_CONVS)
    assert change_log.change_count == 1
    require_equivalent(model, to_onnx(result), finite_only=True)
