"""Tests of rules that let movements and clamps work on the integers of dequantized values."""

from typing import Any

import numpy as np
import onnx
import pytest
from passwright.core import Pipeline, QuantizationSpec, RulePass
from passwright.passes.quantization.static_groups import (
    clamp_integers,
    move_dequantization,
    scale_dequantization,
    split_dequantization,
)
from quantized_models import SIGNED, UNSIGNED, optimized_run
from rewriting import apply_passes, each, load, op_types, run, to_onnx
from weights import read_by

RULES = RulePass("moves", (move_dequantization, split_dequantization, clamp_integers, scale_dequantization))
Q = np.random.default_rng(0).integers(0, 256, (1, 4, 6, 6)).astype(np.uint8)
TENSORS = {
    "z": np.uint8(100), "s": np.float32(0.05), "two": np.array([2]), "i": np.array([[1, 0]]),
    "starts": np.array([1, 5]), "ends": np.array([3, -7]), "axes": np.array([2, 3]), "steps": np.array([1, -2]),
    "shape": np.array([4, -1]), "big": np.array([2, 4, 6, 6]), "repeats": np.array([1, 2, 1, 3]),
    "sizes": np.array([1, 1, 2, 2], np.float32), "pads": np.array([0, 0, 1, 2, 0, 0, 0, 1]), "one": np.float32(1),
    "none": np.float32(0), "negative": np.float32(-2), "row": np.ones(6, np.float32),
    "rank": np.ones((1, 1, 1, 1, 1), np.float32), "places": np.zeros((1, 4, 6, 2), np.int64), "nd": np.array([[0, 2]]),
    "zero": np.array([0]), "parts": np.array([1, 3]), "of_image": np.array([0, 0, 0, 0, 1, 1, 1, 1], np.float32),
}  # fmt: skip
MOVED = [
    ("y = Transpose<perm = [0, 2, 3, 1]>(d)", 4), ("y = Reshape(d, shape)", 2), ("y = Flatten(d)", 2),
    ("y = Slice(d, starts, ends, axes, steps)", 4), ("y = Squeeze(d, zero)", 3), ("y = Unsqueeze(d, zero)", 5),
    ("y = Expand(d, big)", 4), ("y = Tile(d, repeats)", 4), ("y = Gather<axis = 1>(d, i)", 5),
    ("y = GatherElements<axis = 3>(d, places)", 4), ("y = GatherND(d, nd)", 3),
    ("y = DepthToSpace<blocksize = 2>(d)", 4), ("y = SpaceToDepth<blocksize = 2>(d)", 4),
    ("y = MaxPool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(d)", 4), ("y = Pad(d, pads)", 4),
    ("y = Pad(d, pads, none)", 4), ('y = Pad<mode = "reflect">(d, pads)', 4), ('y = Pad<mode = "edge">(d, pads)', 4),
    ('y = Resize<mode = "nearest">(d, , sizes)', 4), ("y = Relu(d)", 4), ("y = Mul(d, s)", 4), ("y = Mul(s, d)", 4),
    ("y = Div(d, s)", 4), ("a, b = Split<axis = 1>(d, parts) y = Sub(b, a)", 4),
    ("t = Transpose(d) r = Relu(t) y = MaxPool<kernel_shape = [2, 2]>(r)", 4),
]  # fmt: skip
KEPT = [
    ("y = Pad(d, pads, one)", 4), ('y = Resize<mode = "linear">(d, , sizes)', 4),
    ('y = Resize<coordinate_transformation_mode = "tf_crop_and_resize">(d, of_image, sizes)', 4),
    ("y, j = MaxPool<kernel_shape = [2, 2]>(d)", 4), ("y = Mul(d, negative)", 4), ("y = Mul(d, none)", 4),
    ("y = Div(s, d)", 4), ("y = Div(d, none)", 4), ("y = Mul(d, row)", 4), ("y = Mul(d, rank)", 5), ("y = Neg(d)", 4),
]  # fmt: skip


def dequantized_model(body: str, rank: int, opset: int, kind: str = "uint8") -> onnx.ModelProto:
    tensors = TENSORS | {"z": np.array(-28 if kind == "int8" else 100, kind)}
    sizes = ",".join("abcdef"[:rank])
    text = f"g ({kind}[1,4,6,6] x) => (float[{sizes}] y) {{ d = DequantizeLinear(x, s, z) {body} }}"
    return load(text, opset, read_by(text, tensors))


def moved(model: onnx.ModelProto, spec: QuantizationSpec = UNSIGNED) -> onnx.ModelProto:
    return to_onnx(apply_passes(model, Pipeline("moves", (RULES,), quantization=spec))[0])


def results(model: onnx.ModelProto, x: np.ndarray[Any, Any]) -> list[Any]:
    return [*run(model, {"x": x}, ["y"]), optimized_run(model, {"x": x})[0]]


@pytest.mark.parametrize("opset", [13, pytest.param(21, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("body", "rank"), MOVED, ids=[body for body, _ in MOVED])
def test_dequantization_comes_last(body: str, rank: int, opset: int) -> None:
    for kind, spec, x in (("uint8", UNSIGNED, Q), ("int8", SIGNED, (Q ^ 128).view(np.int8))):
        model = dequantized_model(body, rank, opset, kind)
        made = moved(model, spec)
        onnx.checker.check_model(made, full_check=True)
        assert op_types(made)[-1] in {"DequantizeLinear", "Sub"}
        assert op_types(made)[0] != "DequantizeLinear" or "Mul" in body or "Div" in body
        (before,) = run(model, {"x": x}, ["y"])  # onnxruntime's optimizers make some of opset 21 unloadable
        for after in results(made, x):
            if "Mul" in body or "Div" in body:
                assert np.allclose(before, after, rtol=1e-6)
            else:
                assert np.array_equal(before, after)


@each(("body", "rank"), KEPT)
def test_dequantization_stays(body: str, rank: int) -> None:
    model = dequantized_model(body, rank, 13)
    assert op_types(moved(model)) == op_types(model)


@each("opset", [10, 11])
def test_older_opsets_have_no_bytes(opset: int) -> None:
    for body in ("y = MaxPool<kernel_shape = [2, 2]>(d)", "y = Relu(d)"):
        model = dequantized_model(body, 4, opset)
        assert op_types(moved(model)) == op_types(model)


def test_values_that_are_quantized_in_another_form_stay() -> None:
    for spec in (SIGNED, None):
        model = dequantized_model("y = Transpose(d)", 4, 13)
        passes = Pipeline("moves", (RULES,), quantization=spec)
        assert op_types(to_onnx(apply_passes(model, passes)[0])) == op_types(model)
