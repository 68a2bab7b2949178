"""Tests of half precision for the inputs and outputs of a model."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, checker
from passwright.core import ChangeLog, from_onnx
from passwright.passes.quantization.half import ConvertToHalf
from passwright.passes.transforms.interface import make_interface_half
from rewriting import load, op_types, run, to_onnx

W = np.random.default_rng(0).normal(0, 0.3, (4, 4)).astype(np.float32)
X = np.random.default_rng(1).uniform(-1, 1, (4, 4)).astype(np.float32)
HALF, SINGLE, INT = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.INT64


def half(model: onnx.ModelProto, *, convert: bool = False) -> onnx.ModelProto:
    graph = from_onnx(model)
    make_interface_half(graph)
    graph.graph.validate()
    if convert:
        ConvertToHalf().run(graph.graph, ChangeLog())
        graph.graph.validate()
    made = to_onnx(graph)
    checker.check_model(made, full_check=True)
    return made


def types(infos: Any) -> dict[str, int]:
    return {v.name: v.type.tensor_type.elem_type for v in infos}


@pytest.mark.parametrize(
    ("text", "inputs", "outputs"),
    [
        pytest.param("g (float[4,4] x) => (float[4,4] y) { a = MatMul(x, w) y = Relu(a) }", {"x": HALF}, {"y": HALF},
                     id="float"),
        pytest.param("g (float[4,4] x, int64[4] i) => (int64[1,4] y) { m = MatMul(x, w) y = ArgMax(m) }",
                     {"x": HALF, "i": INT}, {"y": INT}, id="integers stay"),
        pytest.param("g (float[4,4] x) => (float[4,4] y, float[4,4] x, float[4,4] z) { y = MatMul(x, w) z = Relu(y) }",
                     {"x": SINGLE}, {"y": HALF, "x": SINGLE, "z": HALF}, id="input that is an output"),
        pytest.param("""g (float[4,4] x) => (float[4,4] y) { m = ReduceMax<keepdims=0>(x) c = Greater(m, m) y = If(c) <
                     then_branch = t () => (float[4,4] p) { p = MatMul(x, w) },
                     else_branch = e () => (float[4,4] q) { q = Relu(x) }> }""", {"x": HALF}, {"y": HALF}, id="If"),
    ],
)  # fmt: skip
def test_inputs_and_outputs_become_half(text: str, inputs: dict[str, int], outputs: dict[str, int]) -> None:
    model = load(text, weights={"w": W})
    feeds: dict[str, Any] = {"x": X, "i": np.array([1, 0, 3, 2])}
    wanted = run(model, {name: feeds[name] for name in inputs})
    for convert in (False, True):
        made = half(model, convert=convert)
        assert (types(made.graph.input), types(made.graph.output)) == (inputs, outputs)
        given = {n: feeds[n].astype(np.float16) if dtype == HALF else feeds[n] for n, dtype in inputs.items()}
        for old, new in zip(wanted, run(made, given), strict=True):
            assert np.abs(old.astype(np.float64) - new).max() < 5e-3


def test_a_model_of_halves_has_no_casts_at_its_interface() -> None:
    model = load("g (float[4,4] x) => (float[4,4] y) { a = MatMul(x, w) y = Relu(a) }", weights={"w": W})
    assert op_types(half(model)) == ["Cast", "MatMul", "Relu", "Cast"]
    assert op_types(half(model, convert=True)) == ["MatMul", "Relu"]
