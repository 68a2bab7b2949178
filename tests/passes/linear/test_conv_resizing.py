"""Pointwise convolutions before the Resize of their inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import conv_resizing
from rewriting import apply_passes, becomes, cases, load, op_types, require_equivalent, stays

SINK_RESIZES = rule_pass(conv_resizing, "sink-resizes")

UP = [1, 1, 2, 2]
LINEAR = 'Resize<mode="linear">'
DECLARED = "<float[1] w = {0}, float[1] v = {0}, float[1] b = {0}, float[1] s = {0}>"


def numbers(*shape: int, seed: int = 0) -> Any:
    """Random numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def arrays(columns: int = 8, kernel: int = 1, scales: list[float] = UP, rows: int = 4) -> dict[str, Any]:
    """Weights, a bias and scales."""
    return {"w": numbers(rows, columns, kernel, kernel), "b": numbers(rows, seed=1), "s": np.array(scales, np.float32)}


def graph(body: str, declared: str = "", x: str = "2,8,3,5", z: str = "2,8,6,10") -> str:
    return f"g (float[{x}] x, float[{z}] z) => (float[h,i,j,k] y) {declared} {{ {body} }}"


def sinks(body: str, after: str, opset: int = 17, **changes: Any) -> None:
    becomes(graph(body), graph(after, DECLARED), SINK_RESIZES, weights=arrays(**changes), opset=opset)


def remains(body: str, **changes: Any) -> None:
    stays(graph(body), SINK_RESIZES, weights=arrays(**changes))


@cases(
    ("resize", "scales"),
    {
        "nearest": ("Resize", UP),
        "linear": (LINEAR, UP),
        "one axis smaller": (LINEAR, [1, 1, 2.5, 0.9]),
        "align_corners": ('Resize<mode="linear", coordinate_transformation_mode="align_corners">', UP),
        "cubic": ('Resize<mode="cubic">', UP),
        "cubic, nothing outside": ('Resize<mode="cubic", exclude_outside=1>', UP),
    },
)
def test_resize(resize: str, scales: list[float]) -> None:
    sinks(f"r = {resize}(x, , s) y = Conv(r, w, b)", f"t = Conv(x, w, b) y = {resize}(t, , s)", scales=scales)


@pytest.mark.parametrize(
    ("opset", "resize"), [(9, "Upsample(x, s)"), (10, "Resize(x, s)"), (13, "Resize(x, , s)"), (22, "Resize(x, , s)")]
)
def test_opsets(opset: int, resize: str) -> None:
    sinks(f"r = {resize} y = Conv(r, w)", f"t = Conv(x, w) y = {resize.replace('x', 't', 1)}", opset)


def test_axes() -> None:
    of = 'Resize<mode="linear", axes=[-1,2]>'
    sinks(f"r = {of}(x, , s) y = Conv(r, w)", f"t = Conv(x, w) y = {of}(t, , s)", 18, scales=[2, 3])


@cases(
    ("resize", "changes"),
    {
        "kernel of 3 x 3": ("Resize(x, , s)", {"kernel": 3}),
        "more channels": ("Resize(x, , s)", {"rows": 16}),
        "smaller": ("Resize(x, , s)", {"scales": [1, 1, 0.5, 1]}),
        "as large": ("Resize(x, , s)", {"scales": [1, 1, 1, 1]}),
        "samples": ("Resize(x, , s)", {"scales": [2, 1, 2, 1]}),
        "channels": ("Resize(x, , s)", {"scales": [1, 2, 2, 1], "columns": 16}),
        "values from elsewhere": (
            'Resize<mode="linear", coordinate_transformation_mode="tf_crop_and_resize">(x, roi, s)', {}),
    },
)  # fmt: skip
def test_stays(resize: str, changes: dict[str, Any]) -> None:
    weights = arrays(**changes) | {"roi": np.array([0, 0, 0, 0, 1, 1, 2, 1], np.float32)}
    stays(graph(f"r = {resize} y = Conv(r, w, b)"), SINK_RESIZES, weights=weights)


@cases(
    "body",
    {
        "strides": ("r = Resize(x, , s) y = Conv<strides=[2,2]>(r, w)"),
        "pads": ("r = Resize(x, , s) y = Conv<pads=[1,0,0,0]>(r, w)"),
        "other reader": ("r = Resize(x, , s) u = Conv(r, w) v = ReduceMax(r) y = Add(u, v)"),
        "computed scales": ("t = Relu(s) r = Resize(x, , t) y = Conv(r, w)"),
        "Conv before": ("n = Relu(b) m = Conv(x, w, n) r = Resize(m, , s) y = Neg(r)"),
    },
)
def test_other_graphs_stay(body: str) -> None:
    remains(body)


def test_groups_stay() -> None:
    remains("r = Resize(x, , s) y = Conv<group=2>(r, w)", columns=4)


MANY = {"x": "1,128,8,8", "z": "1,8,32,32"}  # products take longer than sums


@cases(
    ("body", "after", "columns"),
    {
        "one of two": (
            f"r = {LINEAR}(x, , s) c = Concat<axis=1>(r, z) y = Conv(c, w, b)",
            f"t = Conv(z, w, b) u = Conv(x, v) r = {LINEAR}(u, , s) y = Add(t, r)", 136),
        "between others": (
            f"r = {LINEAR}(x, , s) n = Neg(z) c = Concat<axis=-3>(z, r, n) y = Conv(c, w)",
            f"n = Neg(z) c = Concat<axis=1>(z, n) t = Conv(c, w) u = Conv(x, v) r = {LINEAR}(u, , s) y = Add(t, r)",
            144),
        "all in one way": (
            f"p = Neg(x) r = {LINEAR}(x, , s) q = {LINEAR}(p, , s) c = Concat<axis=1>(q, r) y = Conv(c, w, b)",
            f"p = Neg(x) c = Concat<axis=1>(p, x) t = Conv(c, w, b) y = {LINEAR}(t, , s)", 256),
    },
)  # fmt: skip
def test_parts(body: str, after: str, columns: int) -> None:
    becomes(
        graph(body, **MANY),
        graph(after, DECLARED, **MANY),
        SINK_RESIZES,
        weights=arrays(columns, scales=[1, 1, 4, 4], rows=1),
    )


@cases(
    ("body", "columns"),
    {
        "Neg between": (f"r = {LINEAR}(x, , s) c = Concat<axis=1>(r, z) d = Neg(c) y = Conv(d, w)", 16),
        "sums take longer": (f"r = {LINEAR}(x, , s) c = Concat<axis=1>(r, z) y = Conv(c, w)", 16),
        "rows": (f"r = {LINEAR}(x, , s) c = Concat<axis=2>(r, z) y = Conv(c, w)", 8),
        "none": (f"t = {LINEAR}(x, , s) c = Concat<axis=1>(z, z) u = Conv(c, w) y = Add(u, t)", 16),
    },
)
def test_parts_that_stay(body: str, columns: int) -> None:
    remains(body, columns=columns, rows=8)


def test_resize_outside_of_a_loop_stays() -> None:
    body = "c = Concat<axis=1>(r, p) y = Conv(c, w) more = Identity(keep)"
    loop = f"g2 (int64 i, bool keep, float[1,8,32,32] p) => (bool more, float[1,8,32,32] y) {{ {body} }}"
    text = (
        "g (float[1,128,8,8] x, float[1,8,32,32] z, int64 n) => (float[h,i,j,k] y) "
        f"{{ r = {LINEAR}(x, , s) y = Loop<body = {loop}>(n, , z) }}"
    )
    stays(text, SINK_RESIZES, weights=arrays(136, scales=[1, 1, 4, 4], rows=8))


def test_part_without_channels_stays() -> None:
    parts = {"x": "1,128,8,8", "z": "1,0,32,32"}
    body = f"r = {LINEAR}(x, , s) c = Concat<axis=1>(r, z) y = Conv(c, w)"
    stays(graph(body, **parts), SINK_RESIZES, weights=arrays(128, scales=[1, 1, 4, 4], rows=1))


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
    weights = arrays(64 * len(parts), rows=rows, scales=[1, 1, *scales])
    model = load(graph(body, x="1,64,8,8", z=f"1,64,{high},{wide}"), weights=weights)
    out = to_onnx(apply_passes(model, SINK_RESIZES)[0])
    ways = {"q": "Resize", "r": resize, "z": ""}
    assert op_types(out).count("Conv") in {1, len({ways[part] for part in parts})}
    require_equivalent(model, out, finite_only=True)
