"""Extraction of the subgraph of chosen outputs, before optimization and verification."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands import invoke
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from passwright.app.cli.entry import app
from passwright.core import ChangeLog, Graph, from_onnx, to_onnx
from passwright.core.errors import ModelError
from passwright.core.io.model_source import model_source, transformed_source
from passwright.core.run.model_interface import ModelInterface
from passwright.core.transform.extract import drop_unused_inputs, keep_outputs
from passwright.passes.transforms.interface import FreezeInitializers
from rewriting import each, initializers, load, op_types, run
from typer.testing import CliRunner

from passwright import optimize

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

TEXT = """g (float[N,3] x, float[N,3] z, float[3] d = {1,2,3}) => (float[N,3] y, float[N,3] u) <float[3] w = {1,2,3}> {
    a = Relu(x) b = Add(a, w) c = Constant<value_floats=[4.0,5.0,6.0]>() e = Mul(b, c) y = Neg(e) u = Sub(z, d)
}"""
LOOP = """g (int64 n, float[3] x) => (float[3] y) <bool t = {1}> {
    a = Relu(x) k = Neg(x)
    y, s = Loop (n, t, x) <body = b (int64 i, bool c, float[3] v) => (bool o, float[3] w, float[3] q) {
        o = Identity(c) w = Add(v, a) q = Abs(w)
    }>
}"""
X, Z = np.arange(-3, 3, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)


def extracted(model: onnx.ModelProto, *names: str, drop_unused: bool = False) -> onnx.ModelProto:
    """The model with these outputs, validated."""
    loaded = from_onnx(model)
    keep_outputs(loaded, names)
    if drop_unused:
        drop_unused_inputs(loaded)
    loaded.graph.validate()
    ModelInterface.of(loaded).require(loaded)
    out = to_onnx(loaded)
    onnx.checker.check_model(out, full_check=True)
    assert to_onnx(from_onnx(out)) == out
    return out


def with_outputs(model: onnx.ModelProto, *names: str) -> onnx.ModelProto:
    """The whole model with further outputs."""
    whole = onnx.ModelProto.FromString(model.SerializeToString())
    known = {o.name for o in whole.graph.output}
    whole.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in known)
    return whole


def require_same(
    out: onnx.ModelProto, feeds: dict[str, Any], model: onnx.ModelProto, all_feeds: dict[str, Any], names: list[str]
) -> None:
    """Require that a model computes the named values of another."""
    for got, want in zip(run(out, feeds), run(with_outputs(model, *names), all_feeds, names), strict=True):
        np.testing.assert_array_equal(got, want)


@each(
    ("names", "ops"),
    {
        "one of two outputs": (["y"], ["Relu", "Add", "Constant", "Mul", "Neg"]),
        "outputs in another order": (["u", "y"], ["Relu", "Add", "Constant", "Mul", "Neg", "Sub"]),
        "an inner value": (["b"], ["Relu", "Add"]),
        "one depends on the other": (["e", "a"], ["Relu", "Add", "Constant", "Mul"]),
        "an output and its operand": (["y", "e"], ["Relu", "Add", "Constant", "Mul", "Neg"]),
        "the output of a Constant": (["c"], ["Constant"]),
        "an initializer": (["w"], []),
        "an overridable initializer": (["d", "w"], []),
        "an input": (["x", "a"], ["Relu"]),
    },
)
def test_extracted_values(names: list[str], ops: list[str]) -> None:
    model = load(TEXT)
    out = extracted(model, *names)
    assert [o.name for o in out.graph.output] == names
    assert op_types(out) == ops
    assert [i.name for i in out.graph.input] == ["x", "z", "d"]
    feeds = {"x": X, "z": Z}
    require_same(out, feeds, model, feeds, names)


def test_unused_constants_are_removed() -> None:
    assert list(initializers(extracted(load(TEXT), "a"))) == ["d"]
    assert list(initializers(extracted(load(TEXT), "b"))) == ["d", "w"]
    assert list(initializers(extracted(load(TEXT), "a", drop_unused=True))) == []


def test_declared_types_are_kept_and_others_inferred() -> None:
    model = load(TEXT)
    model.graph.value_info.append(helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, ["rows", 3], "kept"))
    out = extracted(model, "b", "a", "y")
    assert [o.doc_string for o in out.graph.output] == ["kept", "", ""]
    assert [helper.printable_type(o.type) for o in out.graph.output] == ["FLOAT, rowsx3", "FLOAT, Nx3", "FLOAT, Nx3"]
    assert not out.graph.value_info


def test_declared_types_of_former_outputs_are_kept() -> None:
    out = extracted(extracted(load("g (float[N] x) => (float[M] y) { a = Abs(x) y = Neg(a) }"), "y", "a"), "a")
    assert not out.graph.value_info
    model = load("g (float[N] x) => (float[M] y, float[M] z) { y = Abs(x) z = Neg(y) }")
    out = extracted(model, "z")
    assert [v.name for v in out.graph.value_info] == ["y"]


@each(
    ("names", "ops", "inputs"),
    {
        "a Loop and the outer values of its body": (["y"], ["Relu", "Loop"], ["n", "x"]),
        "an unlisted output of a Loop": (["s"], ["Relu", "Loop"], ["n", "x"]),
        "a value read by a body": (["a"], ["Relu"], ["x"]),
        "a dead value": (["k"], ["Neg"], ["x"]),
    },
)
def test_bodies(names: list[str], ops: list[str], inputs: list[str]) -> None:
    model, x = load(LOOP), np.array([-1, 0, 2], np.float32)
    out = extracted(model, *names, drop_unused=True)
    assert op_types(out) == ops
    assert [i.name for i in out.graph.input] == inputs
    feeds = {"n": np.array(3), "x": x}
    require_same(out, {i: feeds[i] for i in inputs}, model, feeds, names)


def test_unread_inputs_are_dropped_on_request() -> None:
    model = load(TEXT)
    assert [i.name for i in extracted(model, "y", drop_unused=True).graph.input] == ["x"]
    assert [i.name for i in extracted(model, "u", drop_unused=True).graph.input] == ["z", "d"]
    assert [i.name for i in extracted(model, "x", drop_unused=True).graph.input] == ["x"]
    assert [i.name for i in extracted(model, "c", drop_unused=True).graph.input] == []


def test_inputs_of_dead_ops_are_dropped() -> None:
    model = from_onnx(load("g (float[2] x, float[2] z) => (float[2] y) { a = Neg(z) b = Abs(a) y = Relu(x) }"))
    drop_unused_inputs(model)
    model.graph.validate()
    assert [v.name for v in model.graph.inputs] == ["x"]
    assert op_types(to_onnx(model)) == ["Relu"]


def test_initializers_before_ir_version_4() -> None:
    """Initializers are also inputs, and are removed together with them."""
    model = load("g (float[2] x, float[2] w, float[2] v) => (float[2] y) { a = Add(x, w) y = Mul(a, v) }", opset=8)
    model.ir_version = 3
    for name in "wv":
        model.graph.initializer.append(helper.make_tensor(name, onnx.TensorProto.FLOAT, [2], [1, 2]))
    assert [i.name for i in extracted(model, "a").graph.input] == ["x", "w"]


def test_sparse_overridable_initializers_are_frozen() -> None:
    model = load("g (float[4] x, float[4] w) => (float[4] y) { y = Add(x, w) }")
    values = helper.make_tensor("w", onnx.TensorProto.FLOAT, [1], [3])
    indices = helper.make_tensor("", onnx.TensorProto.INT64, [1], [2])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    loaded = from_onnx(model)
    assert FreezeInitializers().transform(loaded) == 1
    loaded.graph.validate()
    out = to_onnx(loaded)
    assert [i.name for i in out.graph.input] == ["x"]
    assert [s.values.name for s in out.graph.sparse_initializer] == ["w"]


@pytest.mark.parametrize("wanted", ["y", "e"])
def test_annotations_of_remaining_values_are_kept(wanted: str) -> None:
    model = load(
        "g (float[2] x) => (float[2] y) <float s = {0.5}, uint8 p = {0}> { e = Abs(x) k = Mul(s, s) y = Neg(e) }"
    )
    for name, scale in (("e", "k"), ("y", "s")):
        note = model.graph.quantization_annotation.add(tensor_name=name)
        note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=scale)
        note.quant_parameter_tensor_names.add(key="ZERO_POINT_TENSOR", value="p")
    out = extracted(model, wanted)
    assert [n.tensor_name for n in out.graph.quantization_annotation] == (["e", "y"] if wanted == "y" else ["e"])
    assert op_types(out) == ["Abs", "Mul", *["Neg"] * (wanted == "y")]
    assert set(initializers(out)) == {"s", "p"}


@each(
    ("names", "message"),
    {
        "unknown, with suggestion": (["yy"], "the model has no value named 'yy'; did you mean y?"),
        "unknown": (["nothing"], "the model has no value named 'nothing'"),
        "of a body": (["w"], "w is inside a subgraph; only values of the main graph can be outputs"),
        "twice": (["y", "a", "y"], "output y is named twice"),
        "none": ([], "no outputs are named, such as keep-outputs{names=a:b}"),
    },
)
def test_invalid_output_names(names: list[str], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        extracted(load(LOOP), *names)
    assert str(caught.value) == message


def test_output_of_unknown_type_is_refused() -> None:
    model = load("g (float[2] x) => (float[2] y) { a = my.own.Draw(x) y = Neg(a) }")
    model.opset_import.append(helper.make_opsetid("my.own", 1))
    with pytest.raises(ModelError, match="a cannot be an output: its type is unknown"):
        extracted(model, "a")


def command(folder: Path, *arguments: str, text: str = TEXT) -> Any:
    onnx.save(load(text), folder / "m.onnx")
    return CliRunner().invoke(app, ["run", str(folder / "m.onnx"), "-o", str(folder / "out.onnx"), *arguments])


def test_command_errors(tmp_path: Path) -> None:
    for names, code, message in (
        ("yy", 1, "the model has no value named 'yy'; did you mean y?"),
        ("y,,a", 2, "--outputs y,,a: a name is empty"),
    ):
        result = command(tmp_path, "--outputs", names)
        assert (result.exit_code, result.stderr) == (code, f"error: {message}\n")
        assert not (tmp_path / "out.onnx").exists()


def test_command(tmp_path: Path) -> None:
    options = ("--outputs", "e,a", "--outputs", "y", "--drop-unused-inputs", "--json", str(tmp_path / "r.json"))
    result = command(tmp_path, *options)
    assert result.exit_code == 0, result.output
    out = onnx.load(tmp_path / "out.onnx")
    assert [o.name for o in out.graph.output] == ["e", "a", "y"]
    assert [i.name for i in out.graph.input] == ["x"]
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["verification"]["exact"]
    assert report["before"]["nodes"] == 5  # of the file
    changes = {"keep-outputs": 3, "drop-unused-inputs": 2}
    assert report["transforms"] == [{"name": name, "changes": count} for name, count in changes.items()]
    assert report["after"]["bytes"] == (tmp_path / "out.onnx").stat().st_size
    require_same(out, {"x": X}, load(TEXT), {"x": X, "z": Z}, ["e", "a", "y"])


def test_bisect_takes_outputs_option(tmp_path: Path) -> None:
    onnx.save(load(TEXT), tmp_path / "m.onnx")
    invoke("bisect", tmp_path / "m.onnx", "--outputs", "a", "--drop-unused-inputs")
    invoke("bisect", tmp_path / "m.onnx", "--ort", "--outputs", "a", code=2)


@pytest.mark.parametrize("external", [False, True], ids=["embedded", "external"])
@pytest.mark.parametrize("limit", [None, 0], ids=["in memory", "by a file"])
def test_extraction_from_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, external: bool, limit: int | None
) -> None:
    if limit is not None:
        monkeypatch.setattr("passwright.core.io.files.MAX_JOINED_BYTES", limit)
    text = "g (float[N,512] x) => (float[N,512] y) { a = Add(x, w) b = Mul(a, v) y = Neg(b) }"
    weights = {name: np.arange(512, dtype=np.float32) for name in "wv"}
    model, path = load(text, weights=weights), tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=external, location="w.bin", size_threshold=0)
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    result = optimize(path, outputs=["a"], output=tmp_path / "out.onnx")
    assert {p: p.read_bytes() for p in before} == before
    assert len([*tmp_path.glob("out.onnx.*.data")]) == external
    assert list(initializers(result.model)) == ["w"]
    assert result.report.verification is not None
    x = np.ones((2, 512), np.float32)
    np.testing.assert_array_equal(run(onnx.load(tmp_path / "out.onnx"), {"x": x})[0], x + weights["w"])


def test_local_functions_are_inlined_first() -> None:
    golden = Path(__file__).parent.parent / "golden_models" / "functions.onnx"
    result = optimize(golden, outputs=["/2/Block_output_0"])
    assert [o.name for o in result.model.graph.output] == ["/2/Block_output_0"]
    kept = optimize(golden, outputs=["/2/Block_output_0"], keep_functions=True)
    assert len(kept.model.graph.node) < len(onnx.load(golden).graph.node)


class DropsNeg:
    """A wrong pass that removes every Neg."""

    name = "drops-neg"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        count = 0
        for op in graph.ops("Neg"):
            value = op.inputs[0]
            if value is not None and change_log.request_change(self.name, op.outputs[0].name, (op,)):
                graph.replace_value(op.outputs[0], value)
                graph.prune([op])
                count += 1
        return count


def test_extracted_model_is_replayed_and_verified(tmp_path: Path) -> None:
    """A wrong change inside the extracted model is found; one outside it is never made."""
    onnx.save(load(TEXT), tmp_path / "m.onnx")
    wrong = optimize(tmp_path / "m.onnx", DropsNeg(), outputs=["y", "a"]).report
    assert [q.by for q in wrong.rejected] == ["drops-neg"]
    assert not optimize(tmp_path / "m.onnx", DropsNeg(), outputs=["e"]).report.rejected


def test_transforms_apply_at_every_load() -> None:
    source = model_source(load(TEXT), inline=True)
    assert transformed_source(source, []) is source
    twice = transformed_source(source, [lambda m: keep_outputs(m, ["e"]), lambda m: keep_outputs(m, ["a"])])
    assert to_onnx(twice.load()) == to_onnx(twice.load())
    assert onnx.load_from_string(twice.loadable()) == to_onnx(twice.load())
    assert twice.size == to_onnx(twice.load()).ByteSize()


@given(
    edges=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8),
    wanted=st.lists(st.integers(0, 7), min_size=1, max_size=3, unique=True),
)
def test_random_outputs_of_random_graphs(edges: list[tuple[int, int]], wanted: list[int]) -> None:
    """Op i reads two of the values before it."""
    names = ["x", *(f"v{i}" for i in range(len(edges)))]
    lines = [f"v{i} = Add({names[a % (i + 1)]}, {names[b % (i + 1)]})" for i, (a, b) in enumerate(edges)]
    model = load(f"g (float[2] x) => (float[2] {names[-1]}) {{ {' '.join(lines)} }}")
    chosen = list(dict.fromkeys(names[i % len(names)] for i in wanted))
    feeds = {"x": np.array([1, 2], np.float32)}
    out = extracted(model, *chosen)
    require_same(out, feeds, model, feeds, chosen)
