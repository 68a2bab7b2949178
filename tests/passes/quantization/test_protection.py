"""Tests of AWQ: weights that read large activations are made larger before they are rounded."""

from typing import Any

import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from passwright.core import ChangeLog, Pipeline, QuantizationSpec, rule_pass
from passwright.passes.quantization import weights as weights_rules
from passwright.passes.quantization.channel_scales import EXPONENTS, ProtectWeights
from passwright.passes.quantization.weight_rounding import Grid, rounded_weights
from quantized_accuracy import decibels, values_of
from rewriting import apply_passes, initializers, load, op_types, require_equivalent, run, to_onnx

QUANTIZE_WEIGHTS = rule_pass(weights_rules, "quantize-weights")
FOUR = QuantizationSpec(operators=frozenset({"Gemm"}), min_weights=0, weight_bits=4, block=32, rounding="mse")
RNG = np.random.default_rng(0)
ROWS = 64
FEEDS = {"x": RNG.normal(0, 1, (256, ROWS)).astype(np.float32)}
GAINS = np.where(np.arange(ROWS) % 32 == 3, 30, 1).astype(np.float32)
TEXT = f"g (float[N,{ROWS}] x) => (float[N,24] y) {{"
NORM = "n = LayerNormalization(x, g, b) y = Gemm(n, v)"


def weights(*dims: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(0, 0.3, dims).astype(np.float32)


V = weights(ROWS, 24)


def with_grams(model: onnx.ModelProto, *names: str) -> QuantizationSpec:
    values = {name: values_of(model, FEEDS)[name].reshape(len(FEEDS["x"]), -1).astype(np.float64) for name in names}
    return replace(FOUR, grams={name: x.T @ x for name, x in values.items()})


def protected(model: onnx.ModelProto, spec: QuantizationSpec) -> tuple[onnx.ModelProto, ChangeLog]:
    result, change_log = apply_passes(model, ProtectWeights(spec))
    made = to_onnx(result)
    assert op_types(made) == op_types(model)
    return made, change_log


def rounded(model: onnx.ModelProto) -> onnx.ModelProto:
    return to_onnx(apply_passes(model, Pipeline("weights", (QUANTIZE_WEIGHTS,), quantization=FOUR))[0])


HIDDEN = {"u": weights(ROWS, ROWS, seed=1) * GAINS, "e": weights(ROWS, ROWS, seed=2), "v": V}
PROTECTED = [
    pytest.param(NORM, {"g": GAINS, "b": GAINS, "v": V}, 17, id="LayerNormalization"),
    pytest.param("n = RMSNormalization(x, g) y = Gemm(n, v)", {"g": GAINS, "v": V}, 23, id="RMSNormalization"),
    pytest.param("n = RMSNormalization(x, g) y = Gemm<alpha=0.5, transB=1>(n, v)", {"g": GAINS, "v": V.T.copy()}, 23,
                 id="Gemm"),
    pytest.param("t = Tanh(x) n = Mul(t, g) q = Gemm(n, v) k = Gemm(n, vv) y = Mul(q, k)",
                 {"g": GAINS, "v": V, "vv": V[::-1].copy()}, 17, id="two products"),
    pytest.param("u1 = MatMul(x, u) e1 = MatMul(x, e) s = Sigmoid(e1) a = Mul(e1, s) n = Mul(a, u1) y = Gemm(n, v)",
                 HIDDEN, 17, id="gated"),
    pytest.param("u1 = MatMul(x, u) e1 = MatMul(x, e) s = Sigmoid(e1) n = Mul(u1, s) y = Gemm(n, v)",
                 HIDDEN, 17, id="gated by a sigmoid"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "constants", "opset"), PROTECTED)
def test_rounding_does_less_harm_to_weights_of_large_activations(
    text: str, constants: dict[str, Any], opset: int
) -> None:
    model = load(TEXT + text + " }", opset, constants)
    made, change_log = protected(model, with_grams(model, "n"))
    assert [c.place for c in change_log.changes] == ["n"]
    require_equivalent(model, made, compare_regions=False, N=3)
    wanted = run(model, FEEDS)
    plain, better = (decibels(wanted, run(rounded(m), FEEDS)) for m in (model, made))
    assert better > plain + 1, (plain, better)


def test_the_exponent_has_the_least_error() -> None:
    """The scales are those of equation 5 of the paper, found here by trying all of them on the activations."""
    model = load(TEXT + NORM + " }", 17, {"g": GAINS, "b": np.zeros(ROWS, np.float32), "v": V})
    made, _ = protected(model, with_grams(model, "n"))
    x = values_of(model, FEEDS)["n"].astype(np.float64)
    grid, sizes = Grid(-8, 7, 0, 32), np.sqrt((x**2).mean(axis=0))
    errors: list[float] = []
    for alpha in EXPONENTS:
        s = (sizes**alpha)[:, None]
        errors.append(float(np.square(x @ (rounded_weights(V * s, grid).weights(32) / s - V)).sum()))
    s = sizes ** EXPONENTS[int(np.argmin(errors))]
    found = GAINS / next(a for a in initializers(made).values() if a.shape == GAINS.shape and a.any())
    np.testing.assert_allclose(found / found[0], s / s[0], rtol=1e-4)
    assert np.argmin(errors) > 0


def test_channels_that_are_zero_stay() -> None:
    gains = np.where(np.arange(ROWS) == 2, 0, GAINS).astype(np.float32)
    model = load(TEXT + NORM + " }", 17, {"g": gains, "b": np.zeros(ROWS, np.float32), "v": V})
    made, _ = protected(model, with_grams(model, "n"))
    new = next(a for a in initializers(made).values() if a.shape == V.shape)
    assert np.array_equal(new[2], V[2])


STAYS = {
    "no exponent lowers the error": (NORM, {"g": np.ones(ROWS), "b": np.zeros(ROWS), "v": np.sign(V)}, {}),
    "have few weights": (NORM, {"g": GAINS, "b": GAINS, "v": V}, {"min_weights": 1 << 15}),
    "has other columns": (NORM, {"g": GAINS, "b": GAINS, "v": V}, {"grams": {"n": np.eye(5)}}),
    "no product with weights, reads n": (
        "n = LayerNormalization(x, g, b) m = Gemm(n, v) s = ReduceMax(n) y = Add(m, s)",
        {"g": GAINS, "b": GAINS, "v": V}, {},
    ),
    "no factor of Mul n can be scaled": (
        "u1 = MatMul(x, u) a = Tanh(u1) n = Mul(u1, a) y = Gemm(n, v)", {"u": HIDDEN["u"], "v": V}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", STAYS)
def test_values_that_are_not_scaled_say_why(reason: str) -> None:
    text, constants, changes = STAYS[reason]
    model = load(TEXT + text + " }", 18, {name: a.astype(np.float32) for name, a in constants.items()})
    made, change_log = protected(model, replace(with_grams(model, "n"), **changes))
    assert made == model
    assert reason in change_log.declines["protect-weights"]["n"]


def test_factor_that_is_repeated_along_the_channels_is_not_scaled() -> None:
    """One number for each row: what is divided by scales for each column is the other factor."""
    text = "r = ReduceMax<keepdims=1>(x, a) u1 = MatMul(x, u) n = Mul(r, u1) y = Gemm(n, v)"
    model = load(TEXT + text + " }", 18, {"a": np.array([1]), "u": HIDDEN["u"], "v": V})
    made, change_log = protected(model, with_grams(model, "n"))
    assert [c.place for c in change_log.changes] == ["n"]
    require_equivalent(model, made, compare_regions=False, N=3)
