"""Tests of recurrent networks that read weights of few bits in each step."""

from typing import Any

import numpy as np
import onnx
import pytest
from loaded_by_ort import decibels, loaded
from msgspec.structs import replace
from passwright.core import Pipeline, QuantizationSpec
from passwright.passes.quantization import recurrent
from passwright.passes.quantization.recurrent import ScanRecurrentOps
from rewriting import apply_passes, cases, each, load, op_types, run, to_onnx
from weights import read_by

EIGHT = QuantizationSpec(operators=frozenset({"GRU", "LSTM"}), weight_bits=8)
FOUR = replace(EIGHT, weight_bits=4, block=32)
STEPS, BATCH, INPUTS, UNITS = 6, 2, 48, 40


def normal(*dims: int, scale: float = 0.3) -> np.ndarray:
    return np.random.default_rng(dims).normal(0, scale, dims).astype(np.float32)


def weights(kind: str, directions: int = 1, inputs: int = INPUTS, **others: np.ndarray) -> dict[str, np.ndarray]:
    rows = {"GRU": 3, "LSTM": 4}[kind] * UNITS
    of_op = {"w": normal(directions, rows, inputs), "r": normal(directions, rows, UNITS)}
    return {
        **of_op,
        "b": normal(directions, 2 * rows),
        "h": normal(directions, BATCH, UNITS),
        "c": normal(directions, BATCH, UNITS),
        **others,
    }


def quantized(model: onnx.ModelProto, spec: QuantizationSpec | None = EIGHT) -> onnx.ModelProto:
    made = to_onnx(apply_passes(model, Pipeline("recurrent", (ScanRecurrentOps(),), quantization=spec))[0])
    onnx.checker.check_model(made)
    return made


@pytest.fixture(autouse=True)
def _few_weights_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "LEAST_WEIGHTS", 0)


GRU, LSTM = f"GRU<hidden_size={UNITS}, linear_before_reset=1", f"LSTM<hidden_size={UNITS}"


@cases(
    ("call", "dims", "directions"),
    {
        "GRU": (f"y = {GRU}>(x, w, r, b)", f"N,1,B,{UNITS}", 1),
        "GRU without a bias": (f"y = {GRU}>(x, w, r)", f"N,1,B,{UNITS}", 1),
        "reverse": (f'y = {GRU}, direction="reverse">(x, w, r, b)', f"N,1,B,{UNITS}", 1),
        "both ways": (f'y = {GRU}, direction="bidirectional">(x, w, r, b, , h)', f"N,2,B,{UNITS}", 2),
        "last state": (f"u, y = {GRU}>(x, w, r, b)", f"1,B,{UNITS}", 1),
        "last state alone": (f'"", y = {GRU}>(x, w, r, b)', f"1,B,{UNITS}", 1),
        "LSTM": (f"y = {LSTM}>(x, w, r, b)", f"N,1,B,{UNITS}", 1),
        "LSTM both ways": (f'y = {LSTM}, direction="bidirectional">(x, w, r, b, , h, c)', f"N,2,B,{UNITS}", 2),
        "last cell": (f"u, v, y = {LSTM}>(x, w, r)", f"1,B,{UNITS}", 1),
    },
)
@each("spec", [EIGHT, FOUR])
def test_steps(call: str, dims: str, directions: int, spec: QuantizationSpec) -> None:
    text = f"g (float[N,B,{INPUTS}] x) => (float[{dims}] y) {{ {call} }}"
    model = load(text, 21, read_by(text, weights("GRU" if "GRU" in call else "LSTM", directions)))
    made, x = quantized(model, spec), normal(STEPS, BATCH, INPUTS, scale=1)
    assert op_types(made).count("Scan") == directions
    (got,) = loaded(made, {"x": x})[1]
    assert decibels(run(model, {"x": x})[0], got) > {8: 30, 4: 12}[spec.weight_bits]


def test_a_row_does_not_depend_on_its_batch() -> None:
    text = f"g (float[N,B,{INPUTS}] x) => (float[N,1,B,{UNITS}] y) {{ y = {LSTM}>(x, w, r, b) }}"
    made, x = quantized(load(text, 21, read_by(text, weights("LSTM")))), normal(STEPS, BATCH, INPUTS, scale=1)
    x[:, 1] *= 100
    whole, alone = (loaded(made, {"x": part})[1][0] for part in (x, x[:, :1]))
    np.testing.assert_allclose(whole[:, :, :1], alone, atol=1e-5)


def test_few_inputs_stay_in_float() -> None:
    text = f"g (float[N,B,5] x) => (float[N,1,B,{UNITS}] y) {{ y = {GRU}>(x, w, r, b) }}"
    made = quantized(load(text, 21, read_by(text, weights("GRU", inputs=5))))
    assert {"MatMul", "Scan"} <= set(op_types(made))
    assert [n.op_type for n in made.graph.node if n.op_type == "MatMulNBits"] == []


@cases(
    ("call", "others"),
    {
        "reset before the product": (f"y = GRU<hidden_size={UNITS}>(x, w, r, b)", {}),
        "clip": (f"y = {GRU}, clip=0.5>(x, w, r, b)", {}),
        "activations": (f'y = {GRU}, activations=["Sigmoid", "Relu"]>(x, w, r, b)', {}),
        "lengths": (f"y = {GRU}>(x, w, r, b, l)", {"l": np.array([5, 3], np.int32)}),
        "coupled gates": (f"y = {LSTM}, input_forget=1>(x, w, r, b)", {}),
        "peepholes": (f"y = {LSTM}>(x, w, r, b, , , , p)", {"p": normal(1, 3 * UNITS)}),
        "computed bias": (f"k = Neg(b) y = {GRU}>(x, w, r, k)", {}),
        "computed weights": (f"k = Neg(r) y = {GRU}>(x, w, k, b)", {}),
        "infinite": (f"y = {GRU}>(x, w, r, b)", {"r": np.full((1, 3 * UNITS, UNITS), np.inf, np.float32)}),
    },
)
def test_stays(call: str, others: dict[str, Any]) -> None:
    text = f"g (float[{STEPS},{BATCH},{INPUTS}] x) => (float[{STEPS},1,{BATCH},{UNITS}] y) {{ {call} }}"
    model = load(text, 21, read_by(text, weights("GRU" if "GRU" in call else "LSTM", **others)))
    assert quantized(model) == model


def test_stays_without_a_spec_for_it_and_with_few_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"g (float[N,B,{INPUTS}] x) => (float[N,1,B,{UNITS}] y) {{ y = {GRU}>(x, w, r, b) }}"
    model = load(text, 21, read_by(text, weights("GRU")))
    for spec in (None, QuantizationSpec(operators=frozenset({"LSTM"}))):
        assert quantized(model, spec) == model
    monkeypatch.setattr(recurrent, "LEAST_WEIGHTS", 3 * UNITS * UNITS + 1)
    assert quantized(model) == model


def test_layers_behind_layers_whose_types_are_unknown() -> None:
    """Types behind operators of onnxruntime's own are not inferred."""
    text = (
        f"g (float[N,B,{INPUTS}] x) => (float[1,B,{UNITS}] y) "
        f'{{ a = {GRU}>(x, w, r, b) c = Squeeze(a, k) "", y = {GRU}>(c, u, r, b) }}'
    )
    others = {"k": np.array([1]), "u": normal(1, 3 * UNITS, UNITS)}
    model = load(text, 21, read_by(text, weights("GRU", **others)))
    made, x = quantized(model), normal(STEPS, BATCH, INPUTS, scale=1)
    assert op_types(made).count("Scan") == 2
    assert decibels(run(model, {"x": x})[0], loaded(made, {"x": x})[1][0]) > 30
