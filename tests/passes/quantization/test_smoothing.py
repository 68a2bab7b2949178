"""Tests of SmoothQuant."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import checker
from passwright.core import ChangeLog, from_onnx
from passwright.core.errors import UsageError
from passwright.passes.quantization.channel_scales import SmoothActivations, smoothable_channels
from quantized_accuracy import decibels, quantized_with, values_of
from rewriting import apply_passes, initializers, load, op_types, require_equivalent, run, to_onnx
from weights import read_by

RNG = np.random.default_rng(0)
NAME = SmoothActivations().name
CHANNELS = 16
OUTLIERS = np.where(np.isin(np.arange(CHANNELS), [3, 11]), 100, 1).astype(np.float32)
FEEDS = {"x": RNG.normal(0, 1, (64, CHANNELS)).astype(np.float32)}


def weights(*dims: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(0, 0.3, dims).astype(np.float32)


def maxima(model: onnx.ModelProto, feeds: dict[str, Any] = FEEDS, axis: int = -1) -> dict[str, Any]:
    """The absolute maxima of values over all axes but one, by name."""
    found: dict[str, Any] = {}
    for name, a in values_of(model, feeds).items():
        if a.ndim:
            moved = np.moveaxis(np.abs(a), axis, -1)
            found[name] = moved.reshape(-1, moved.shape[-1]).max(axis=0)
    return found


def smoothed(
    model: onnx.ModelProto, alpha: float = 0.5, given: dict[str, Any] | None = None
) -> tuple[onnx.ModelProto, ChangeLog]:
    """The model after the pass, and the change log; the ops are the same."""
    result, change_log = apply_passes(model, SmoothActivations(maxima(model) if given is None else given, alpha))
    made = to_onnx(result)
    checker.check_model(made, full_check=True)
    assert op_types(made) == op_types(model)
    return made, change_log


TEXT = "g (float[N,16] x) => (float[N,8] y) {"
V = weights(CHANNELS, 8)
SMOOTHED = [
    pytest.param("n = LayerNormalization(x, g, b) y = MatMul(n, v)", {"g": OUTLIERS, "b": OUTLIERS, "v": V}, 17,
                 id="LayerNormalization"),
    pytest.param("n = RMSNormalization(x, g) y = MatMul(n, v)", {"g": OUTLIERS, "v": V}, 23, id="RMSNormalization"),
    pytest.param("t = Tanh(x) n = Mul(t, g) y = MatMul(n, v)", {"g": OUTLIERS, "v": V}, 17, id="Mul"),
    pytest.param("t = Tanh(x) m = Mul(g, t) n = Add(b, m) y = Gemm<transB=1>(n, v, c)",
                 {"g": OUTLIERS, "b": OUTLIERS, "v": V.T, "c": weights(8)}, 17, id="Mul and Add"),
    pytest.param("a = Gemm(x, u, b) n = Relu(a) y = MatMul(n, v)",
                 {"u": weights(CHANNELS, CHANNELS) * OUTLIERS, "b": weights(CHANNELS) * OUTLIERS, "v": V}, 17,
                 id="product and Relu"),
    pytest.param("n = LayerNormalization(x, g) q = MatMul(n, v) k = MatMul(n, vv) s = Mul(q, k) y = Softmax(s)",
                 {"g": OUTLIERS, "v": V, "vv": V[::-1].copy()}, 17, id="queries and keys"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "constants", "opset"), SMOOTHED)
def test_outliers_move_to_the_weights(text: str, constants: dict[str, Any], opset: int) -> None:
    model = load(TEXT + text + " }", opset, constants)
    assert smoothable_channels(from_onnx(model).graph) == {"n": 1}
    made, change_log = smoothed(model)
    assert [c.place for c in change_log.changes] == ["n"]
    require_equivalent(model, made, compare_regions=False, N=3)
    wanted, found = maxima(model)["n"], maxima(made)["n"]
    assert wanted.max() / wanted.min() > 20
    assert found.max() / found.min() < wanted.max() / wanted.min() / 4


def test_alpha_decides_how_much_moves() -> None:
    model = load(TEXT + "n = LayerNormalization(x, g) y = MatMul(n, v) }", weights={"g": OUTLIERS, "v": V})
    before = maxima(model)["n"]
    assert np.allclose(maxima(smoothed(model, 1.0)[0])["n"], 1, rtol=1e-5)
    inputs = np.abs(V).max(axis=1)
    half, _ = smoothed(model)
    assert np.allclose(maxima(half)["n"], np.sqrt(before * inputs), rtol=1e-5)  # equation 4 of the paper
    new = next(a for a in initializers(half).values() if a.shape == V.shape)
    assert np.allclose(np.abs(new).max(axis=1), np.sqrt(before * inputs), rtol=1e-5)
    with pytest.raises(UsageError, match="alpha=2 is not between 0 and 1"):
        SmoothActivations({}, 2)


def test_channels_that_are_zero_or_not_read_stay() -> None:
    dead = V.copy()
    dead[5] = 0
    gains = np.where(np.arange(CHANNELS) == 2, 0, OUTLIERS).astype(np.float32)
    model = load(TEXT + "n = LayerNormalization(x, g) y = MatMul(n, v) }", weights={"g": gains, "v": dead})
    made, _ = smoothed(model)
    gains = next(a for a in initializers(made).values() if a.ndim == 1)
    assert gains[2] == 0
    assert gains[5] == 1
    require_equivalent(model, made, compare_regions=False, N=3)


def test_convolutions_read_channels_of_axis_1() -> None:
    text = "g (float[2,3,5,5] x) => (float[2,4,h,w] y) { a = Conv(x, u, b) n = Relu(a) y = Conv<pads=[1,1,1,1]>(n, v) }"
    constants = {
        "u": weights(6, 3, 1, 1) * OUTLIERS[:6].reshape(-1, 1, 1, 1),
        "b": OUTLIERS[:6],
        "v": weights(4, 6, 3, 3),
    }
    model = load(text, weights=constants)
    feeds = {"x": RNG.normal(0, 1, (2, 3, 5, 5)).astype(np.float32)}
    made, change_log = smoothed(model, given=maxima(model, feeds, axis=1))
    assert [c.place for c in change_log.changes] == ["n"]
    require_equivalent(model, made, compare_regions=False)


@pytest.mark.parametrize(
    ("text", "given", "reason"),
    [
        pytest.param("n = LayerNormalization(x, g) m = MatMul(n, v) s = ReduceMax(n) y = Add(m, s)", {"n": OUTLIERS},
                     "ReduceMax s, no product with weights, reads n", id="another reader"),
        pytest.param("n = Sigmoid(x) y = MatMul(n, v)", {"n": OUTLIERS}, "n is not computed by", id="Sigmoid"),
        pytest.param("n = LayerNormalization<axis=0>(x, gg) y = MatMul(n, v)", {"n": OUTLIERS}, "not over the channels",
                     id="norm over other axes"),
        pytest.param("n = LayerNormalization(x, g) y = MatMul(n, v)", {"n": OUTLIERS[:5]},
                     "5 maxima are given for 16 channels", id="number of maxima"),
        pytest.param("n = LayerNormalization(x, g) y = MatMul(n, v)", {"n": OUTLIERS * np.inf},
                     "a maximum is not finite", id="infinite maximum"),
        pytest.param("t = Tanh(x) n = Mul(t, one) y = MatMul(n, v)", {"n": OUTLIERS}, "not one number for each channel",
                     id="one factor"),
        pytest.param("n = LayerNormalization(x, v0) y = MatMul(n, v)", {"n": OUTLIERS}, "v0 is computed",
                     id="computed scale"),
    ],
)  # fmt: skip
def test_values_that_are_not_smoothed_say_why(text: str, given: dict[str, Any], reason: str) -> None:
    numbers = {"g": OUTLIERS, "v": V, "gg": np.ones((3, CHANNELS), np.float32), "one": np.ones(1, np.float32)}
    computed = "v0 = ReduceMax<axes=[0], keepdims=0>(x)" if "v0" in text else ""
    text = f"{TEXT.replace('N', '3', 1)} {computed} {text} }}"
    model = load(text, weights=read_by(text, numbers))
    result, change_log = apply_passes(model, SmoothActivations(given))
    assert not change_log.changes
    assert to_onnx(result) == model
    assert reason in change_log.declines[NAME]["n"]


def test_values_without_maxima_are_left_out() -> None:
    model = load(TEXT + "n = LayerNormalization(x, g) y = MatMul(n, v) }", weights={"g": OUTLIERS, "v": V})
    made, change_log = smoothed(model, given={})
    assert made == model
    assert not change_log.declines.get(NAME)


def test_smoothing_restores_integers_of_activations_with_outliers() -> None:
    text = (
        TEXT
        + """n = LayerNormalization(x, g) q = MatMul(n, v) m = LayerNormalization(q, h) r = MatMul(m, w)
        y = Relu(r) }"""
    )
    rows = weights(CHANNELS, CHANNELS) / OUTLIERS.reshape(-1, 1)  # the channels are as important as others
    model = load(text, weights={"g": OUTLIERS, "v": rows, "h": OUTLIERS, "w": rows[:, :8].copy()})
    wanted = run(model, FEEDS)
    made, change_log = smoothed(model)
    assert len(change_log.changes) == 2
    assert decibels(wanted, run(made, FEEDS)) > 100
    plain = decibels(wanted, run(quantized_with(model, FEEDS), FEEDS))
    better = decibels(wanted, run(quantized_with(made, FEEDS), FEEDS))
    assert better > plain + 10, (plain, better)
