"""`value_info` of written models: kept, written in full, or stripped."""

from pathlib import Path
from typing import Any

import onnx
import pytest
from commands import invoke
from onnx import TensorProto, helper
from passwright.core.errors import UsageError
from passwright.core.serialization.proto_queries import all_nodes, subgraphs
from passwright.testing.rewriting import load
from rewriting import cases
from tiers import slow_unless

from passwright import optimize

GOLDEN = Path(__file__).parent.parent / "golden_models"
pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
DECLARING = [p for p in sorted(GOLDEN.glob("*.onnx")) if onnx.load(p, load_external_data=False).graph.value_info]
TEXT = """<ir_version: 10, opset_import: ["": 20, "com.microsoft": 1]>
g (float[N,4] x, bool k) => (float[N,4] y, float[N,2] z) <float[4,2] w = {1,2,3,4,5,6,7,8}> {
    i = Identity(x) a = Abs(i) m = MatMul(a, w) z = Relu(m)
    f = com.microsoft.FastGelu(a)
    y = If (k) <then_branch = p () => (float[N,4] r) { t = Neg(f) r = Exp(t) },
                else_branch = o () => (float[N,4] u) { u = Cos(f) }> }"""


def declared(name: str, dims: list[Any], **more: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims, **more)


@pytest.fixture
def model() -> onnx.ModelProto:
    """A model that declares some values: one without a shape, one that rewrites remove, one of a contrib operator."""
    found = onnx.parser.parse_model(TEXT)
    found.graph.value_info.extend(
        [
            declared("a", ["N", 4], doc_string="the absolute values"),
            helper.make_tensor_value_info("m", TensorProto.FLOAT, None),
            declared("i", ["N", 4]),
            declared("f", ["N", 4]),
            declared("w", [4, 2]),
        ]
    )
    branch = found.graph.node[-1].attribute[0].g
    branch.value_info.append(declared("t", ["N", 4]))
    return found


def entries(model: onnx.ModelProto) -> dict[str, list[int | str | None] | None]:
    """The dims in `value_info`, of subgraphs too."""
    graphs = [model.graph, *(g for n in all_nodes(model.graph.node) for g in subgraphs(n))]
    infos = [info for g in graphs for info in g.value_info]
    assert len({info.name for info in infos}) == len(infos)
    return {
        info.name: [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in shape.dim]
        if (shape := info.type.tensor_type.shape) is not None and info.type.tensor_type.HasField("shape")
        else None
        for info in infos
    }


KEPT = {"a": ["N", 4], "m": None, "f": ["N", 4], "w": [4, 2], "t": ["N", 4]}


@cases(
    ("pipeline", "choice", "expected"),
    {
        "keep": ("basic", "keep", KEPT),
        "write": ("basic", "write", {**KEPT, "m": ["N", 2]}),
        "strip leaves operators without a schema": ("basic", "strip", {"f": ["N", 4]}),
        "a run that rewrites strips": ("basic", None, {"f": ["N", 4]}),
        "pipeline none keeps": ("none", None, {**KEPT, "i": ["N", 4]}),
        "strip without passes": ("none", "strip", {"f": ["N", 4]}),
        "write without passes": ("none", "write", {**KEPT, "m": ["N", 2], "i": ["N", 4]}),
    },
)
def test_choices(
    model: onnx.ModelProto, pipeline: str, choice: str | None, expected: dict[str, list[int | str | None] | None]
) -> None:
    result = optimize(model, pipeline, value_info=choice)
    assert entries(result.model) == expected
    assert result.report.verification is not None
    onnx.checker.check_model(result.model, full_check=True)


def test_nothing_changes_without_passes(model: onnx.ModelProto) -> None:
    assert optimize(model, "none").model.graph.value_info == model.graph.value_info


def test_documents_and_denotations_stay_where_all_is_written(model: onnx.ModelProto) -> None:
    model.graph.value_info[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    found = {info.name: info for info in optimize(model, value_info="write").model.graph.value_info}
    assert found["a"] == model.graph.value_info[0]


def test_inferred_sizes_replace_symbols_where_all_is_written(model: onnx.ModelProto) -> None:
    result = optimize(model, shape={"x": [3, 4]}, value_info="write")
    assert entries(result.model) == {"a": [3, 4], "m": [3, 2], "f": [3, 4], "w": [4, 2], "t": [3, 4]}


def test_sequences_are_written() -> None:
    text = "g (float[N,4] x) => (float[N,4] y) { s = SequenceConstruct(x, x) i = Shape<end=1>(x) y = SequenceAt(s, o) }"
    model = load(text.replace("{ s", "<int64 o = {1}> { s", 1))
    (sequence, size) = optimize(model, "none", value_info="write").model.graph.value_info
    assert sequence.type.sequence_type.elem_type.tensor_type.elem_type == TensorProto.FLOAT
    assert size.type.tensor_type.elem_type == TensorProto.INT64
    assert not optimize(model, "none", value_info="strip").model.graph.value_info


def test_quantization_annotations_stay(model: onnx.ModelProto) -> None:
    note = model.graph.quantization_annotation.add(tensor_name="a")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    made = optimize(model).model.graph
    assert [n.tensor_name for n in made.quantization_annotation] == ["a"]
    assert [info.name for info in made.value_info] == ["f"]


FUNCTION = """<ir_version: 10, opset_import: ["": 20, "com.microsoft": 1, "local": 1]>
g (float[N,4] x, bool k) => (float[N,4] y) <float[N,4] h> { h = local.F(x, k) y = Exp(h) }
<domain: "local", opset_import: ["": 20, "com.microsoft": 1]> F (p, k) => (r) <float[N,4] a, float[N,4] f> {
    a = Relu(p) f = com.microsoft.FastGelu(a)
    c = If (k) <then_branch = b () => (float[N,4] o) <float[N,4] n> { n = Neg(a) o = Abs(n) },
                else_branch = e () => (float[N,4] q) { q = Cos(a) }>
    r = Add(c, f) }"""
"""A local function that declares values: one of them in a body, and one of an unknown operator."""


@cases(
    ("choice", "outside", "inside"),
    {
        "keep": ("keep", ["h"], ["a", "f", "n"]),
        "write": ("write", ["h"], ["a", "f", "n"]),
        "strip": ("strip", ["h"], ["f"]),
    },
)
def test_functions(choice: str, outside: list[str], inside: list[str]) -> None:
    model = optimize(onnx.parser.parse_model(FUNCTION), value_info=choice, keep_functions=True).model
    assert [info.name for info in model.graph.value_info] == outside
    (function,) = model.functions
    bodies = [g for n in all_nodes(function.node) for g in subgraphs(n)]
    assert [info.name for holder in (function, *bodies) for info in holder.value_info] == inside


@pytest.mark.parametrize("choice", ["strip", "write"])
@pytest.mark.parametrize("path", slow_unless(DECLARING[::4], DECLARING), ids=[p.stem for p in DECLARING])
def test_golden_models_are_the_same(path: Path, choice: str) -> None:
    result = optimize(path, "none", value_info=choice)
    verdict = result.report.verification
    assert verdict is not None
    assert not any(d.error for d in verdict.differences.values())
    counts = [len(m.graph.value_info) for m in (onnx.load(path, load_external_data=False), result.model)]
    assert counts[1] == 0 if choice == "strip" else counts[1] >= counts[0]


def test_command_line(model: onnx.ModelProto, tmp_path: Path) -> None:
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(model, path)
    for more, expected in (([], {"f": ["N", 4]}), (["--value-info", "keep"], KEPT)):
        invoke("run", path, "-o", out, *more)
        assert entries(onnx.load(out)) == expected


@cases(
    ("text", "message"),
    {
        "unknown": ("all", "error: --value-info all: choose from keep, write, strip"),
        "for --shape": ("x:3,4", "strip; --shape sets the shape of an input"),
    },
)
def test_unknown_choices(model: onnx.ModelProto, tmp_path: Path, text: str, message: str) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    result = invoke("run", tmp_path / "m.onnx", "--value-info", text, code=2)
    assert message in " ".join(result.output.split())
    with pytest.raises(UsageError, match="choose from"):
        optimize(model, value_info=text)


def test_external_weights_are_written_with_the_choice(tmp_path: Path) -> None:
    optimize(GOLDEN / "mixer_external.onnx", output=tmp_path / "m.onnx")
    assert len([*tmp_path.glob("m.onnx.*.data")]) == 1
    assert not onnx.load(tmp_path / "m.onnx", load_external_data=False).graph.value_info
