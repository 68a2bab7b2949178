"""Statistics of model files from any exporter."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from passwright.app.measure.model_stats import ModelStats, compute_model_stats
from passwright.core.errors import ModelError
from rewriting import cases, load

IF = """g (bool c, float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> {
    y = If(c) <then_branch = t () => (float[2] a) { i = Identity(x) a = Add(i, w) unread = Neg(x) },
               else_branch = e () => (float[2] b) { k = Constant<value = float[2] {3.0, 4.0}>() b = Mul(x, k) }> }"""
CALLS = """<ir_version: 9, opset_import: ["": 18, "own": 1]>
g (float[2] x) => (float[2] y) { a = own.twice(x) y = own.twice(a) }
<domain: "own", opset_import: ["": 18]> twice (x) => (y) { k = Constant<value_float = 2.0>() y = Mul(x, k) }"""


def saved(model: onnx.ModelProto, folder: Path) -> ModelStats:
    onnx.save(model, folder / "m.onnx")
    return compute_model_stats(folder / "m.onnx")


@cases(
    ("text", "ops", "parameters"),
    {
        "one": ("g (float[2] x) => (float[2] y) { y = Relu(x) }", {"Relu": 1}, 0),
        "dead": ("g (float[2] x) => (float[2] y) { d = Abs(x) y = Relu(x) }", {"Abs": 1, "Relu": 1}, 0),
        "two": ("g (float[2] x) => (float[2] y) { d = Abs(x) y = Mul(d, d) }", {"Abs": 1, "Mul": 1}, 0),
        "bodies": (IF, {"If": 1, "Identity": 1, "Add": 1, "Mul": 1, "Neg": 1}, 4),
        "listed": ("g (float[2] x) => (float[2] y) { k = Constant<value_floats=[1.0,2.0]>() y = Add(x, k) }",
            {"Add": 1}, 2),
        "single": ("g (float[2] x) => (float[2] y) { k = Constant<value_float=1.0>() y = Add(x, k) }",
            {"Add": 1}, 1),
    },
)  # fmt: skip
def test_ops_but_constants_are_counted(text: str, ops: dict[str, int], parameters: int, tmp_path: Path) -> None:
    found = saved(load(text, 18), tmp_path)
    assert (found.ops, found.nodes, found.parameters) == (ops, sum(ops.values()), parameters)
    assert (found.nonstandard_operators, found.checker_error, found.is_portable) == ((), "", True)
    assert found.bytes == (tmp_path / "m.onnx").stat().st_size


def test_functions_are_inlined(tmp_path: Path) -> None:
    found = saved(onnx.parser.parse_model(CALLS), tmp_path)
    assert (found.ops, found.parameters, found.nonstandard_operators) == ({"Mul": 2}, 1, ())


@pytest.mark.parametrize(
    ("op", "domain", "foreign"),
    [
        ("FusedConv", "com.microsoft", ("com.microsoft.FusedConv",)),
        ("LayerNormalization", "", ("LayerNormalization",)),  # standard from opset 17, written at older ones
        ("Relu", "ai.onnx", ()),
    ],
)
def test_foreign_operators(op: str, domain: str, foreign: tuple[str, ...], tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, 1, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], domain=domain)], "g", [x], [y])
    opsets = [helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
    found = saved(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path)
    assert (found.nonstandard_operators, found.is_portable, found.nodes) == (foreign, not foreign, 1)
    assert list(found.ops) == [foreign[0] if foreign else op]


def test_checker_error_is_one_line(tmp_path: Path) -> None:
    model = load("g (float[2] x) => (float[2] y) { y = Relu(x) }", 18)
    model.graph.node[0].input.append("x")
    found = saved(model, tmp_path)
    assert "input size 2" in found.checker_error
    assert "\n" not in found.checker_error


def test_external_data_counts_and_is_not_read(tmp_path: Path) -> None:
    model = load(
        "g (float[N,512] x) => (float[N,4] y) { y = MatMul(x, w) }", 18, weights={"w": np.ones((512, 4), "f4")}
    )
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=1)
    found = compute_model_stats(tmp_path / "m.onnx")
    assert (found.parameters, found.bytes) == (2048, sum(p.stat().st_size for p in tmp_path.iterdir()))
    (tmp_path / "w.bin").unlink()
    assert compute_model_stats(tmp_path / "m.onnx").checker_error


def test_sparse_weights_count_stored_elements(tmp_path: Path) -> None:
    model = load("g (float[3] x) => (float[3] y) { y = Add(x, w) }", 18)
    values = numpy_helper.from_array(np.float32([5]), "w")
    indices = numpy_helper.from_array(np.int64([1]), "w_at")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3]))
    assert saved(model, tmp_path).parameters == 1


@pytest.mark.parametrize("content", [None, b"", b"no model at all", b"\xff" * 40])
def test_invalid_file_is_reported_in_one_line(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(ModelError) as raised:
        compute_model_stats(tmp_path / "m.onnx")
    assert "m.onnx" in str(raised.value)
    assert "\n" not in str(raised.value)
