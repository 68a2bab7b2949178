"""Transforms: changes of a model by definition, by name, option and plugin, and the hints for them."""

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands import invoke
from onnx import TensorProto, helper
from passwright.app.cli.entry import app
from passwright.core import Model, ModelTransform, from_onnx
from passwright.core.errors import ModelError, PassesError, PluginError, UsageError
from passwright.core.run.model_interface import ModelInterface
from passwright.passes.pipelines import TRANSFORMS
from passwright.passes.transforms.interface import (
    ConvertFloats,
    CutInputs,
    ExposeInitializers,
    FreezeInitializers,
    Int32Inputs,
    KeepOutputs,
)
from passwright.passes.transforms.texts import ClearDocs, ClearMetadata, ShortNames, UniqueNodeNames
from rewriting import cases, initializers, load, op_types, run, to_onnx
from simulated_races import SimulatedMachine
from typer.testing import CliRunner

from passwright import compare, optimize, quantize, tune

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

X = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
BODIES = """g (float[2,3] x, bool c, float[3] d = {1,2,3}) => (float[2,3] y, float[2,3] z) <float[3] w = {4,5,6}> {
    [one] a = Add(x, w)
    [two] b = Mul(a, d)
    y = If(c) <then_branch = t () => (float[2,3] o) { [one] p = Neg(b) o = Sub(p, w) },
               else_branch = e () => (float[2,3] o) <float[3] v = {7,8,9}> { o = Add(b, v) }>
    z, m = Dropout(a)
}"""
BODY_FEEDS = {"x": X, "c": np.array(True)}
TEXTS = """g (string[N] s, int64[N] i) => (string[N] y) { t = Identity(s) y = Gather(t, i) }"""
TEXT_FEEDS = {"s": np.array(["a", "b"], object), "i": np.array([1, 0])}
HALVES = "g (float16[2,3] x) => (float16[2,3] y) <float16[3] w = {1,2,3}> { a = Add(x, w) y = Relu(a) }"
OPTIONAL = "g (float[2,3] x) => (float[2,3] y) <float top = {2}> { a = Clip(x, , top) y = Neg(a) }"
FEEDS: dict[str, dict[str, Any]] = {
    BODIES: BODY_FEEDS, TEXTS: TEXT_FEEDS, HALVES: {"x": X.astype(np.float16)}, OPTIONAL: {"x": X}
}  # fmt: skip


def transformed(transform: ModelTransform, model: onnx.ModelProto, changes: int | None = None) -> onnx.ModelProto:
    """The model after a transform: valid, with the interface that it declares, and loaded as it is written."""
    loaded = from_onnx(model)
    made = transform.transform(loaded)
    assert changes is None or made == changes
    loaded.graph.validate()
    ModelInterface.of(loaded).require(loaded)
    out = to_onnx(loaded)
    onnx.checker.check_model(out, full_check=True)
    assert to_onnx(from_onnx(out)) == out
    return out


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def same(got: list[Any], expected: list[Any]) -> None:
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def names(infos: Any) -> list[str]:
    return [info.name for info in infos]


KEEPING = [FreezeInitializers(), ExposeInitializers(), UniqueNodeNames(), UniqueNodeNames(nameless=True), ShortNames(),
           ClearDocs(), ClearMetadata()]  # fmt: skip


@pytest.mark.parametrize("transform", KEEPING, ids=str)
def test_values_stay(transform: ModelTransform) -> None:
    """Transforms of names, texts and initializers change no value: in bodies, of strings, with omitted inputs."""
    for text, feeds in (*FEEDS.items(), (BODIES, {**BODY_FEEDS, "c": np.array(False)})):
        model = with_texts(load(text))
        out = transformed(transform, model)
        assert names(out.graph.output) == names(model.graph.output)
        same(run(out, feeds), run(model, feeds))


def with_texts(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a doc string and metadata wherever ONNX has them."""
    parts: list[Any] = [model, model.graph]
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        parts += [graph, *graph.node, *graph.input, *graph.output, *graph.initializer, *graph.value_info]
        for node in graph.node:
            graphs += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
            parts += [a.t for a in node.attribute if a.type == onnx.AttributeProto.TENSOR]
    for part in parts:
        part.doc_string = "written"
        del part.metadata_props[:]
        part.metadata_props.add(key="k", value="written")
    return model


def test_initializers_become_inputs_and_constants_again() -> None:
    model = load(BODIES)
    out = transformed(ExposeInitializers(), model, 1)
    assert names(out.graph.input) == ["x", "c", "d", "w"]
    w = np.zeros(3, np.float32)
    same(run(out, {**BODY_FEEDS, "w": w, "d": w + 1})[1:], [X])
    back = transformed(FreezeInitializers(), out, 2)
    assert names(back.graph.input) == ["x", "c"]
    same(run(back, BODY_FEEDS), run(model, BODY_FEEDS))
    named = transformed(ExposeInitializers(("w",)), load(HALVES), 1)
    assert [(i.name, i.type.tensor_type.elem_type) for i in named.graph.input][1] == ("w", TensorProto.FLOAT16)
    same(run(named, {"x": X.astype(np.float16), "w": -np.ones(3, np.float16)}), [np.maximum(X - 1, 0)])
    with pytest.raises(ModelError, match="no initializer named 'wv'; did you mean w"):
        transformed(ExposeInitializers(("wv",)), load(HALVES))


def test_initializers_are_inputs_before_ir_version_4() -> None:
    model = load("g (float[3] x, float[3] w) => (float[3] y) { y = Add(x, w) }", opset=8)
    model.ir_version = 3
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [3], [1, 2, 3]))
    assert transformed(ExposeInitializers(), model, 0) == model
    assert transformed(FreezeInitializers(), model, 0) == model


@cases(
    ("text", "wanted", "inputs", "ops"),
    {
        "one of two paths": (BODIES, ["b"], ["b", "x", "c"], ["Add", "If", "Dropout"]),
        "two values": (BODIES, ["a", "b"], ["a", "b", "c"], ["If", "Dropout"]),
        "an input goes": (BODIES, ["a"], ["a", "c", "d"], ["Mul", "If", "Dropout"]),
        "an initializer": (BODIES, ["w", "x"], ["w", "x", "c", "d"], ["Add", "Mul", "If", "Dropout"]),
        "another order": (BODIES, ["c", "x"], ["c", "x", "d"], ["Add", "Mul", "If", "Dropout"]),
        "an output": (BODIES, ["y"], ["y", "x"], ["Add", "Dropout"]),
        "strings": (TEXTS, ["t"], ["t", "i"], ["Gather"]),
        "halves": (HALVES, ["a"], ["a"], ["Relu"]),
        "an optional operand": (OPTIONAL, ["top"], ["top", "x"], ["Clip", "Neg"]),
    },
)
def test_cut_inputs(text: str, wanted: list[str], inputs: list[str], ops: list[str]) -> None:
    model = load(text)
    out = transformed(CutInputs(tuple(wanted)), model)
    assert names(out.graph.input) == inputs
    assert op_types(out) == ops
    feeds = FEEDS[text]
    held = {n: a for n, a in initializers(model).items() if n in wanted}
    inner = [n for n in wanted if n not in {*feeds, *held, *names(model.graph.output)}]
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    whole.graph.output.extend(onnx.ValueInfoProto(name=n) for n in inner)
    values = {**dict(zip(names(whole.graph.output), run(whole, feeds), strict=True)), **feeds, **held}
    same(run(out, {n: values[n] for n in inputs if n in values}), run(model, feeds))


def test_inner_symbols_of_a_cut_model_are_its_own() -> None:
    """Dims that inference derived from the dropped ops are unknown again: any even and odd extent is accepted."""
    text = """g (float[N] x) => (float[M] y) {
        a = Concat<axis=0>(x, x) s = Shape(a) k = Constant<value_ints=[2]>() h = Div(s, k)
        r = Expand(o, h) y = Concat<axis=0>(a, r)
    }"""
    model = load(text, weights={"o": np.ones(1, np.float32)})
    before = from_onnx(model)
    assert before.graph.outputs[0].known_shape is not None  # inferred from x
    out = transformed(CutInputs(("a",)), model)
    optimized = optimize(out, verify=False).model
    same(run(optimized, {"a": np.zeros(5, np.float32)}), [np.r_[np.zeros(5), np.ones(2)].astype(np.float32)])


@cases(
    ("transform", "message"),
    {
        "none": (CutInputs(), "no inputs are named"),
        "twice": (CutInputs(("a", "a")), "input a is named twice"),
        "inner": (CutInputs(("p",)), "p is inside a subgraph; only values of the main graph can be inputs"),
        "unknown": (CutInputs(("aa",)), "the model has no value named 'aa'; did you mean a?"),
        "no outputs": (KeepOutputs(), "no outputs are named"),
        "of a body": (ExposeInitializers(("v",)), "the model has no initializer named 'v'"),
    },
)
def test_unusable_names(transform: ModelTransform, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        transform.transform(from_onnx(load(BODIES)))


def test_inputs_state_their_rank() -> None:
    """A value of unknown rank cannot be an input (ONNX IR, Static tensor shapes)."""
    text = """<ir_version: 8, opset_import: ["": 17, "d": 1]>
    g (float[2] x) => (float[N] y) { a = d.Unknown(x) b = Relu(a) k = Shape(x) r = Reshape(b, k) y = Neg(r) }"""
    with pytest.raises(ModelError, match="a cannot be an input: its type is unknown"):
        CutInputs(("a",)).transform(from_onnx(onnx.parser.parse_model(text)))
    rankless = load("g (float[2] x, int64[K] s) => (float[N] y) { a = Reshape(x, s) y = Flatten(a) }")
    with pytest.raises(ModelError, match="a cannot be an input: its rank is unknown"):
        CutInputs(("a",)).transform(from_onnx(rankless))


def test_sparse_constants_are_not_cut() -> None:
    model = load("g (float[4] x) => (float[4] y) { y = Add(x, w) }")
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [3])
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, helper.make_tensor("", TensorProto.INT64, [1], [2]), [4])
    )
    with pytest.raises(ModelError, match="w is a sparse constant"):
        CutInputs(("w",)).transform(from_onnx(model))


def test_inputs_become_int32() -> None:
    out = transformed(Int32Inputs(), load(TEXTS), 1)
    assert [i.type.tensor_type.elem_type for i in out.graph.input] == [TensorProto.STRING, TensorProto.INT32]
    same(run(out, {**TEXT_FEEDS, "i": np.array([1, 0], np.int32)}), [np.array(["b", "a"], object)])
    body = """g (int64[2] i, bool c, int64[2] d = {1, 2}) => (int64[2] y, int64[2] z) {
        y = If(c) <then_branch = t () => (int64[2] o) { o = Add(i, d) },
                   else_branch = e () => (int64[2] o) { o = Neg(i) }>
        z = Neg(y)
    }"""
    out = transformed(Int32Inputs(), load(body), 1)
    assert [i.type.tensor_type.elem_type for i in out.graph.input] == [TensorProto.INT32, TensorProto.BOOL, 7]
    for c in (True, False):
        feeds = {"i": np.array([3, -4], np.int32), "c": np.array(c)}
        same(run(out, feeds), run(load(body), {**feeds, "i": feeds["i"].astype(np.int64)}))
    passed = load("g (int64[2] i) => (int64[2] i) { }")
    assert transformed(Int32Inputs(), passed, 0) == passed
    old = from_onnx(load("g (int64[2] i) => (int64[2] y) { y = Identity(i) }", opset=5))
    with pytest.raises(ModelError, match="another type for i needs a Cast of opset 6"):
        Int32Inputs().transform(old)


def test_floats_become_halves(tmp_path: Path) -> None:
    w = np.random.default_rng(0).normal(0, 0.3, (16, 16)).astype(np.float32)
    model = load("g (float[2,16] x) => (float[2,16] y) { a = MatMul(x, w) y = Relu(a) }", weights={"w": w})
    x = np.random.default_rng(1).uniform(-1, 1, (2, 16)).astype(np.float32)
    expected = run(model, {"x": x})[0]
    for transform, interface, stored in (
        (ConvertFloats(), TensorProto.FLOAT, TensorProto.FLOAT16),
        (ConvertFloats(keep_interface=False), TensorProto.FLOAT16, TensorProto.FLOAT16),
        (ConvertFloats(weights_only=True), TensorProto.FLOAT, TensorProto.FLOAT16),
    ):
        out = transformed(transform, model)
        ends = (*out.graph.input, *out.graph.output)
        assert {i.type.tensor_type.elem_type for i in ends} == {interface}
        assert {t.data_type for t in out.graph.initializer} == {stored}
        got = run(out, {"x": x.astype(np.float16) if interface == TensorProto.FLOAT16 else x})[0]
        np.testing.assert_allclose(got.astype(np.float32), expected, atol=2e-3)
        assert got.dtype != expected.dtype or not np.array_equal(got, expected)
    with pytest.raises(UsageError, match="keeps the interface"):
        ConvertFloats(weights_only=True, keep_interface=False)
    path = saved(model, tmp_path)
    converted = invoke("run", path, "--enable", "convert-to-half{keep_interface=false}", "-o", tmp_path / "half.onnx")
    assert "compared with the model after convert-to-half" in converted.stdout
    assert op_types(onnx.load(tmp_path / "half.onnx")) == ["MatMul", "Relu"]


def test_names_of_nodes(tmp_path: Path) -> None:
    model = load(BODIES)
    assert node_names(transformed(UniqueNodeNames(), model, 1)) == ["one", "two", "", "one_2", "", "", ""]
    named = transformed(UniqueNodeNames(nameless=True), model, 5)
    assert node_names(named) == ["one", "two", "If_1", "one_2", "Sub_1", "Add_1", "Dropout_1"]
    taken = load("g (float[2] x) => (float[2] y) { [n] a = Abs(x) [n] b = Abs(a) [n_2] y = Neg(b) }")
    assert node_names(transformed(UniqueNodeNames(), taken, 1)) == ["n", "n_3", "n_2"]
    transformed(UniqueNodeNames(), transformed(UniqueNodeNames(), taken), 0)
    path = saved(taken, tmp_path)
    with pytest.raises(PassesError, match="two nodes with same node name"):
        run(taken, {"x": np.ones(2, np.float32)})
    hint = "hint: 1 node has the name of others, which onnxruntime refuses: --enable unique-node-names"
    assert invoke("run", path, "--pipeline", "none").stdout.splitlines()[-1] == hint
    invoke("run", path, "--enable", "unique-node-names", "--pipeline", "none", "-o", tmp_path / "unique.onnx")
    same(run(onnx.load(tmp_path / "unique.onnx"), {"x": np.ones(2, np.float32)}), [-np.ones(2, np.float32)])


def node_names(model: onnx.ModelProto) -> list[str]:
    """The names of all nodes, each before those in its bodies."""
    found: list[str] = []
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        for node in graph.node:
            found.append(node.name)
            bodies = [a.g.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
            found += [n.name for body in bodies for n in body]
    return found


def test_short_names() -> None:
    model = load(BODIES)
    note = model.graph.quantization_annotation.add(tensor_name="b")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [2, 3], "kept"))
    out = transformed(ShortNames(), model)
    assert (names(out.graph.input), names(out.graph.output)) == (["x", "c", "d"], ["y", "z"])
    assert [list(n.output) for n in out.graph.node] == [["v1"], ["b"], ["y"], ["z", "v2"]]
    assert [(i.name, i.doc_string) for i in out.graph.value_info] == [("v1", "kept")]
    assert node_names(out) == ["Add_1", "Mul_1", "If_1", "Neg_1", "Sub_1", "Add_2", "Dropout_1"]
    assert sorted(initializers(out)) == ["d", "w"]


def test_texts_are_cleared_wherever_they_are() -> None:
    model = with_texts(load(BODIES))
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(
            helper.make_tensor("s", TensorProto.FLOAT, [0], []), helper.make_tensor("", TensorProto.INT64, [0], []), [4]
        )
    )
    for transform, field in ((ClearDocs(), "doc_string"), (ClearMetadata(), "metadata_props")):
        assert field in str(model)
        model = transformed(transform, model)
        assert field not in str(model)
        assert transformed(transform, model, 0) == model


def test_texts_of_large_constants_and_functions(tmp_path: Path) -> None:
    large = np.zeros((64, 64), np.float32)
    node = helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(large, "large"))
    model = load("g (float[2,64] x) => (float[2,64] y) { a = MatMul(x, v) y = MatMul(a, c) }", weights={"v": large})
    model.graph.node.insert(0, node)
    model.graph.node[0].attribute[0].t.doc_string = model.graph.initializer[0].doc_string = "written"
    model.functions.add(name="f", domain="d", doc_string="written").opset_import.add(version=17)
    model.opset_import.add(domain="d", version=1)
    path = saved(model, tmp_path)
    for source in (path, model):
        result = optimize(source, "none", enable=["clear-docs"], keep_functions=True)
        assert "written" not in str(result.model)
        assert [(e.name, e.changes) for e in result.report.transforms] == [("clear-docs", 3)]


def test_names_of_transforms_are_on_the_command_line(tmp_path: Path) -> None:
    path = saved(with_texts(load(BODIES)), tmp_path)
    out = tmp_path / "out.onnx"
    result = invoke("run", path, "-o", out, "--cut-inputs", "a", "--enable", "clear-docs,short-names", "--outputs", "y")
    assert (
        result.stdout.splitlines()[2]
        == "compared with the model after cut-inputs, keep-outputs, clear-docs, short-names"
    )
    written = onnx.load(out)
    assert (names(written.graph.input), names(written.graph.output)) == (["a", "c", "d"], ["y"])
    assert "doc_string" not in str(written)
    pipeline = invoke("run", path, "--pipeline", "clear-metadata,none", "--check", code=3)
    assert "compared with the model after clear-metadata" in pipeline.stdout
    alone = json.loads(invoke("run", path, "--enable", "clear-docs", "--only", "clear-docs", "--json", "-").stdout)
    assert (alone["passes"], len(alone["transforms"])) == ([], 1)
    skipped = invoke("run", path, "--pipeline", "clear-metadata,none", "--skip", "clear-metadata", "--check")
    assert "compared with" not in skipped.stdout
    assert "keep-outputs{names=" in invoke("run", path, "--enable", "keep-outputs", code=1).stderr


def test_transforms_are_listed_with_their_options() -> None:
    options = {e.name: getattr(e, "option", "").partition(" ")[0] for e in TRANSFORMS}
    helped = invoke("run", "--help").output
    assert sum(map(bool, options.values())) > 3
    assert all(option in helped for option in options.values())
    described = invoke("list", *options).stdout
    assert described.count(", a transform (passwright") == len(options)
    assert described.count("    enabled by --") == sum(map(bool, options.values()))
    assert "    enabled by --outputs NAMES" in described
    listed = json.loads(invoke("list", "freeze-initializers", "--json", "-").stdout)["passes"][0]
    assert (listed["stage"], listed["option"], listed["pipelines"]) == ("transform", "--freeze-initializers", [])


def test_hints_name_options(tmp_path: Path) -> None:
    text = """g (float[N,4] x, float[N,4] unread, float[4] d = {1,2,3,4}) => (float[N,4] y) {
        h = Div(x, s) f = Erf(h) p = Add(f, o) q = Mul(x, p) r = Mul(q, k) y = Mul(r, d)
    }"""
    numbers = {"s": np.sqrt(np.float32(2)), "o": np.float32(1), "k": np.float32(0.5)}
    path = saved(with_texts(load(text, weights=numbers)), tmp_path)
    for width in ("40", "80"):
        result = CliRunner(env={"COLUMNS": width, "NO_COLOR": "1"}).invoke(app, ["run", str(path)])
        hints = [line for line in result.stdout.splitlines() if line.startswith("hint:")]
        assert len(hints) == 3
        assert hints == [
            "hint: at opset 20, more ops could be fused (1 Gelu): --opset 20",
            "hint: 1 initializer is also an input, so it is not folded: --freeze-initializers",
            "hint: 1 input is not read by any op: --drop-unused-inputs",
        ]
    report = json.loads(invoke("run", path, "--json", "-", "--no-verify").stdout)
    assert [h["pass_name"] for h in report["hints"]][3:] == ["clear-metadata"]
    assert report["hints"][3]["option"] == "--enable clear-metadata"
    quiet = invoke(
        "run", path, "--freeze-initializers", "--drop-unused-inputs", "--enable", "clear-docs,clear-metadata"
    )
    assert "hint: at opset 20, more ops could be fused (1 Gelu)" in quiet.stdout
    assert quiet.stdout.count("hint:") == 1
    made = tmp_path / "made.onnx"
    invoke("run", path, "-o", made, "--opset", "20", "--enable", "clear-docs,clear-metadata")
    assert "passwright.rule" in str(onnx.load(made))
    assert "metadata of nodes" not in invoke("run", made).stdout  # our own is made again


LISTED = {
    "all": ("float[N,4] x, float[4,3] w, float[3] b", {}, 2),
    "nearly all": (
        "float[N,4] x, float[4,90] w" + "".join(f", float[3] b{i}" for i in range(9)), {"b": np.ones(3)}, 10),
    "a few": ("float[N,4] x, float[3] b", {"w": np.ones((4, 3))}, 0),
    "many, but not the weights": (
        "float[N,4] x" + "".join(f", float[1,3] b{i}" for i in range(9)), {"w": np.ones((4, 3))}, 0),
    "no matrix": ("float[N,4] x, float[3] b", {}, 0),
}  # fmt: skip


@cases(("inputs", "others", "frozen"), LISTED)
def test_initializers_are_frozen_where_an_exporter_lists_them_all(
    inputs: str, others: Mapping[str, np.ndarray], frozen: int, tmp_path: Path
) -> None:
    names = [part.split()[1] for part in inputs.split(", ")[1:]]
    sizes = {part.split()[1]: part.split("[")[1].split("]")[0] for part in inputs.split(", ")[1:]}
    read = "".join(f"t{n} = ReduceSum<keepdims=0>({n}) " for n in (*names, *others))
    sums = f"y = Sum(x, {', '.join(f't{n}' for n in (*names, *others))})"
    weights = {n: np.arange(prod(map(int, dims.split(","))), dtype=np.float32).reshape(*map(int, dims.split(",")))
               for n, dims in sizes.items()}  # fmt: skip
    given = {n: array.astype(np.float32) for n, array in others.items()}
    path = saved(load(f"g ({inputs}) => (float[N,4] y) {{ {read} {sums} }}", weights={**weights, **given}), tmp_path)
    made = optimize(path)
    count = f"{frozen} initializers that the model also lists as inputs became constants"
    assert [n.startswith(count) for n in made.report.notes] == [True] * (frozen > 0)
    assert [i.name for i in made.model.graph.input] == ["x", *names * (frozen == 0)]
    kept, all_frozen = optimize(path, freeze_initializers=False), optimize(path, freeze_initializers=True)
    assert [i.name for i in kept.model.graph.input] == ["x", *names]
    assert [i.name for i in all_frozen.model.graph.input] == ["x"]
    assert kept.report.notes == all_frozen.report.notes == []
    assert not any(h.pass_name == "freeze-initializers" for h in kept.report.hints)


def test_all_commands_freeze_what_an_exporter_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SimulatedMachine(lambda _: 1e-3).replace_real_one(monkeypatch)
    text = "g (float[N,64] x, float[64,640] w) => (float[N,640] y) { y = MatMul(x, w) }"
    w = np.random.default_rng(0).normal(size=(64, 640)).astype(np.float32)
    path, note = saved(load(text, weights={"w": w}), tmp_path), "1 initializer that the model also lists as inputs"
    made = quantize(path, scheme="half-weights", trials=1, min_time=0.01, threads=1)
    assert made.report.scheme == "half-weights"
    assert len(made.model.graph.input) == 1
    reports = [
        made.report,
        tune(path, trials=1, min_time=0.01, threads=1, dim={"N": [1]}, pipeline=["basic"]).report,
        compare(path, tools=(), batch=(1,), min_time=0.01, threads=1),
    ]
    assert [any(n.startswith(note) for n in r.notes) for r in reports] == [True] * 3
    assert [row.verdict.wrong for row in reports[2].rows if row.verdict is not None] == [""] * len(reports[2].rows)
    kept = quantize(path, scheme="half-weights", trials=1, min_time=0.01, threads=1, freeze_initializers=False).report
    assert kept.is_original
    assert kept.trials[0].outcome == "it changes no op"
    assert "--freeze-initializers and --keep-overridable are mutually exclusive" in invoke(
        "quantize", path, "--freeze-initializers", "--keep-overridable", code=2
    ).output.replace("--keep-overridable and --freeze-initializers", "--freeze-initializers and --keep-overridable")


PLUGIN = '''
from dataclasses import dataclass
from passwright.core import Hint, Model, ModelError, Plugin

class Count:
    def __index__(self):
        raise ValueError("no number")

class Exits:
    name = "exits"
    def run(self, graph, change_log):
        return 0
    def remarks(self, graph, *, exact_only):
        raise SystemExit(0)
    def hint(self, model, report):
        raise SystemExit(0)

class NoOption(Exits):
    name = "no-option"
    @property
    def option(self):
        raise SystemExit(0)
    def hint(self, model, report):
        return Hint("nothing", {})

@dataclass(frozen=True)
class Rename:
    """Gives the graph another name."""
    to: str = "renamed"
    result: str = "1"
    name: str = "rename-graph"

    def transform(self, model):
        graph = model.graph
        if self.to == "refused":
            raise ModelError("this graph keeps its name")
        if self.to == "broken":
            graph.outputs = [*graph.outputs, *graph.inputs]
            graph.inputs[0].consumers.clear()
            next(iter(graph.ops())).graph = None
        if self.to == "raised":
            raise KeyError("oops")
        if self.to == "exits":
            raise SystemExit(0)
        if self.to == "counts":
            return Count()
        graph.declared.header.name = self.to
        return 1 if self.result == "1" else self.result

    def hint(self, model, report):
        if self.to == "gone":
            raise KeyError("oops")
        return Hint(f"the graph is named {model.graph.declared.header.name}", {"to": "better"})

PLUGIN = Plugin(passes=(Rename(), Rename("gone", name="failing-hint"), Exits(), NoOption()), opsets=(13, 20))
'''


def test_transforms_and_hints_of_plugins(tmp_path: Path) -> None:
    plugin = tmp_path / "renaming.py"
    plugin.write_text(PLUGIN)
    path, out = saved(load(HALVES), tmp_path), tmp_path / "out.onnx"
    unasked = invoke("run", path, "--plugin", plugin, "-o", out, "--skip", "exits", "--skip", "no-option")
    assert "note: exits failed to give a hint: SystemExit: 0" in unasked.stdout
    assert "note: no-option failed to give a hint: the option of no-option cannot be read: SystemExit" in unasked.stdout
    unread = invoke("explain", "exits", path, "--plugin", plugin, code=1)
    assert unread.stderr == "error: exits gives no remarks: SystemExit: 0\n"
    assert unasked.stdout.splitlines()[-1] == 'hint: the graph is named g: --enable "rename-graph{to=better}"'
    assert "note: failing-hint failed to give a hint: KeyError: 'oops'" in unasked.stdout
    assert onnx.load(out).graph.name == "g"
    invoke("run", path, "--plugin", plugin, "-o", out, "--enable", "rename-graph{to=better}")
    assert onnx.load(out).graph.name == "better"
    for to, message in {
        "refused": "this graph keeps its name",
        "raised": "transform rename-graph fails: KeyError: 'oops'",
        "exits": "transform rename-graph fails: SystemExit: 0",
        "counts": "transform rename-graph fails: ValueError: no number",
        "broken": "transform rename-graph breaks the graph",
    }.items():
        failed = invoke("run", path, "--plugin", plugin, "--enable", f"rename-graph{{to={to}}}", code=1)
        assert message in failed.stderr
        assert failed.stderr.count("\n") == 1
    wrong = invoke("run", path, "--plugin", plugin, "--enable", "rename-graph{result=many}", code=1)
    assert "transform rename-graph returned 'many', not the number of changes" in wrong.stderr
    old = saved(load(HALVES, opset=21), tmp_path)
    unfit = invoke("run", old, "--plugin", plugin, "--enable", "rename-graph")
    assert "warning: rename-graph skipped: " in unfit.stderr
    assert "supports opsets 13 to 20, the model has 21" in unfit.stderr


def test_transforms_of_the_caller() -> None:
    class Break:
        name = "break-it"

        def transform(self, model: Model) -> int:
            raise ZeroDivisionError(model.graph.outputs)

    model = load(HALVES)
    assert optimize(model, plugin=[Break()]).report.transforms == []
    with pytest.raises(PluginError, match="transform break-it fails: ZeroDivisionError"):
        optimize(model, plugin=[Break()], enable=["break-it"])
    report = optimize(model, enable=["unique-node-names{nameless=true}"]).report
    assert [(e.name, e.changes) for e in report.transforms] == [("unique-node-names", 2)]


@pytest.mark.parametrize(
    ("options", "tensors", "removed"),
    [
        ({"enable": ["short-names"]}, {"a": "x", "b": "v4", "c": "v4", "w": "v1", "d": None, "z": "z"}, {}),
        ({"outputs": ["y"]}, {"b": "b", "u": None, "d": None, "z": None}, {"d": None, "z": None}),
        ({"cut_inputs": ["b"]}, {"a": None, "b": "b", "c": "c"}, {"a": None, "b": None}),
    ],
    ids=lambda value: next(iter(value), ""),
)
def test_name_maps_begin_before_transforms(
    tmp_path: Path, options: dict[str, Any], tensors: dict[str, str | None], removed: dict[str, str | None]
) -> None:
    """Names of the file lead to names of the result; a removed name has no rule."""
    text = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
        a = Identity(x) b = Relu(a) c = Relu(b) y = Mul(c, w) d = Neg(x) z = Add(d, u)
    }"""
    model = load(text, weights={"w": np.full(4, 2, np.float32), "u": np.full(4, 3, np.float32)})
    optimize(model, map=tmp_path / "map.json", verify=False, **options)
    found = json.loads((tmp_path / "map.json").read_text())
    assert found["tensors"].items() >= tensors.items()
    assert {"x", "y", "z", "u", "w"} <= found["tensors"].keys()
    by_transforms = {name: by for name, by in found["removed"]["nodes"].items() if by is None}
    assert by_transforms == removed
