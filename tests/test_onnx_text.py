"""Text of models that onnx.parser reads back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands import invoke
from onnx import TensorProto, helper, numpy_helper, parser
from passwright.core import from_onnx
from passwright.core.errors import ModelError
from passwright.core.serialization.onnx_text import model_text
from rewriting import cases, load
from tiers import GOLDEN_SAMPLE, slow_unless

from passwright import show

MODELS = sorted((Path(__file__).parents[1] / "golden_models").rglob("*.onnx"))
SAMPLE = [p for p in MODELS if p.stem in GOLDEN_SAMPLE]
LACKING = {"doc_string", "metadata_props"}
"""Fields of nodes, values, graphs and tensors for which the syntax has no place."""


def content(tensor: TensorProto) -> Any:
    """The type and the elements of a tensor, however its message holds them."""
    if tensor.data_location == TensorProto.EXTERNAL:
        return tensor.SerializeToString(deterministic=True)
    array = numpy_helper.to_array(tensor)
    elements = array.tolist() if tensor.data_type == TensorProto.STRING else array.tobytes()
    return tensor.name, tensor.data_type, tuple(tensor.dims), elements


def differences(a: Any, b: Any, path: str = "") -> Iterator[str]:
    """The paths of the fields in which two messages differ."""
    if isinstance(a, TensorProto):
        if content(a) != content(b):
            yield path
        return
    for f in a.DESCRIPTOR.fields:
        x, y, where = getattr(a, f.name), getattr(b, f.name), f"{path}.{f.name}"
        if path and f.name in LACKING:
            continue
        if f.message_type is None:
            is_same = list(x) == list(y) if f.is_repeated else x == y
        else:
            is_same = len(x) == len(y) if f.is_repeated else a.HasField(f.name) == b.HasField(f.name)
            pairs = zip(x, y, strict=False) if f.is_repeated else [(x, y)] * a.HasField(f.name)
            yield from (found for p, q in pairs for found in differences(p, q, where))
        if not is_same:
            yield where


@pytest.mark.parametrize("path", slow_unless(SAMPLE, MODELS), ids=lambda p: p.stem)
def test_golden_models_are_read_back(path: Path) -> None:
    model = onnx.load(path, load_external_data=False)
    assert list(differences(model, parser.parse_model(model_text(model)))) == []
    assert parser.parse_model(show(path)).graph.node == parser.parse_model(model_text(model)).graph.node


def test_text_of_a_file_is_its_model(tmp_path: Path) -> None:
    for path in SAMPLE:
        assert list(differences(onnx.load(path, load_external_data=False), parser.parse_model(show(path)))) == []
    invoke("show", str(SAMPLE[0]), "-o", str(tmp_path / "m.onnxtxt"))
    with pytest.warns(UserWarning, match="experimental"):
        read = onnx.load(tmp_path / "m.onnxtxt")
    assert list(differences(onnx.load(SAMPLE[0]), read)) == []


@pytest.mark.parametrize("name", [n for n in TensorProto.DataType.keys() if n != "UNDEFINED"])  # noqa: SIM118 - it is no dict
def test_all_types_are_read_back(name: str) -> None:
    kind = TensorProto.DataType.Value(name)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    given = np.array(["a", 'b"\\\n', ""], object) if name == "STRING" else np.array([1, 0, 1]).astype(dtype)
    tensor = numpy_helper.from_array(given, "w") if name == "STRING" else helper.make_tensor("w", kind, [3], given)
    info = helper.make_tensor_value_info("y", kind, [3])
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [info], [tensor])
    model = helper.make_model(graph)
    assert list(differences(model, parser.parse_model(model_text(model)))) == []


FLOATS = [1e-45, 1e-40, 3.4028235e38, -0.0, 1.0, 0.1, 16777216.0, float("inf"), float("-inf"), -float("nan")]


def test_floats_keep_their_bits() -> None:
    weights = {"w": np.array(FLOATS, np.float32), "d": np.array([*FLOATS[2:], 5e-324, 1e308, 1 / 3], np.float64)}
    model = load("g (float[10] x) => (float[10] y) { y = Add(x, w) z = Neg(d) }", weights=weights)
    model.graph.node[0].attribute.append(helper.make_attribute("f", FLOATS))
    model.graph.node[0].attribute.append(helper.make_attribute("g", 2.0))
    read = parser.parse_model(model_text(model))
    assert list(differences(model, read)) == [".graph.node.attribute.floats"]  # as NaN equals nothing
    kept = [np.array(m.graph.node[0].attribute[0].floats, np.float32).tobytes() for m in (model, read)]
    assert kept[0] == kept[1]


def test_names_are_quoted() -> None:
    names = ("float", "a b", "/m/x:0", 'q"\\', "é", "inf", "0", "#c")
    for name in names:
        model = load("g (float[N] x) => (float[N] y) { b = Abs(x) y = Neg(b) }")
        model.graph.name = model.graph.node[0].name = name
        model.graph.node[0].output[0] = model.graph.node[1].input[0] = name
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = name
        assert list(differences(model, parser.parse_model(model_text(model)))) == [], name


def test_what_the_syntax_lacks_is_said() -> None:
    body = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "my body", [], [onnx.ValueInfoProto(name="b")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body, doc_string="two ways")
    node.attribute.append(helper.make_attribute("several", [body]))
    strange = helper.make_node("Op-1", ["y"], ["z"], domain="a-b")
    strange.attribute.append(helper.make_attribute("at tribute", 1))
    graph = helper.make_graph([node], "g", [], [])
    model = helper.make_model(graph)
    lines = model_text(model).splitlines()
    assert lines[:3] == [
        "# not in this syntax, and left out: doc strings of nodes (1)",
        "# not in this syntax, and left out: the name of a body, my body (2)",
        "# not in this syntax, and left out: attributes with graphs (1)",
    ]
    assert [n.op_type for n in parser.parse_model(model_text(model)).graph.node[0].attribute[1].g.node] == ["Neg"]
    model.graph.node.append(strange)
    unread = [line for line in model_text(model).splitlines() if line.startswith("# onnx.parser does not read this")]
    assert [line.partition(": ")[2] for line in unread] == ["the operator a-b.Op-1", "the attribute at tribute"]


def test_large_tensors_are_references_if_wanted(tmp_path: Path) -> None:
    weights = {"w": np.ones((4, 4), np.float32), "b": np.ones(4, np.float32)}
    onnx.save(load("g (float[N,4] x) => (float[N,4] y) { m = MatMul(x, w) y = Add(m, b) }", weights=weights),
              tmp_path / "m.onnx")  # fmt: skip
    text = show(tmp_path / "m.onnx", max_elements=4)
    assert 'float[4,4] w = ["omitted": "16 elements"]' in text
    assert "float[4] b = {1.0, 1.0, 1.0, 1.0}" in text
    assert parser.parse_model(text).graph.initializer[0].data_location == TensorProto.EXTERNAL


def test_printed_graphs_are_those_of_the_moment() -> None:
    model = from_onnx(load("g (float[N] x, bool c) => (float[N] y) { a = Relu(x) y = If(c) <then_branch = t () => (z) "
                           "{ z = Neg(a) }, else_branch = e () => (w) { w = Abs(a) }> }"))  # fmt: skip
    graph = model.graph
    (branch,) = graph.ops("If")
    (relu,) = graph.ops("Relu")
    graph.replace_value(relu.outputs[0], graph.inputs[0])
    graph.prune([relu])
    body = next(iter(branch.subgraphs))
    before = graph.context.mutation_count
    read = parser.parse_graph(str(graph))
    assert [n.op_type for n in read.node] == ["If"]
    assert list(read.node[0].attribute[0].g.node[0].input) == ["x"]
    assert [n.op_type for n in parser.parse_graph(str(body)).node] == ["Neg"]
    assert graph.context.mutation_count == before
    assert repr(graph) != str(graph)


REGION = "g (float[N,4] x) => (float[N,4] y) { a = Neg(x) b = Relu(a) c = Abs(b) d = Exp(c) y = Add(d, w) }"


@cases(
    ("options", "operators", "inputs"),
    {
        "a value": ({"region": "c", "radius": 0}, ["Abs"], ["b"]),
        "neighbours": ({"region": "c", "radius": 1}, ["Relu", "Abs", "Exp"], ["a"]),
        "by default": ({"region": "c"}, ["Neg", "Relu", "Abs", "Exp", "Add"], ["x"]),
        "an input": ({"region": "x", "radius": 0}, ["Neg"], ["x"]),
        "a constant": ({"region": "w", "radius": 0}, ["Add"], ["d"]),
        "a node": ({"region": "last", "radius": 0}, ["Add"], ["d"]),
    },
)
def test_regions_are_models(options: dict[str, Any], operators: list[str], inputs: list[str]) -> None:
    model = load(REGION, weights={"w": np.ones(4, np.float32)})
    model.graph.node[-1].name = "last"
    read = parser.parse_model(show(model, types=True, **options))
    assert [n.op_type for n in read.graph.node] == operators
    assert [v.name for v in read.graph.input] == inputs
    onnx.checker.check_model(read, full_check=True)


def test_unusable_models_and_regions_are_one_line(tmp_path: Path) -> None:
    onnx.save(load(REGION, weights={"w": np.ones(4, np.float32)}), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="no value and no node is named bb"):
        show(tmp_path / "m.onnx", region="bb")
    shown = invoke("show", str(tmp_path / "m.onnx"), "--region", "nowhere", code=1)
    assert shown.stderr == "error: no value and no node is named nowhere\n"
    assert "--radius needs --region" in invoke("show", str(tmp_path / "m.onnx"), "--radius", "1", code=2).stderr
    assert "would overwrite" in invoke("show", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.onnx"), code=1).stderr
    (tmp_path / "n.onnx").write_bytes(b"no model")
    assert invoke("show", str(tmp_path / "n.onnx"), code=1).stderr.startswith(
        f"error: {tmp_path / 'n.onnx'}: not an ONNX model"
    )
