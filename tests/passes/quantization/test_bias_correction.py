"""Tests of bias correction."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import checker
from passwright.core import ChangeLog, from_onnx
from passwright.passes.quantization.bias_correction import CorrectBiases, layer_pairs, mean_errors, operand_channels
from quantized_accuracy import decibels, quantized_with, values_of
from rewriting import apply_passes, each, load, op_types, run, to_onnx

RNG = np.random.default_rng(0)
NAME = CorrectBiases().name
COARSE: dict[str, Any] = {"weight_limit": 7, "per_channel": False}


def weights(*dims: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(dims)).normal(0.05, 0.2, dims).astype(np.float32)


def means_of(model: onnx.ModelProto, feeds: dict[str, Any], axes: dict[str, int]) -> dict[str, Any]:
    """The means of values by channel, by name."""
    values = values_of(model, feeds)
    return {n: np.moveaxis(values[n], axis, -1).reshape(-1, values[n].shape[axis]).mean(0) for n, axis in axes.items()}


def corrected(
    original: onnx.ModelProto, made: onnx.ModelProto, feeds: dict[str, Any]
) -> tuple[onnx.ModelProto, ChangeLog]:
    """The quantized model with corrected biases, and the change log."""
    pairs = layer_pairs(from_onnx(original).graph, from_onnx(made).graph)
    errors = mean_errors(pairs, means_of(original, feeds, operand_channels(pairs)))
    result, change_log = apply_passes(made, CorrectBiases(errors))
    after = to_onnx(result)
    checker.check_model(after, full_check=True)
    return after, change_log


def mean_error(model: onnx.ModelProto, made: onnx.ModelProto, feeds: dict[str, Any], axis: int = 1) -> float:
    """The largest mean error of a channel of the first output."""
    error = run(made, feeds)[0].astype(np.float64) - run(model, feeds)[0]
    return float(np.abs(np.moveaxis(error, axis, -1).reshape(-1, error.shape[axis]).mean(0)).max())


CONVS = "g (float[16,3,10,10] x) => (float[16,5,h,w] y) {"
ROWS = "g (float[64,8] x) => (float[64,5] y) {"
IMAGES = {"x": RNG.uniform(0, 1, (16, 3, 10, 10)).astype(np.float32)}
VECTORS = {"x": RNG.uniform(0, 1, (64, 8)).astype(np.float32)}
MODELS = [
    pytest.param(CONVS + "a = Conv(x, u, b) r = Relu(a) y = Conv(r, v, c) }",
                 {"u": weights(6, 3, 3, 3), "b": weights(6), "v": weights(5, 6, 3, 3), "c": weights(5)}, IMAGES, 2,
                 id="Conv and Relu"),
    pytest.param(CONVS + "a = Conv(x, u) r = Clip(a, low, high) y = Conv(r, v) }",
                 {"u": weights(6, 3, 3, 3), "v": weights(5, 6, 3, 3), "low": np.float32(0), "high": np.float32(1)},
                 IMAGES, 2, id="Conv without bias and Clip"),
    pytest.param(CONVS + "a = Conv<group=3>(x, u, b) y = Conv(a, v, c) }",
                 {"u": weights(6, 1, 3, 3), "b": weights(6), "v": weights(5, 6, 1, 1), "c": weights(5)}, IMAGES, 2,
                 id="groups"),
    pytest.param(ROWS + "a = Gemm<transB=1>(x, u, b) r = Relu(a) y = Gemm(r, v, c) }",
                 {"u": weights(16, 8), "b": weights(16), "v": weights(16, 5), "c": weights(5)}, VECTORS, 2, id="Gemm"),
    pytest.param(ROWS + "a = Gemm(x, u) y = Gemm<alpha=0.5, beta=2.0>(a, v, c) }",
                 {"u": weights(8, 16), "v": weights(16, 5), "c": weights(5)}, VECTORS, 2, id="Gemm without bias"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "constants", "feeds", "changes"), MODELS)
def test_mean_errors_vanish(text: str, constants: dict[str, Any], feeds: dict[str, Any], changes: int) -> None:
    model = load(text, weights=constants)
    made = quantized_with(model, feeds, **COARSE)
    after, change_log = corrected(model, made, feeds)
    assert change_log.counts[NAME][NAME] == changes
    assert op_types(after).count("QuantizeLinear") == op_types(made).count("QuantizeLinear")
    assert mean_error(model, after, feeds) < mean_error(model, made, feeds) / 4
    assert decibels(run(model, feeds), run(after, feeds)) > decibels(run(model, feeds), run(made, feeds)) + 1


def test_biases_are_corrected_all_at_once_in_a_deep_net() -> None:
    """The error that earlier layers cause is not corrected a second time by later ones."""
    lines, constants, last = [], {}, "x"
    for i, channels in enumerate((3, 8, 8, 8)):
        constants |= {f"w{i}": weights(8 if i < 3 else 5, channels, 1, 1) * 2, f"b{i}": weights(8 if i < 3 else 5)}
        lines.append(f"c{i} = Conv({last}, w{i}, b{i}) r{i} = Relu(c{i})")
        last = f"r{i}"
    model = load(CONVS + " ".join(lines) + " y = Identity(r3) }", weights=constants)
    made = quantized_with(model, IMAGES, **COARSE)
    after, _ = corrected(model, made, IMAGES)
    assert mean_error(model, after, IMAGES) < mean_error(model, made, IMAGES) / 4
    values, corrected_values = values_of(model, IMAGES), values_of(after, IMAGES)
    for name in ("r0", "r1", "r2"):  # so that no layer makes up for another
        size = np.abs(values[name]).mean()
        assert abs((values[name] - corrected_values[name]).mean()) < 0.05 * size


def test_a_product_is_corrected_in_the_sum_behind() -> None:
    text = "g (float[2,32,8] x) => (float[2,32,5] y) { a = MatMul(x, u) r = Add(a, b) y = MatMul(r, v) }"
    model = load(text, weights={"u": weights(8, 16), "b": weights(16), "v": weights(16, 5)})
    feeds = {"x": RNG.uniform(0, 1, (2, 32, 8)).astype(np.float32)}
    made = quantized_with(model, feeds, **COARSE, operators=frozenset({"MatMul"}))
    after, change_log = corrected(model, made, feeds)
    assert change_log.counts[NAME][NAME] == 1
    assert change_log.declines[NAME] == {"y": "MatMul y has no bias"}
    before, now = (values_of(m, feeds)["r"] - values_of(model, feeds)["r"] for m in (made, after))
    assert np.abs(now.mean(axis=(0, 1))).max() < np.abs(before.mean(axis=(0, 1))).max() / 4


def test_a_sum_behind_a_clamp_is_no_bias() -> None:
    model = load(ROWS + "a = MatMul(x, u) r = Relu(a) y = Add(r, b) }", weights={"u": weights(8, 5), "b": weights(5)})
    result, change_log = apply_passes(model, CorrectBiases({"a": np.ones(5)}))
    assert to_onnx(result) == model
    assert change_log.declines[NAME]["a"] == "MatMul a has no bias"


@each(
    ("error", "reason"),
    {
        "size": (np.ones(4), "4 errors are given for 5 channels"),
        "not finite": (np.full(5, np.nan), "the error is not finite"),
    },
)
def test_wrong_errors_are_declined(error: np.ndarray[Any, Any], reason: str) -> None:
    model = load(ROWS + "y = Gemm(x, u, b) }", weights={"u": weights(8, 5), "b": weights(5)})
    result, change_log = apply_passes(model, CorrectBiases({"y": error}))
    assert to_onnx(result) == model
    assert change_log.declines[NAME]["y"] == reason


def test_layers_of_other_names_are_left_out() -> None:
    model = load(ROWS + "y = Gemm(x, u, b) }", weights={"u": weights(8, 5), "b": weights(5)})
    other = load(ROWS.replace(" y)", " z)") + "z = Gemm(x, u, b) }", weights={"u": weights(8, 5), "b": weights(5)})
    assert not layer_pairs(from_onnx(model).graph, from_onnx(other).graph)
    assert len(layer_pairs(from_onnx(model).graph, from_onnx(model).graph)) == 1
    assert not mean_errors(layer_pairs(from_onnx(model).graph, from_onnx(model).graph), {})


def test_layers_without_means_for_each_channel_have_no_error() -> None:
    text = "g (float[8,64] x) => (float[64,5] y) { y = Gemm<transA=1>(x, u, b) }"
    turned = from_onnx(load(text, weights={"u": weights(8, 5), "b": weights(5)})).graph
    plain = from_onnx(load(ROWS + "y = Gemm(x, u, b) }", weights={"u": weights(8, 5), "b": weights(5)})).graph
    for graph, means in ((turned, np.ones(64)), (plain, np.ones(7))):
        assert not mean_errors(layer_pairs(graph, graph), {"x": means})
    (error,) = mean_errors(layer_pairs(plain, plain), {"x": np.ones(8)}).values()
    assert not error.any()


def test_channels_of_operands_of_unknown_rank() -> None:
    text = """g (float[N,8] x, int64 n) => (float[N,8] y) {
        y = Loop (n, , x) <body = b (int64 i, bool c, float v) => (bool d, float w) {
            d = Identity(c) w = MatMul(v, u) }>
    }"""
    model = load(text, weights={"u": weights(8, 8)})
    for value in (*model.graph.node[0].attribute[0].g.input[2:], *model.graph.node[0].attribute[0].g.output[1:]):
        value.type.tensor_type.ClearField("shape")
    graph = from_onnx(model).graph
    assert operand_channels(layer_pairs(graph, graph)) == {"v": -1}
