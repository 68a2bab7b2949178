"""Files in onnxruntime's own format: written, verified, portable, compared with builds, and refused where they are."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import onnx
import onnxruntime
import pytest
from commands import invoke
from passwright.app.quantize import candidates
from passwright.core.errors import ModelError, UnverifiableError, UsageError, VerificationError
from passwright.core.io import ort_format
from passwright.core.io.model_source import model_source
from passwright.core.io.ort_format import BuildConfig, OrtFile, is_ort_file, required_operators
from passwright.core.run import model_writer
from passwright.core.verify import ort_files
from rewriting import each, load
from test_cli import BAD, USAGE, WRONG

import passwright

GOLDEN = Path(__file__).parent.parent / "golden_models"
MODELS = ("bert", "keras_cnn", "loop_if", "mobilenet_dynamo", "attention_int8", "functions", "mixer_external")
MIXED = "g (float[N,4] x) => (float[N,4] y) { a = Relu(x) b = Add(a, x) y = Sigmoid(b) }"
pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")


def session(source: str, *disabled: str, place: Path | None = None) -> Any:
    """A session of onnxruntime itself, which writes its optimized model to a place."""
    options: Any = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if place is not None:
        options.optimized_model_filepath = str(place)
    return onnxruntime.InferenceSession(
        source, options, providers=["CPUExecutionProvider"], disabled_optimizers=list(disabled)
    )


def feeds_of(model: Any, rows: int) -> dict[str, np.ndarray[Any, Any]]:
    """Random inputs of a session, whose symbolic dims are `rows`."""
    draw, found = np.random.default_rng(0), dict[str, np.ndarray[Any, Any]]()
    for i in model.get_inputs():
        shape = [d if isinstance(d, int) else rows for d in i.shape]
        is_float = "float" in i.type
        values = draw.standard_normal(shape) if is_float else draw.integers(0, 2, shape)
        found[i.name] = values.astype(np.float32 if is_float else bool if "bool" in i.type else np.int64)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_files_have_the_bits_of_the_session_that_onnxruntime_optimizes(name: str, tmp_path: Path) -> None:
    onnx_file, ort_file = tmp_path / "m.onnx", tmp_path / "m.ort"
    result = passwright.optimize(GOLDEN / f"{name}.onnx", output=ort_file, verify="quick")
    assert result.report.verification is not None
    assert result.report.verification.failure is None
    assert any(f"{ort_file.stat().st_size:,} bytes" in note for note in result.report.verification.notes)
    assert is_ort_file(ort_file)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.ort"]
    onnx.save(result.model, onnx_file)
    expected, found = session(str(onnx_file), "NchwcTransformer"), session(str(ort_file))
    feeds = feeds_of(expected, 3)
    for a, b in zip(expected.run(None, feeds), found.run(None, feeds), strict=True):
        np.testing.assert_array_equal(a, b)


def test_layouts_of_this_machine_are_left_out(tmp_path: Path) -> None:
    model, made, local = GOLDEN / "mobilenet_dynamo.onnx", tmp_path / "made.ort", tmp_path / "local.ort"
    passwright.optimize(model, output=made, verify=False)
    session(str(model), place=local)
    domains = [{op.rpartition(".")[0] for op in OrtFile.read(file).ops} for file in (made, local)]
    assert domains[0] == {"", "com.microsoft"}
    if "com.microsoft.nchwc" not in domains[1]:
        pytest.skip("onnxruntime has no layout of its own for this processor")


def test_interfaces_and_ops_are_read(tmp_path: Path) -> None:
    file = tmp_path / "m.ort"
    passwright.optimize(load(MIXED), output=file, verify=False)
    (info,) = passwright.info(file).models
    assert (info.nodes, info.ops) == (3, {"Add": 1, "Relu": 1, "Sigmoid": 1})
    assert (info.inputs, info.outputs) == ({"x": "float[N,4]"}, {"y": "float[N,4]"})
    assert info.opsets["ai.onnx"] == 17
    assert "onnxruntime" not in info.opsets


def test_maps_are_read(tmp_path: Path) -> None:
    file = tmp_path / "m.ort"
    passwright.optimize(GOLDEN / "sklearn_forest.onnx", output=file, verify=False)
    for source in (file, GOLDEN / "sklearn_forest.onnx"):
        assert passwright.info(source).models[0].outputs["output_probability"] == "seq(map(int64, float))"


def test_commands_take_or_refuse_them(tmp_path: Path) -> None:
    model, file, other = tmp_path / "m.onnx", tmp_path / "m.ort", tmp_path / "other.ort"
    onnx.save(load(MIXED), model)
    invoke("run", model, "-o", file, "--verify", "quick")
    invoke("run", "--verify", "quick", model, "-o", other, "--outputs", "b")
    assert "was compared" in invoke("verify", model, file, "--effort", "quick").output
    changed = MIXED.replace("Sigmoid(b)", "Tanh(b)")
    passwright.optimize(load(changed), output=other, verify=False)
    assert "y: off by" in invoke("verify", model, other, "--effort", "quick", code=WRONG).output
    assert "--prove" in invoke("verify", model, file, "--prove", code=USAGE).output
    for command in (["run", file], ["explain", "basic", file], ["verify", file, model]):
        output = invoke(*command, code=BAD).output
        assert "it is in onnxruntime's own format, which cannot be optimized" in output, command
    assert "which cannot be optimized" in invoke("diff", model, file, code=USAGE).output
    report = tmp_path / "r.json"
    invoke("bench", model, file, "--batch", 1, "--min-time", 0.01, "--json", report)
    assert [m["measured"]["failure"] for m in json.loads(report.read_text())["models"]] == ["", ""]


def test_a_file_that_computes_something_else_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed, file = tmp_path / "changed.onnx", tmp_path / "m.ort"
    onnx.save(load(MIXED.replace("Sigmoid(b)", "Tanh(b)")), changed)

    def convert_another(_: Path, place: Path) -> None:
        ort_files.write_ort(changed, place)

    monkeypatch.setattr(model_writer, "write_ort", convert_another)
    with pytest.raises(VerificationError, match=r"m\.ort, written by onnxruntime, is wrong: y: off by"):
        passwright.optimize(load(MIXED), output=file, verify="quick")
    assert not file.exists()


def test_compressed_models_have_the_bits_of_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, file = GOLDEN / "cnn_qdq_unsigned.onnx", tmp_path / "m.ort"
    candidate = candidates.Candidate(model_source(model, inline=True).load(), (), is_external=False)
    candidate.save(file)
    expected, found = session(str(model), "NchwcTransformer"), session(str(file))
    feeds = feeds_of(expected, 3)
    np.testing.assert_array_equal(expected.run(None, feeds)[0], found.run(None, feeds)[0])

    def convert_another(_: Path, place: Path) -> None:
        ort_files.write_ort(GOLDEN / "cnn_qdq.onnx", place)

    monkeypatch.setattr(candidates, "write_ort", convert_another)
    with pytest.raises(VerificationError, match=r"other\.ort, written by onnxruntime, is wrong: "):
        candidate.save(tmp_path / "other.ort")
    assert [p.name for p in tmp_path.iterdir()] == ["m.ort"]


def test_random_outputs_are_not_compared(tmp_path: Path) -> None:
    model = load("g (float[4] x) => (float[4] y) { n = RandomNormalLike(x) y = Add(x, n) }")
    with pytest.raises(UnverifiableError, match=r"random ops in an \.ort file get no seeds"):
        passwright.optimize(model, output=tmp_path / "m.ort", verify="quick")
    assert not list(tmp_path.iterdir())


def test_targets_are_for_files_whose_ops_stay(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"target: onnxruntime fuses ops of \.ort files for the CPU: -o an \.onnx"):
        passwright.optimize(load(MIXED), target="webgpu", output=tmp_path / "m.ort")


def test_a_result_is_only_saved_as_onnx(tmp_path: Path) -> None:
    result = passwright.optimize(load(MIXED), verify=False)
    with pytest.raises(UsageError, match=r"give output= to optimize, which verifies an \.ort file"):
        result.save(tmp_path / "m.ort")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # onnxruntime's tool leaves files open
def test_damaged_files_are_errors_of_a_line(tmp_path: Path) -> None:
    whole, file, draw = tmp_path / "whole.ort", tmp_path / "m.ort", random.Random(0)
    passwright.optimize(load(MIXED), output=whole, verify=False)
    data, refused = whole.read_bytes(), 0
    for number in range(300):
        damaged = bytearray(data[: draw.randrange(8, len(data))] if number % 3 == 0 else data)
        for _ in range(draw.randrange(1, 40)):
            damaged[draw.randrange(8, len(damaged)) if len(damaged) > 8 else 0] = draw.randrange(256)
        file.write_bytes(damaged)
        try:
            OrtFile.read(file)
            required_operators([file], tmp_path)
        except ModelError:  # as its readers raise it, whatever onnxruntime's own raise
            refused += 1
    assert refused > 100


def shared_bodies(width: int, depth: int) -> bytes:
    """A file whose graph is so deep: all of its nodes are one node, whose attributes are one body of such nodes."""
    fbs, b, graph = ort_format._schema(), flatbuffers.Builder(1024), 0

    def table(kind: str, **fields: Any) -> int:
        module = getattr(fbs, kind)
        module.Start(b)
        for name, value in fields.items():
            getattr(module, f"Add{name}")(b, value)
        return module.End(b)

    def vector(start: Callable[[Any, int], Any], element: int) -> int:
        start(b, width)
        for _ in range(width):
            b.PrependUOffsetTRelative(element)
        return b.EndVector()

    op_type, domain = b.CreateString("If"), b.CreateString("")
    for _ in range(depth):
        attributes = None
        if graph:
            attribute = table("Attribute", Type=fbs.AttributeType.AttributeType.GRAPH, G=graph)
            attributes = vector(fbs.Node.StartAttributesVector, attribute)
        node = table("Node", OpType=op_type, Domain=domain, **{"Attributes": attributes} if attributes else {})
        graph = table("Graph", Nodes=vector(fbs.Graph.StartNodesVector, node))
    b.Finish(table("InferenceSession", Model=table("Model", Graph=graph)), b"ORTM")
    return bytes(b.Output())


@pytest.mark.parametrize(("width", "depth"), [(300, 4), (2, 2000)], ids=["wide", "deep"])
def test_small_files_with_endless_content_are_damaged(width: int, depth: int, tmp_path: Path) -> None:
    (file := tmp_path / "m.ort").write_bytes(shared_bodies(width, depth))
    with pytest.raises(ModelError, match="a damaged file of onnxruntime's format"):
        OrtFile.read(file)


BUILD = """# Generated
ai.onnx;13,14;Add{"inputs": {"0": ["float"]}},Relu
ai.onnx;13;Cast{"inputs": {"0": ["float"]}, "outputs": {"0": ["bool"]}}
com.microsoft;1;FusedConv
"""


@each(
    ("needed", "expected"),
    {
        "same": (BUILD, {}),
        "fewer": ("ai.onnx;14;Add\n", {}),
        "opset": ("ai.onnx;7,13;Add", {("", "Add"): "of opset 7, not 13, 14"}),
        "operator": ("com.microsoft;1;Gelu", {("com.microsoft", "Gelu"): "is missing"}),
        "type": (
            'ai.onnx;13;Cast{"inputs": {"0": ["float", "int64_t"]}, "outputs": {"0": ["bool"]}}',
            {("", "Cast"): "of type int64_t of inputs 0"},
        ),
        "types are not limited": ('ai.onnx;13;Relu{"inputs": {"0": ["double"]}}', {}),
    },
)
def test_builds_lack_operators_opsets_and_types(needed: str, expected: dict[tuple[str, str], str]) -> None:
    assert BuildConfig.parse(BUILD).lacks(BuildConfig.parse(needed)) == expected


def test_builds_with_all_operators_lack_types_alone() -> None:
    build = BuildConfig.parse("!no_ops_specified_means_all_ops_are_required\n!globally_allowed_types;float,int64_t")
    needed = BuildConfig.parse('ai.onnx;13;Add{"inputs": {"0": ["float"]}},Mul{"inputs": {"0": ["double"]}}')
    assert build.lacks(needed) == {("", "Mul"): "of type double of inputs 0"}


def test_info_writes_and_checks_configurations(tmp_path: Path) -> None:
    files = [tmp_path / "relu.ort", tmp_path / "mixed.ort"]
    for file, text in zip(files, ("g (float[4] x) => (float[4] y) { y = Relu(x) }", MIXED), strict=True):
        passwright.optimize(load(text), output=file, verify=False)
    both, one = tmp_path / "both.config", tmp_path / "one.config"
    invoke("info", *files, "--required-operators", both)
    invoke("info", files[0], "--required-operators", one)
    assert set(BuildConfig.read(both).operators) == {("", "Add"), ("", "Relu"), ("", "Sigmoid")}
    for file in files:
        invoke("info", file, "--target", both)
    invoke("info", files[0], "--target", one)
    lacking = invoke("info", files[1], "--target", one, code=WRONG).output
    assert "one.config" in lacking
    assert "Sigmoid is missing" in lacking
    onnx.save(load(MIXED), model := tmp_path / "m.onnx")
    assert "applies only to .ort files" in invoke("info", model, "--target", one, code=BAD).output
    assert "this target applies only to .onnx files" in invoke("info", files[0], "--target", "webgpu", code=BAD).output
    assert "is not an .ort file" in invoke("info", model, "--required-operators", one, code=USAGE).output
    (damaged := tmp_path / "damaged.ort").write_bytes(files[0].read_bytes()[:200])
    refused = invoke("info", files[0], damaged, "--required-operators", tmp_path / "new.config", code=BAD).output
    assert "damaged.ort: a damaged file of onnxruntime's format" in refused
    assert not (tmp_path / "new.config").exists()
    one.write_text("ai.onnx;x;Add\n")
    assert "line 1 is not of the form" in invoke("info", files[0], "--target", one, code=USAGE).output
    assert "cannot read" in invoke("info", files[0], "--target", tmp_path / "no.config", code=USAGE).output


def test_unknown_operators_are_no_file(tmp_path: Path) -> None:
    model = load("g (float[4] x) => (float[4] y) { y = Relu(x) }")
    model.graph.node[0].domain = "example"
    model.opset_import.append(onnx.helper.make_opsetid("example", 1))
    with pytest.raises(ModelError, match=r"no \.ort file can be made: there is no kernel for example\.Relu"):
        passwright.optimize(model, output=tmp_path / "m.ort", verify=False)
    assert not list(tmp_path.iterdir())
