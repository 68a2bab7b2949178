"""Real tools, on models that they optimize correctly and on models that they break."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.app.registry.adapter_names import adapter
from passwright.core import Pipeline
from passwright.core.errors import FailureKind
from rewriting import load, op_types
from tiers import slow_unless

from passwright import Result, optimize

GOLDEN = Path(__file__).parents[3] / "golden_models"
POOL = """g (float[N,1,4,4] x) => (float[N,1,4,4] y) <int64[8] p = {0,0,1,1,0,0,1,1}> {
    i = Identity(x) t = Pad(i, p) y = MaxPool<kernel_shape=[3,3]>(t) }"""


def run(model: onnx.ModelProto | Path, *names: str) -> Result:
    found = [adapter(name) for name in names]
    return optimize(model, pipeline=Pipeline("foreign", tuple(p for p in found if p is not None)))


def interface(model: onnx.ModelProto) -> tuple[Any, ...]:
    return (list(model.graph.input), list(model.graph.output), list(model.metadata_props), model.opset_import[0])


@pytest.mark.parametrize(
    "name",
    slow_unless(
        {"functions", "mixer_external"},
        ["resnet_kept_bn", "bert", "functions", "cnn_half", "mixer_external", "sklearn_strings"],
    ),
)
@pytest.mark.parametrize("tool", ["onnxoptimizer", "onnxsim", "onnxslim", "ort:basic", "ort:extended"])
def test_golden_models_keep_their_interface(tool: str, name: str) -> None:
    if not tool.startswith("ort"):
        pytest.importorskip(tool)
    path = GOLDEN / f"{name}.onnx"
    result = run(path, tool)
    assert result.report.verification is not None
    assert interface(result.model) == interface(onnx.load(path))


@pytest.mark.parametrize(
    ("tool", "before", "after"),
    [
        ("onnxoptimizer:eliminate_identity", 3, 2), ("onnxsim", 3, 2), ("onnxslim", 3, 2), ("ort:basic", 3, 2),
    ],
)  # fmt: skip
def test_correct_changes_are_kept(tool: str, before: int, after: int) -> None:
    if not tool.startswith("ort"):
        pytest.importorskip(tool.partition(":")[0])
    result = run(load("g (float[N,2] x) => (float[N,2] y) { a = Neg(x) i = Identity(a) y = Abs(i) }"), tool)
    assert (result.report.before.nodes, result.report.after.nodes) == (before, after)
    assert not result.report.rejected
    (abs_node,) = (n for n in result.model.graph.node if n.op_type == "Abs")
    assert abs_node.input == ["a"]


@pytest.mark.parametrize(
    ("tool", "name"), [("ort:extended", "llama"), ("ort:extended", "functions"), ("ort:basic", "cnn_qdq")]
)
def test_output_of_onnxruntime_passes_the_checker(tool: str, name: str) -> None:
    """It writes some normalizations into the standard domain at opsets without them, and copies nodes with names."""
    result = run(GOLDEN / f"{name}.onnx", tool)
    assert not result.report.rejected
    assert result.report.after.nodes != result.report.before.nodes
    onnx.checker.check_model(result.model, full_check=True)


def test_wrong_pass_is_rejected_and_others_kept() -> None:
    result = run(load(POOL), "onnxoptimizer:fuse_pad_into_pool", "onnxoptimizer:eliminate_identity")
    (found,) = result.report.rejected
    assert (found.by, found.failure_kind) == ("onnxoptimizer:fuse_pad_into_pool", FailureKind.WRONG)
    assert op_types(result.model) == ["Pad", "MaxPool"]


def test_failing_pass_does_not_stop_the_others() -> None:
    weights = {name: np.eye(4, dtype=np.float32) for name in "abc"}
    text = """g (float[N,4] x) => (float[N,4] q, float[N,4] k, float[N,4] v) {
        q = MatMul(x, a) k = MatMul(x, b) i = MatMul(x, c) t = Identity(i) v = Neg(t) }"""
    result = run(load(text, weights=weights), "onnxoptimizer:fuse_qkv", "onnxoptimizer:eliminate_identity")
    (found,) = result.report.rejected
    assert (found.by, found.failure_kind) == ("onnxoptimizer:fuse_qkv", FailureKind.RAISED)
    assert found.message.startswith("onnxoptimizer:fuse_qkv: RuntimeError: ")
    assert "Identity" not in op_types(result.model)


def test_unsupported_element_type_is_reported() -> None:
    model = load("g (float[2] x) => (float[2] y) { d = DequantizeLinear(f, s) y = Add(d, x) }", opset=19)
    kind = onnx.TensorProto.FLOAT8E4M3FN
    model.graph.initializer.append(onnx.helper.make_tensor("f", kind, [2], b"\1\2", raw=True))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(1), "s"))
    (found,) = run(model, "onnxoptimizer:eliminate_duplicate_initializer").report.rejected
    assert "no supported data type: 17" in found.message


def test_ort_basic_writes_standard_operators_only() -> None:
    text = "g (float[N,2] x) => (float[N,2] y) <float h = {0.5}, float o = {1.0}, float r = {1.4142135}> {"
    text += " d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h) }"
    result = run(load(text), "ort:extended")
    assert [(n.op_type, n.domain) for n in result.model.graph.node] == [("Gelu", "com.microsoft")]
    assert {n.domain for n in run(load(text), "ort:basic").model.graph.node} == {""}
