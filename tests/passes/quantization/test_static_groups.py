"""Tests of integer arithmetic with calibrated ranges."""

from __future__ import annotations

import numpy as np
import onnx
from passwright.core import Fixpoint, Pipeline, QuantizationSpec, Range
from passwright.passes.cleanup.merge_duplicates import MergeDuplicates
from passwright.passes.cleanup.quantization import SIMPLIFY_QUANTIZATION
from passwright.passes.quantization.static_groups import QUANTIZE_STATIC
from rewriting import apply_passes, load, op_types, run, to_onnx

X = np.random.default_rng(0).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
SPEC = QuantizationSpec(
    {"x": Range(-1, 1), "a": Range(0, 2), "b": Range(-3, 3), "y": Range(-3, 3)},
    operators=frozenset({"Conv", "Add"}),
    weight_limit=63,
)


def weights(name: str, *dims: int) -> np.ndarray:
    return np.random.default_rng(len(name)).normal(0, 0.2, dims).astype(np.float32)


def quantized(model: onnx.ModelProto, spec: QuantizationSpec | None) -> onnx.ModelProto:
    clean = Fixpoint("clean", (SIMPLIFY_QUANTIZATION, MergeDuplicates()))
    return to_onnx(apply_passes(model, Pipeline("static", (QUANTIZE_STATIC, clean), quantization=spec))[0])


def residual_block() -> onnx.ModelProto:
    text = """g (float[1,3,8,8] x) => (float[1,3,8,8] y) {
        c = Conv<pads=[1,1,1,1]>(x, w, bias) a = Relu(c) b = Conv<pads=[1,1,1,1]>(a, ww) y = Add(a, b) }"""
    named = {"w": weights("w", 3, 3, 3, 3), "ww": weights("ww", 3, 3, 3, 3), "bias": weights("bias", 3)}
    return load(text, weights=named)


def test_convolutions_and_their_sum_are_quantized_together() -> None:
    model = residual_block()
    made = quantized(model, SPEC)
    counts = {t: op_types(made).count(t) for t in set(op_types(made))}
    assert counts == {"Conv": 2, "Add": 1, "QuantizeLinear": 4, "DequantizeLinear": 7}  # 3 of them of weights and bias
    (before,), (after,) = run(model, {"x": X}), run(made, {"x": X})
    assert np.abs(before - after).max() < 0.1
    assert not np.array_equal(before, after)


def test_nothing_is_quantized_without_a_spec() -> None:
    assert "QuantizeLinear" not in op_types(quantized(residual_block(), None))
