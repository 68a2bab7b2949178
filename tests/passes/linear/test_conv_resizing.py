"""Pointwise convolutions before the Resize of their inputs."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import conv_resizing
from rewrite_tables import Rewrites
from rewriting import apply_passes, load, op_types, require_equivalent
from weights import numbers

SINK_RESIZES = rule_pass(conv_resizing, "sink-resizes")

LINEAR = 'Resize<mode="linear">'


def arrays(columns: int, s: str, kernel: int, rows: int, **_: Any) -> dict[str, Any]:
    """Weights, a bias and scales."""
    return {
        "w": numbers(rows, columns, kernel, kernel),
        "b": numbers(rows, seed=1),
        "s": [float(scale) for scale in s.split(",")],
        "roi": [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 2.0, 1.0],
    }


G = "g (float[{x}] x, float[{z}] z) => (float[] y)"
resizes = Rewrites(G, SINK_RESIZES, weights=arrays, x="2,8,3,5", z="2,8,6,10", columns=8, kernel=1, s="1,1,2,2", rows=4)
CORNERS = 'Resize<mode="linear", coordinate_transformation_mode="align_corners">'
INSIDE = 'Resize<mode="cubic", exclude_outside=1>'
AXES = 'Resize<mode="linear", axes=[-1,2]>'
test_resize = resizes.all_become(f"""
    nearest: r = Resize(x, , s) y = Conv(r, w, b) => t = Conv(x, k, l) y = Resize(t, , m)
    linear: r = {LINEAR}(x, , s) y = Conv(r, w, b) => t = Conv(x, k, l) y = {LINEAR}(t, , m)
    one axis smaller [s=1,1,2.5,0.9]: r = {LINEAR}(x, , s) y = Conv(r, w, b) => t = Conv(x, k, l) y = {LINEAR}(t, , m)
    align_corners: r = {CORNERS}(x, , s) y = Conv(r, w, b) => t = Conv(x, k, l) y = {CORNERS}(t, , m)
    cubic: r = Resize<mode="cubic">(x, , s) y = Conv(r, w, b) => t = Conv(x, k, l) y = Resize<mode="cubic">(t, , m)
    cubic, nothing outside: r = {INSIDE}(x, , s) y = Conv(r, w, b) => t = Conv(x, k, l) y = {INSIDE}(t, , m)
    at 9 [opset=9]: r = Upsample(x, s) y = Conv(r, w) => t = Conv(x, k) y = Upsample(t, m)
    at 10 [opset=10]: r = Resize(x, s) y = Conv(r, w) => t = Conv(x, k) y = Resize(t, m)
    at 13 [opset=13]: r = Resize(x, , s) y = Conv(r, w) => t = Conv(x, k) y = Resize(t, , m)
    at 22 [opset=22]: r = Resize(x, , s) y = Conv(r, w) => t = Conv(x, k) y = Resize(t, , m)
    axes [opset=18; s=2,3]: r = {AXES}(x, , s) y = Conv(r, w) => t = Conv(x, k) y = {AXES}(t, , m)
""")
test_stays = resizes.all_stay(f"""
    kernel of 3 x 3 [kernel=3]: r = Resize(x, , s) y = Conv(r, w, b)
    more channels [rows=16]: r = Resize(x, , s) y = Conv(r, w, b)
    smaller [s=1,1,0.5,1]: r = Resize(x, , s) y = Conv(r, w, b)
    as large [s=1,1,1,1]: r = Resize(x, , s) y = Conv(r, w, b)
    samples [s=2,1,2,1]: r = Resize(x, , s) y = Conv(r, w, b)
    channels [s=1,2,2,1; columns=16]: r = Resize(x, , s) y = Conv(r, w, b)
    values from elsewhere: r = Resize<mode="linear", coordinate_transformation_mode="tf_crop_and_resize">(x, roi, s)
        y = Conv(r, w, b)
    strides: r = Resize(x, , s) y = Conv<strides=[2,2]>(r, w)
    pads: r = Resize(x, , s) y = Conv<pads=[1,0,0,0]>(r, w)
    other reader: r = Resize(x, , s) u = Conv(r, w) v = ReduceMax(r) y = Add(u, v)
    computed scales: t = Relu(s) r = Resize(x, , t) y = Conv(r, w)
    Conv before: n = Relu(b) m = Conv(x, w, n) r = Resize(m, , s) y = Neg(r)
    groups [columns=4]: r = Resize(x, , s) y = Conv<group=2>(r, w)
    Neg between [columns=16; rows=8]: r = {LINEAR}(x, , s) c = Concat<axis=1>(r, z) d = Neg(c) y = Conv(d, w)
    sums take longer [columns=16; rows=8]: r = {LINEAR}(x, , s) c = Concat<axis=1>(r, z) y = Conv(c, w)
    rows [rows=8]: r = {LINEAR}(x, , s) c = Concat<axis=2>(r, z) y = Conv(c, w)
    none [columns=16; rows=8]: t = {LINEAR}(x, , s) c = Concat<axis=1>(z, z) u = Conv(c, w) y = Add(u, t)
""")
parts = resizes.using(x="1,128,8,8", z="1,8,32,32", s="1,1,4,4", rows=1)  # products take longer than sums
test_parts = parts.all_become(f"""
    one of two [columns=136]: r = {LINEAR}(x, , s) c = Concat<axis=1>(r, z) y = Conv(c, w, b)
        => t = Conv(z, k, l) u = Conv(x, v) r = {LINEAR}(u, , m) y = Add(t, r)
    between others [columns=144]: r = {LINEAR}(x, , s) n = Neg(z) c = Concat<axis=-3>(z, r, n) y = Conv(c, w)
        => n = Neg(z) c = Concat<axis=1>(z, n) t = Conv(c, k) u = Conv(x, v) r = {LINEAR}(u, , m) y = Add(t, r)
    all in one way [columns=256]: p = Neg(x) r = {LINEAR}(x, , s) q = {LINEAR}(p, , s) c = Concat<axis=1>(q, r)
        y = Conv(c, w, b) => p = Neg(x) c = Concat<axis=1>(p, x) t = Conv(c, k, l) y = {LINEAR}(t, , m)
""")
LOOP = "g2 (int64 i, bool keep, float[1,8,32,32] p) => (bool more, float[1,8,32,32] y1)"
test_parts_stay = parts.using(rows=8).all_stay(f"""
    Resize outside of a loop [columns=136;
        graph=g (float[1,128,8,8] x, float[1,8,32,32] z, int64 n) => (float[h,i,j,k] y)]: r = {LINEAR}(x, , s)
        y = Loop<body = {LOOP} {{ c = Concat<axis=1>(r, p) y1 = Conv(c, w) more = Identity(keep) }}>(n, , z)
    part without channels [columns=128; rows=1; z=1,0,32,32]: r = {LINEAR}(x, , s) c = Concat<axis=1>(r, z)
        y = Conv(c, w)
""")


@given(
    st.sampled_from(["Resize", LINEAR, 'Resize<mode="cubic">']),
    st.sampled_from([[2.0, 2.0], [1.0, 3.0], [1.5, 2.0]]),
    st.lists(st.sampled_from(["r", "q", "z"]), min_size=1, max_size=3, unique=True),
    st.sampled_from([1, 64]),
    st.booleans(),
)
def test_equivalent(resize: str, scales: list[float], parts: list[str], rows: int, has_bias: bool) -> None:
    """There is a Conv for each way of resizing, and one for the rest, or a single one."""
    high, wide = (int(8 * f) for f in scales)
    body = (
        f"p = Tanh(x) r = {resize}(x, , s) q = Resize(p, , s) "
        f"c = Concat<axis=1>({', '.join(parts)}) y = Conv(c, w{', b' if has_bias else ''})"
    )
    weights = arrays(64 * len(parts), f"1,1,{scales[0]},{scales[1]}", 1, rows) | {
        "s": np.array([1, 1, *scales], np.float32)
    }
    graph = f"g (float[1,64,8,8] x, float[1,64,{high},{wide}] z) => (float[h,i,j,k] y)"
    model = load(f"{graph} {{ {body} }}", weights={name: weights[name] for name in "wbs"})
    out = to_onnx(apply_passes(model, SINK_RESIZES)[0])
    ways = {"q": "Resize", "r": resize, "z": ""}
    assert op_types(out).count("Conv") in {1, len({ways[part] for part in parts})}
    require_equivalent(model, out, finite_only=True)
