"""Layers fitted one after the other make up for the errors of what is before them, on inputs that they did not see."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from executable_documents import ROOT
from passwright.app.quantize.layer_fitting import fitted_layers, set_constants
from passwright.app.quantize.schemes import Calibration
from passwright.core.errors import ModelError
from passwright.core.io.model_source import model_source
from passwright.passes.quantization.pruning import PruneChannels
from quantized_accuracy import decibels
from rewriting import cases, load, run, to_onnx

DIGITS = ROOT / "golden_models" / "trained" / "digits_cnn.onnx"
IMAGES = "g (float[N,4,8,8] x) => (float[a,b,c,d] y) { a = Conv<pads=[1,1,1,1]>(x, u, b) r = Relu(a) m = Mul(r, k) "
TEXTS = "g (float[N,6,12] x) => (float[a,b,c] y) { a = MatMul(x, u) r = Tanh(a) m = Mul(r, k) "
VECTORS = "g (float[N,12] x) => (float[a,b] y) { a = MatMul(x, u) r = Tanh(a) m = Mul(r, k) "


def normal(*dims: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng([seed, *dims]).normal(0.05, 0.3, dims).astype(np.float32)


def samples(model: onnx.ModelProto, count: int, seed: int = 1) -> list[dict[str, Any]]:
    dims = [d.dim_value or 8 for d in model.graph.input[0].type.tensor_type.shape.dim]
    return [{"x": normal(*dims, seed=seed + i)} for i in range(count)]


def fitted(original: onnx.ModelProto, changed: onnx.ModelProto, feeds: Any) -> tuple[onnx.ModelProto, set[str]]:
    """The changed model with fitted layers, and the names of the results of ops whose constants changed."""
    source = model_source(changed, inline=True)
    constants = fitted_layers(model_source(original, inline=True), source, {}, feeds)
    model = source.load()
    set_constants(model, constants)
    return to_onnx(model), {name for name, _ in constants}


LAYERS: dict[str, Any] = {
    "Conv with a bias": (IMAGES + "y = Conv<strides=[2,2], pads=[1,0,1,0]>(m, v, c) }", normal(5, 16, 3, 3)),
    "Conv without a bias": (IMAGES + "y = Conv(m, v) }", normal(5, 16, 1, 1)),
    "depthwise Conv": (IMAGES + "y = Conv<group=16, dilations=[2,2]>(m, v) }", normal(16, 1, 3, 3)),
    "Conv in groups": (IMAGES + 'y = Conv<group=2, auto_pad="SAME_UPPER">(m, v) }', normal(6, 8, 3, 3)),
    "MatMul": (TEXTS + "y = MatMul(m, v) }", normal(16, 5)),
    "MatMul and Add": (TEXTS + "n = MatMul(m, v) y = Add(c, n) }", normal(16, 5)),
    "Gemm": (VECTORS + "y = Gemm(m, v, c) }", normal(16, 5)),
    "transposed Gemm": (VECTORS + "y = Gemm<transB=1>(m, v) }", normal(5, 16)),
    "two branches": (
        TEXTS + "p = MatMul(m, v) q = Abs(m) s = MatMul(q, w) t = MatMul(s, z) y = Add(p, t) }",
        normal(16, 5),
    ),
    "a subgraph": (
        TEXTS + "n = MatMul(m, v) y = If (yes) <then_branch = t () => (p) { p = Add(n, c) }, "
        "else_branch = e () => (q) { q = Sub(n, c) }> }",
        normal(16, 5),
    ),
}  # fmt: skip


@cases(("text", "v"), LAYERS)
def test_layers_make_up_for_what_they_can(text: str, v: Any) -> None:
    """Channels before a layer are smaller or larger than in the original: weights can undo that exactly."""
    u = normal(16, 4, 3, 3) if text.startswith(IMAGES) else normal(12, 16)
    scales = np.exp(normal(16)).reshape(-1, *[1] * (u.ndim - 2)).astype(np.float32)
    weights = {"u": u, "b": normal(16), "v": v, "c": normal(5), "w": normal(16, 7), "z": normal(7, 5)}
    weights |= {"yes": np.array(True)}
    original, changed = (load(text, opset=24, weights={**weights, "k": k}) for k in (np.ones_like(scales), scales))
    given = samples(original, 64)
    result, _ = fitted(original, changed, given)
    for unseen in samples(original, 2, seed=1000):
        (wanted,), (before,), (after,) = (run(m, unseen) for m in (original, changed, result))
        assert decibels(wanted, after) > decibels(wanted, before) + 10


UNFITTED: dict[str, str] = {
    "shared weights": TEXTS + "p = MatMul(m, v) q = Abs(m) s = MatMul(q, v) y = Add(p, s) }",
    "a scale": VECTORS + "y = Gemm<alpha=0.5>(m, v) }",
    "a bias for all channels at once": VECTORS + "y = Gemm(m, v, one) }",
    "computed weights": TEXTS + "n = Neg(v) y = MatMul(m, n) }",
    "weights that are not finite": TEXTS + "y = MatMul(m, i) }",
}


@cases("text", UNFITTED)
def test_layers_that_cannot_be_fitted_stay(text: str) -> None:
    weights = {"u": normal(12, 16), "k": np.ones(16, np.float32), "v": normal(16, 5), "one": normal(1, 5)}
    weights |= {"e": normal(1, 6, 1), "i": np.full((16, 5), np.inf, np.float32)}
    model = load(text, opset=24, weights=weights)
    _, names = fitted(model, model, samples(model, 4))
    assert names <= {"a"}


def test_few_rows_change_little() -> None:
    """Eight rows say little about 16 channels: weights stay near those that they had."""
    text, weights = VECTORS + "y = MatMul(m, v) }", {"u": normal(12, 16), "v": normal(16, 5)}
    one = np.ones(16, np.float32)
    original, changed = (load(text, opset=24, weights={**weights, "k": k}) for k in (one, one + normal(16) / 4))
    result, _ = fitted(original, changed, samples(original, 1))
    for unseen in samples(original, 8, seed=1000):
        (wanted,), (before,), (after,) = (run(m, unseen) for m in (original, changed, result))
        assert decibels(wanted, after) > decibels(wanted, before) - 3


def test_pruned_layers_make_up_for_those_before() -> None:
    """On other digits, the network of fewer channels is nearer to the original than without fitted layers."""
    data, labelled = (np.load(DIGITS.with_name(f"digits_cnn_{kind}.npz")) for kind in ("calibration", "labelled"))
    source = model_source(DIGITS, inline=True)
    model = source.load()
    name = model.graph.inputs[0].name
    calibration = Calibration(source, [{name: row} for row in data[name][:48, None]])
    made, plan = calibration.pruned(0.4)
    alone = calibration.after(PruneChannels(plan))
    assert alone is not None
    assert plan.share < 0.45
    results = [run(to_onnx(c.source.load()), {name: labelled[name]})[0] for c in (calibration, alone, made)]
    noises = [decibels(results[0], found) for found in results[1:]]
    assert noises[1] > noises[0] + 1
    wrong = [np.sum(found.argmax(1) != labelled["labels"]) for found in results]
    assert wrong[2] < wrong[1]


def test_sample_on_which_a_model_does_not_run_is_refused(tmp_path: Path) -> None:
    model = load(
        VECTORS + "y = MatMul(m, v) }", opset=24, weights={"u": normal(12, 16), "k": normal(16), "v": normal(16, 5)}
    )
    with pytest.raises(ModelError, match="the model cannot be calibrated"):
        fitted(model, model, [{"x": normal(1, 11)}])
