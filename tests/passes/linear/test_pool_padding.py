"""Padding in front of a pool."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import conv_padding
from rewrite_tables import Rewrites
from rewriting import apply_passes, load, op_types, require_equivalent

FOLD_PAD_INTO_POOL = rule_pass(conv_padding, "fold-pad-into-pool")

WEIGHTS = {"p": [0, 0, 1, 2, 0, 0, 0, 1], "least": -np.inf, "five": np.uint8(5), "least_byte": np.int8(-128)}
pads = Rewrites("g (float[{x}] x) => (float[] y)", FOLD_PAD_INTO_POOL, weights=WEIGHTS, x="2,3,6,5")
POOL = "AveragePool<kernel_shape=[2,3]>"
FOLDED = "AveragePool<kernel_shape=[2,3], pads=[1,2,0,1], count_include_pad=1>"
test_becomes = pads.all_become(f"""
    average: t = Pad(x, p) y = {POOL}(t) => y = {FOLDED}(x)
    average that counts padding of its own: t = Pad(x, p)
        y = AveragePool<kernel_shape=[3,4], count_include_pad=1, pads=[1,0,1,0], strides=[2,1]>(t)
        => y = AveragePool<kernel_shape=[3,4], count_include_pad=1, pads=[2,2,1,1], strides=[2,1]>(x)
    a symbolic extent that is not zero [graph=g (float[2,3,H,5] x, float[2,3,1,5] z) => (float[] y)]:
        u = Concat<axis=2>(x, z) t = Pad(u, p) y = {POOL}(t) => u = Concat<axis=2>(x, z) y = {FOLDED}(u)
""")
test_every_opset = pads.all_become(
    {
        str(opset): (
            f"t = {'Pad<pads=[0,0,1,2,0,0,0,1]>(x)' if opset < 11 else 'Pad(x, p)'} y = {POOL}(t) => y = {FOLDED}(x)",
            {"opset": opset},
        )
        for opset in (7, 10, 11, 13, 19, 22)
    }
)
GREATEST = "MaxPool<kernel_shape=[2,3]>"
byte_pads = pads.using(graph="g ({kind}[1,1,4,6] x) => ({kind}[a,b,c,d] y)", kind="uint8", opset=18)
test_pads_with_the_least_byte_fold = byte_pads.all_become(f"""
    nothing is below zero: t = Pad(x, p) y = {GREATEST}(t) => y = MaxPool<kernel_shape=[2,3], pads=[1,2,0,1]>(x)
    -128 [kind=int8]: t = Pad(x, p, least_byte) y = {GREATEST}(t)
        => y = MaxPool<kernel_shape=[2,3], pads=[1,2,0,1]>(x)
""")
test_stays_for_other_bytes = byte_pads.all_stay(f"""
    another value: t = Pad(x, p, five) y = {GREATEST}(t)
    zero is not the least [kind=int8]: t = Pad(x, p) y = {GREATEST}(t)
    padded by a kernel: t = Pad(x, p) y = MaxPool<kernel_shape=[1,3]>(t)
    steps over: t = Pad(x, p) y = MaxPool<kernel_shape=[2,3], dilations=[1,2]>(t)
    rounds up: t = Pad(x, p) y = MaxPool<kernel_shape=[2,3], ceil_mode=1>(t)
    indices are used: t = Pad(x, p) m, i = {GREATEST}(t) f = Cast<to=2>(i) y = BitwiseXor(m, f)
""")
test_stays = pads.all_stay(f"""
    maximum of possibly negative values: t = Pad(x, p) y = {GREATEST}(t)
    another value, average: t = Pad(x, p, 1.0) y = {POOL}(t)
    another value, greatest: r = Relu(x) t = Pad(r, p, 1.0) y = {GREATEST}(t)
    maximum of possible NaNs: r = Relu(x) t = Pad(r, p) y = {GREATEST}(t)
    maximum of possible infinities: t = Pad(x, p, least) y = {GREATEST}(t)
    does not count its own padding: t = Pad(x, p) y = AveragePool<kernel_shape=[2,3], pads=[0,0,1,0]>(t)
    same: t = Pad(x, p) y = AveragePool<kernel_shape=[2,3], auto_pad="SAME_UPPER">(t)
    rounds up, average: t = Pad(x, p) y = AveragePool<kernel_shape=[2,3], strides=[2,2], ceil_mode=1>(t)
    padded by a kernel, average: t = Pad(x, p) y = AveragePool<kernel_shape=[2,2]>(t)
    edge: t = Pad<mode="edge">(x, p) y = {POOL}(t)
    shared: t = Pad(x, p) a = {POOL}(t) y = Mul(t, t) z = Abs(a)
    apart: t = Pad(x, p) n = Neg(t) y = {POOL}(n)
    the whole: t = Pad(x, p) y = GlobalAveragePool(t)
    another pool: t = Pad(x, p) y = LpPool<kernel_shape=[2,3]>(t)
    the channels: t = Pad(x, [0,1,0,0,0,0,0,0]) y = {POOL}(t)
    an extent that may be zero [x=2,3,H,5]: t = Pad(x, p) y = AveragePool<kernel_shape=[1,3]>(t)
    an extent of zero [x=2,3,0,5]: t = Pad(x, p) y = AveragePool<kernel_shape=[1,3]>(t)
""")


@given(
    kind=st.sampled_from(["float", "uint8"]),
    kernel=st.lists(st.integers(1, 4), min_size=2, max_size=2),
    strides=st.lists(st.integers(1, 3), min_size=2, max_size=2),
    more=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    extents=st.lists(st.integers(1, 5), min_size=2, max_size=2),
)
def test_any_padding(kind: str, kernel: list[int], strides: list[int], more: list[int], extents: list[int]) -> None:
    extents = [max(e, k) for e, k in zip(extents, kernel, strict=True)]
    pool = "AveragePool" if kind == "float" else "MaxPool"
    text = f"g ({kind}[1,2,{extents[0]},{extents[1]}] x) => ({kind}[a,b,c,d] y) {{ t = Pad(x, p)"
    weights: dict[str, Any] = {"p": np.array([0, 0, *more[:2], 0, 0, *more[2:]])}
    model = load(f"{text} y = {pool}<kernel_shape={kernel}, strides={strides}>(t) }}", weights=weights)
    result, _ = apply_passes(model, FOLD_PAD_INTO_POOL)
    out = to_onnx(result)
    fits = all(p < kernel[i % 2] for i, p in enumerate(more))
    assert op_types(out) == ([pool] if fits else ["Pad", pool])
    require_equivalent(model, out)
