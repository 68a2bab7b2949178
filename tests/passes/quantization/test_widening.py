"""Half precision computed in single precision."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.core import Pipeline
from passwright.passes.quantization.widening import WidenHalves
from rewriting import apply_passes, load, op_types, run, to_onnx
from weights import numbers, read_by

from passwright import quantize

WIDEN = Pipeline("widen", (WidenHalves(),))
WEIGHTS = {"w": numbers(4, 4).astype(np.float16), "b": numbers(4, seed=1).astype(np.float16)}
MODELS = {
    "a chain": (
        "g (float16[N,4] x) => (float16[N,4] y) { m = MatMul(x, w) a = Add(m, b) y = Relu(a) }",
        "Cast MatMul Add Relu Cast",
    ),
    "halves in floats": (
        """g (float[N,4] x) => (float[N,4] y) {
            h = Cast<to = 10>(x) m = MatMul(h, w) f = Cast<to = 1>(m) y = Mul(f, f) }""",
        "MatMul Cast Mul",
    ),
    "a result that is read twice": (
        "g (float16[2,4] x) => (float16[2,4] m, float16[2,4] y) { m = MatMul(x, w) y = Relu(m) }",
        "Cast MatMul Cast Relu Cast",
    ),
    "a shape": ("g (float16[N,4] x) => (int64[2] s) { m = MatMul(x, w) s = Shape(m) }", "Cast MatMul Shape"),
    "a table": ("g (int64[N] x) => (float16[N,4] y) { y = Gather(w, x) }", "Gather Cast"),
    "a branch": (
        """g (float16[2,4] x, bool c) => (float16[2,4] y) { y = If(c)
            <then_branch = t () => (float16[2,4] p) { p = MatMul(x, w) },
             else_branch = e () => (float16[2,4] q) { q = Relu(x) }> }""",
        "If",
    ),
}


def inputs(model: onnx.ModelProto) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    kinds = {v.name: onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type) for v in model.graph.input}
    shapes = {v.name: [d.dim_value or 2 for d in v.type.tensor_type.shape.dim] for v in model.graph.input}
    return {name: rng.uniform(0, 3, shapes[name]).astype(kind) for name, kind in kinds.items()}


@pytest.mark.parametrize(("text", "wanted"), MODELS.values(), ids=MODELS)
def test_halves_are_computed_in_single_precision(text: str, wanted: str) -> None:
    model = load(text, 17, read_by(text, WEIGHTS))
    made = to_onnx(apply_passes(model, WIDEN)[0])
    onnx.checker.check_model(made, full_check=True)
    assert [op for op in op_types(made) if op != "Constant"] == wanted.split()
    halves = {i.name for i in made.graph.initializer if i.data_type == onnx.TensorProto.FLOAT16}
    assert not halves
    for before, after in zip(run(model, inputs(model)), run(made, inputs(model)), strict=True):
        assert before.dtype == after.dtype
        assert np.allclose(before, after, rtol=4e-3, atol=4e-3)


STAYS = [
    "g (float[N,4] x) => (float16[N,4] y) { y = Cast<to = 10>(x) }",
    "g (float16[N,4] x, float16 s, uint8 z) => (uint8[N,4] y) { y = QuantizeLinear(x, s, z) }",
    "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }",
]


@pytest.mark.parametrize("text", STAYS)
def test_other_ops_stay(text: str) -> None:
    model = load(text, 21)
    made, change_log = apply_passes(model, WIDEN)
    assert (change_log.change_count, op_types(to_onnx(made))) == (0, op_types(model))


def test_a_model_of_halves_is_quantized_to_integers(tmp_path: Path) -> None:
    """Its weights are stored in 8 bits, and multiplied as integers."""
    text = "g (float16[N,256] x) => (float16[N,256] y) { m = MatMul(x, w) r = Relu(m) y = MatMul(r, w) }"
    model = load(text, 17, {"w": numbers(256, 256).astype(np.float16)})
    data = [{"x": np.random.default_rng(i).normal(size=(4, 256)).astype(np.float16)} for i in range(12)]
    result = quantize(
        model, data=data, scheme="dynamic", goal="size", budget="20%", threads=1, min_time=0.01, output=tmp_path / "m"
    )
    types = op_types(result.model)
    assert types.count("MatMulInteger") == 2, types
    assert result.report.result.bytes < 0.6 * result.report.original.bytes
    assert "3 ops of float16 computed in float32, which schemes compress" in result.report.notes
