"""Convolutions in a row."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import conv_merging
from rewrite_tables import Rewrites
from rewriting import apply_passes, initializers, load, op_types, require_equivalent
from weights import numbers

MERGE_CONSECUTIVE_CONVS = rule_pass(conv_merging, "merge-consecutive-convs")

X = "x = Tanh(z)"  # of infinities two convolutions make NaN where one may not


def arrays(w: str, v: str, **_: Any) -> dict[str, np.ndarray]:
    """Weights of these dims for two convolutions, and a bias for each."""
    first, second = (tuple(map(int, dims.split(","))) for dims in (w, v))
    return {
        "w": numbers(*first),
        "v": numbers(*second, seed=1),
        "b": numbers(first[0], seed=2),
        "c": numbers(second[0], seed=3),
    }


convs = Rewrites(
    "g (float[2,3,6,5] z) => (float[a,b,c,d] y)", MERGE_CONSECUTIVE_CONVS, weights=arrays, w="4,3,3,2", v="4,4,1,1"
)
test_becomes = convs.all_become(f"""
    point second [v=2,4,1,1]: {X} t = Conv<pads=[1,0,0,1]>(x, w) y = Conv(t, v) => {X} y = Conv<pads=[1,0,0,1]>(x, w)
    point second, first bias [v=2,4,1,1]: {X} t = Conv<pads=[1,0,0,1]>(x, w, b) y = Conv(t, v)
        => {X} y = Conv<pads=[1,0,0,1]>(x, w, b)
    second bias: {X} t = Conv(x, w) y = Conv(t, v, c) => {X} y = Conv(x, w, b)
    both biases: {X} t = Conv(x, w, b) y = Conv(t, v, c) => {X} y = Conv(x, w, b)
    strides [w=4,3,2,2]: {X} t = Conv<strides=[1,2], dilations=[2,1]>(x, w, b) y = Conv<strides=[2,1]>(t, v, c)
        => {X} y = Conv<strides=[2,2], dilations=[2,1]>(x, w, b)
    auto_pad of the first: {X} t = Conv<auto_pad="SAME_UPPER", strides=[2,2]>(x, w)
        y = Conv<auto_pad="SAME_LOWER">(t, v) => {X} y = Conv<auto_pad="SAME_UPPER", strides=[2,2]>(x, w)
    point second, grouped [w=6,1,2,2; v=3,2,1,1]: {X} t = Conv<group=3>(x, w, b) y = Conv<group=3>(t, v)
        => {X} y = Conv<group=3>(x, w, b)
    point first, padded [w=3,3,1,1; v=4,3,3,2]: {X} t = Conv(x, w) y = Conv<pads=[1,1,1,1], strides=[2,2]>(t, v, c)
        => {X} y = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w, b)
    point first, biases [w=4,3,1,1; v=4,4,3,2]: {X} t = Conv(x, w, b) y = Conv<dilations=[1,2]>(t, v, c)
        => {X} y = Conv<dilations=[1,2]>(x, w, b)
    point first, grouped [w=6,1,1,1; v=3,2,3,2]: {X} t = Conv<group=3>(x, w, b) y = Conv<group=3>(t, v)
        => {X} y = Conv<group=3>(x, w, b)
    a chain: {X} r = Conv<pads=[1,1,1,1]>(x, w, b) s = Conv(r, v, c) t = Conv(s, v) y = Conv(t, v, c)
        => {X} y = Conv<pads=[1,1,1,1]>(x, w, b)
    both points [w=3,3,1,1; v=5,3,1,1]: {X} t = Conv(x, w, b) y = Conv(t, v, c) => {X} y = Conv(x, w, b)
""")

PAIR = f"{X} t = Conv(x, w, b) y = Conv(t, v, c) => {X} y = Conv(x, w, b)"
test_every_opset = convs.all_become(
    {str(opset): (PAIR, {"opset": opset, "runs": opset >= 7}) for opset in (1, 7, 11, 22)}
)
test_other_types = convs.all_become({dtype: (PAIR, {"dtype": dtype}) for dtype in ("float16", "double")})
test_stays = convs.all_stay(f"""
    no points [v=4,4,2,1]: {X} t = Conv(x, w) y = Conv(t, v)
    padded points: {X} t = Conv(x, w) y = Conv<pads=[0,0,1,0]>(t, v)
    it widens [w=2,3,3,2; v=8,2,1,1]: {X} t = Conv(x, w) y = Conv(t, v)
    it narrows first [w=1,3,1,1; v=8,1,3,2]: {X} t = Conv(x, w) y = Conv(t, v)
    separable [w=3,1,3,2; v=4,3,1,1]: {X} t = Conv<group=3>(x, w) y = Conv(t, v)
    bias, padded [w=3,3,1,1; v=3,3,3,2]: {X} t = Conv(x, w, b) y = Conv<pads=[0,0,0,1]>(t, v)
    bias, auto_pad [w=3,3,1,1; v=3,3,3,2]: {X} t = Conv(x, w, b) y = Conv<auto_pad="SAME_LOWER">(t, v)
    points with steps [w=3,3,1,1; v=3,3,3,2]: {X} t = Conv<strides=[2,1]>(x, w) y = Conv(t, v)
    points, padded [w=3,3,1,1; v=3,3,3,2]: {X} t = Conv<pads=[1,1,1,1]>(x, w) y = Conv(t, v)
    auto_pad depends on strides [w=3,3,3,2; v=3,3,1,1]: {X} t = Conv<auto_pad="SAME_UPPER">(x, w)
        y = Conv<strides=[2,2]>(t, v)
    apart: {X} t = Conv(x, w) r = Relu(t) y = Conv(r, v)
    shared inner value: {X} t = Conv(x, w) r = Conv(t, v) y = Add(t, r)
    computed weights: {X} k = Neg(w) t = Conv(x, k) y = Conv(t, v)
    computed points: {X} k = Neg(v) t = Conv(x, w) y = Conv(t, k)
    computed bias: {X} k = Neg(b) t = Conv(x, w, k) y = Conv(t, v)
    transposed [w=3,4,3,2]: {X} t = ConvTranspose(x, w) y = Conv(t, v)
    not seen: {X} t = Conv(x, w) y = Conv(x, w) u = Conv(t, v)
    inner value is a graph output: g (float[2,3,6,5] x) => (float[a,b,c,d] y, float[a,b,c,d] t) {{ t = Conv(x, w)
        y = Conv(t, v) }}
    overridable bias: g (float[2,3,6,5] x, float[4] k = {{1,2,3,4}}) => (float[a,b,c,d] y) {{ t = Conv(x, w, k)
        y = Conv(t, v) }}
    weights are a graph input: g (float[2,3,6,5] x, float[4,4,1,1] k) => (float[a,b,c,d] y) {{ t = Conv(x, w)
        y = Conv(t, k) }}
""")


def test_overflow_stays() -> None:
    large = {name: a * np.float32(1e25) for name, a in arrays("4,3,3,2", "4,4,1,1").items()}
    convs.stays(f"{X} t = Conv(x, w) y = Conv(t, v)", weights=large)


@given(
    point_first=st.booleans(),
    groups=st.integers(1, 3),
    channels=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    kernel=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    pad=st.integers(0, 1),
    strides=st.lists(st.integers(1, 2), min_size=2, max_size=2),
    biases=st.lists(st.sampled_from(["", ", {}"]), min_size=2, max_size=2),
)
def test_any_two(
    *,
    point_first: bool,
    groups: int,
    channels: list[int],
    kernel: list[int],
    pad: int,
    strides: list[int],
    biases: list[str],
) -> None:
    inputs, between, outputs = (groups * c for c in channels)
    n = len(kernel)
    kernels = [(1,) * n, tuple(kernel)][:: 1 if point_first else -1]
    attrs = [
        f"<group={groups}, strides={[s] * n}, pads={[pad * (len(set(k)) > 1 or k[0] > 1)] * 2 * n}>"
        for s, k in zip(strides, kernels, strict=True)
    ]
    body = f"t = Conv{attrs[0]}(x, w{biases[0].format('b')}) y = Conv{attrs[1]}(t, v{biases[1].format('c')})"
    w, v = (between, channels[0], *kernels[0]), (outputs, channels[1], *kernels[1])
    model = load(
        f"g (float{[2, inputs, *[5] * n]} z) => (float[{','.join('abcde'[: n + 2])}] y) {{ {X} {body} }}",
        weights=arrays(str(w)[1:-1], str(v)[1:-1]),
    )
    result, change_log = apply_passes(model, MERGE_CONSECUTIVE_CONVS)
    out = to_onnx(result)
    assert len(op_types(out)) == 3 - change_log.change_count
    before, after = (sum(a.size for n, a in initializers(m).items() if n not in "bc") for m in (model, out))
    assert after <= before + (between + outputs)
    require_equivalent(model, out)
