"""Convolutions of one spatial axis as ones of two."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.linear import conv_axes
from rewriting import apply_passes, becomes, cases, load, require_equivalent, stays

LIFT_CONVS = rule_pass(conv_axes, "lift-convs")

DECLARED = "<float[1] w = {0}, float[1] b = {0}, int64[1] a = {2}>"


def arrays(*shape: int, dtype: Any = np.float32) -> dict[str, Any]:
    """Weights and a bias."""
    rng = np.random.default_rng(0)
    return {"w": rng.standard_normal(shape).astype(dtype), "b": rng.standard_normal(shape[0]).astype(dtype)}


def graph(body: str, x: str = "N,64,L", declared: str = "", kind: str = "float") -> str:
    return f"g ({kind}[{x}] x) => ({kind}[h,i,j] y) {declared} {{ {body} }}"


@cases(
    ("attrs", "lifted", "shape"),
    {
        "plain": ("", "", (64, 64, 3)),
        "strides": ("strides=[2], ", "strides=[1,2], ", (64, 64, 3)),
        "pads": ("dilations=[2], pads=[3,1], ", "dilations=[1,2], pads=[0,3,0,1], ", (64, 64, 2)),
        "auto_pad": ('auto_pad="SAME_LOWER", ', 'auto_pad="SAME_LOWER", ', (64, 64, 4)),
        "groups": ("group=2, ", "group=2, ", (32, 32, 3)),
        "depthwise": ("group=64, ", "group=64, ", (64, 1, 5)),
    },
)
def test_becomes(attrs: str, lifted: str, shape: tuple[int, ...]) -> None:
    before = f"y = Conv<{attrs}kernel_shape=[{shape[2]}]>(x, w, b)"
    after = f"u = Unsqueeze(x, a) v = Conv<{lifted}kernel_shape=[1,{shape[2]}]>(u, w, b) y = Squeeze(v, a)"
    becomes(graph(before, "2,64,9"), graph(after, "2,64,9", DECLARED), LIFT_CONVS, weights=arrays(*shape))


def test_without_bias_and_kernel_shape() -> None:
    after = "u = Unsqueeze(x, a) v = Conv<kernel_shape=[1,3]>(u, w) y = Squeeze(v, a)"
    weights = {"w": arrays(64, 64, 3)["w"]}
    becomes(graph("y = Conv(x, w)"), graph(after, declared=DECLARED), LIFT_CONVS, weights=weights)


@cases(
    ("shape", "attrs", "changes"),
    {
        "a point": ((64, 64, 1), "", {}),
        "outputs do not fill blocks": ((40, 64, 3), "", {}),
        "inputs do not fill blocks": ((64, 40, 3), "", {"x": "N,40,L"}),
        "few channels": ((32, 32, 3), "", {"x": "N,32,L"}),
        "many more outputs": ((160, 64, 3), "", {}),
        "groups do not fill blocks": ((64, 8, 3), "<group=8>", {}),
        "depthwise, does not fill blocks": ((40, 1, 3), "<group=40>", {"x": "N,40,L"}),
        "two outputs for each channel": ((128, 1, 3), "<group=64>", {}),
        "two axes already": ((64, 64, 3, 3), "", {"x": "N,64,L,M"}),
    },
)
def test_stays(shape: tuple[int, ...], attrs: str, changes: dict[str, str]) -> None:
    text = graph(f"y = Conv{attrs}(x, w, b)", **changes)
    stays(text.replace("[h,i,j]", "[h,i,j,k]") if len(shape) == 4 else text, LIFT_CONVS, weights=arrays(*shape))


def test_axes_of_old_opset() -> None:
    after = "u = Unsqueeze<axes=[2]>(x) v = Conv<kernel_shape=[1,3]>(u, w, b) y = Squeeze<axes=[2]>(v)"
    becomes(
        graph("y = Conv(x, w, b)"), graph(after, declared=DECLARED), LIFT_CONVS, weights=arrays(64, 64, 3), opset=11
    )


def test_other_types_and_computed_weights_stay() -> None:
    stays(graph("y = Conv(x, w)", kind="double"), LIFT_CONVS, weights=arrays(64, 64, 3, dtype=np.float64), runs=False)
    text = "g (float[N,64,L] x, float[64,64,3] v) => (float[h,i,j] y) { y = Conv(x, v) }"
    stays(text, LIFT_CONVS)


@given(st.integers(2, 5), st.integers(1, 3), st.integers(1, 2), st.integers(0, 3), st.integers(0, 3), st.integers(1, 2))
def test_equivalent(kernel: int, stride: int, dilation: int, begin: int, end: int, groups: int) -> None:
    attrs = f"strides=[{stride}], dilations=[{dilation}], pads=[{begin},{end}], group={groups}"
    model = load(graph(f"y = Conv<{attrs}>(x, w, b)", "2,64,12"), weights=arrays(64, 64 // groups, kernel))
    result, change_log = apply_passes(model, LIFT_CONVS)
    assert change_log.change_count == 1
    require_equivalent(model, to_onnx(result), finite_only=True)
