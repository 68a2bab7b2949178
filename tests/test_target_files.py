"""Targets by name, in files and of plugins, on the command line and in Python."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import commands
import numpy as np
import onnx
import pytest
from msgspec import structs
from onnx import TensorProto
from passwright.app.cli.entry import app
from passwright.app.measure.feeds import drawn_feeds
from passwright.core import Plugin, Support, Target
from passwright.core.errors import EvaluationError, PluginError, TargetError, UnknownNameError, UsageError
from passwright.core.io.model_source import model_source
from passwright.core.ort.sessions import SessionConfig, create_session
from passwright.core.run.target import read_target
from passwright.core.verify.output_comparison import compare_outputs
from passwright.passes.targets import TARGET_NAMES, shipped_target
from rewriting import cases, load, op_types
from tiers import needs_openvino, slow_unless
from typer.testing import CliRunner

from passwright import info, optimize

pytestmark = pytest.mark.usefixtures("_verifies_in_process")
SMALL = """
name = "small"
opset = 17
[operators]
"Add Sub Mul Div Erf" = { dtypes = ["float"] }
Resize = { attributes = { mode = ["nearest"] } }
"""
TEXT = """g (float[2,8] x, float[1,4,4] b, float[1,1,4] s) => (float[2,8] y, int64[N,3] r) {
    y = Gelu(x) r = NonMaxSuppression(b, s) }"""


invoke = partial(commands.invoke, env={"NO_COLOR": "1"})


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path / "small.toml"


def gelu(tmp_path: Path) -> Path:
    onnx.save(load("g (float[2,8] x) => (float[2,8] y) { y = Gelu(x) }", 20), tmp_path / "gelu.onnx")
    return tmp_path / "gelu.onnx"


@cases("name", {name: name for name in TARGET_NAMES})
def test_shipped_targets_name_what_onnx_has_and_their_source(name: str) -> None:
    target = shipped_target(name)
    assert target.name == name
    assert target.source
    assert target.description


def test_a_model_is_made_for_a_target_in_a_file(small: Path, tmp_path: Path) -> None:
    out, report = tmp_path / "out.onnx", tmp_path / "report.json"
    shown = invoke("run", gelu(tmp_path), "--target", small, "-o", out, "--json", report).output
    assert "supported by target small" in shown
    assert "Gelu" not in shown, "no hint of an opset that the target does not read"
    assert op_types(onnx.load(out)) == ["Div", "Erf", "Add", "Mul", "Mul"]
    found = json.loads(report.read_text())
    assert found["target"] == {"target": "small", "misfits": []}
    assert found["options"]["target"] == str(small)


def test_what_is_not_on_the_target_is_refused_with_its_list(small: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(load(TEXT, 20), model)
    shown = invoke("run", model, "--target", small, "-o", out, code=3).output
    assert (
        "1 op left that small does not support: NonMaxSuppression at 'r' (no NonMaxSuppression); no decomposition"
        in shown
    )
    assert not out.exists()
    with pytest.raises(TargetError, match="1 op left"):
        optimize(model, target=small.as_posix())


def test_info_lists_all_that_is_not(small: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(load(TEXT, 20), model)
    shown = invoke("info", model, gelu(tmp_path), "--target", small, code=3).output
    assert "opset 20 is above 17" in shown
    assert "NonMaxSuppression at 'r' (no NonMaxSuppression)" in shown
    data = json.loads(invoke("info", model, "--target", small, "--json", "-", code=3).stdout)
    assert [m["op"] for m in data["models"][0]["target"]["misfits"]] == ["", "Gelu", "NonMaxSuppression"]
    assert invoke("info", gelu(tmp_path), "--target", "ort").output.count("supported by target ort") == 1
    assert info(model).models[0].target is None


def test_pipelines_run_for_a_target(small: Path, tmp_path: Path) -> None:
    for pipeline in ("none", "basic", "fuse-gelu"):
        result = optimize(gelu(tmp_path), pipeline, target=str(small))
        assert "Gelu" not in op_types(result.model)
        assert result.model.opset_import[0].version == 17
    with pytest.raises(UsageError, match="pipeline ort has a target already"):
        optimize(gelu(tmp_path), "ort", target=str(small))
    assert op_types(optimize(gelu(tmp_path), "ort", target="ort").model) == ["Gelu"]


def test_a_pipeline_of_a_target_leaves_what_it_lacks(tmp_path: Path) -> None:
    text = "g (float[2,8] x) => (float[2,8] y, int64[2,N] r) { y = PRelu(x, x) r = NonZero(x) }"
    result = optimize(load(text, 17), "webgpu")
    assert {"PRelu", "NonZero"} & set(op_types(result.model)) == {"NonZero"}
    assert result.report.target is None


def test_opsets_and_races_beside_a_target(small: Path, tmp_path: Path) -> None:
    assert optimize(gelu(tmp_path), target=structs.replace(read_target(small), opset=22), opset=21).model
    with pytest.raises(UsageError, match=r"^opset 18: the target supports at most opset 17"):
        optimize(gelu(tmp_path), target=str(small), opset=18)
    with pytest.raises(UsageError, match="check_speed may keep the original"):
        optimize(gelu(tmp_path), target=str(small), check_speed=True)


def test_a_target_of_settings_is_that_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.passwright]\ntarget = "webgpu"\n')
    model = gelu(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert "supported by target webgpu" in invoke("run", model, "--no-verify").output
    assert "webgpu" not in invoke("info", model).output
    assert "--target webgpu" not in CliRunner().invoke(app, ["quantize", "missing.onnx"]).output


def test_targets_of_plugins(tmp_path: Path) -> None:
    file = tmp_path / "phone.py"
    file.write_text(
        "from passwright.core import NEVER, Target, rule\n"
        "@rule(lambda g, x: g.Gelu(x))\n"
        "def own(g, x):\n    'Gelu(x) => x * Sigmoid(1.7 * x)'\n    return g.Mul(x, g.Sigmoid(g.Mul(x, 1.7)))\n"
        "PHONE = Target('phone', operators={'Gelu': NEVER}, others='standard', opset=20, decompositions=(own,))\n"
    )
    shown = invoke("run", gelu(tmp_path), "--plugin", file, "--target", "phone", "--no-verify").output
    assert "1 -> 3 nodes" in shown
    assert (
        "not supported by phone" in invoke("info", gelu(tmp_path), "--plugin", file, "--target", "phone", code=3).output
    )
    relu = Target("relu", operators={"Relu": Support()})
    model = load("g (float[2] x) => (float[2] y) { y = Relu(x) }", 17)
    for plugin in (relu, Plugin(targets=(relu,))):
        assert str(optimize(model, plugin=[plugin], target="relu").report.target) == "supported by target relu"
    with pytest.raises(PluginError, match="two targets are named relu"):
        optimize(model, plugin=[relu, Target("relu")], target="relu")
    with pytest.raises(PluginError, match="targets has 'relu', which is not a Target"):
        Plugin(targets=("relu",))  # pyright: ignore[reportArgumentType]


MISTAKES = {
    "a name": ('name = "t"\n[operators]\nSoftMax = {}', "no opset has an operator SoftMax; did you mean Softmax"),
    "an attribute": (
        'name = "t"\n[operators]\nResize = { attributes = { mod = [1] } }',
        "Resize has no attribute or input mod at any opset; did you mean mode",
    ),
    "an input": ('name = "t"\n[operators]\nConv = { constant = ["V"] }', "Conv has no attribute or input V at any"),
    "a type": ('name = "t"\n[operators]\nConv = { dtypes = ["float23"] }', "Conv: there is no element type float23"),
    "a key": (
        'name = "t"\n[operators]\nConv = { rank = [4] }',
        'field `rank` - at `$.operators["Conv"]`; did you mean ranks?',
    ),
    "no name": ("[operators]\nConv = {}", "Object missing required field `name`"),
    "no TOML": ("[operators", "target.toml:1: "),
}


@cases(("text", "message"), MISTAKES)
def test_mistakes_in_files(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "target.toml").write_text(text)
    with pytest.raises(UsageError, match="target") as e:
        read_target(tmp_path / "target.toml")
    assert message in str(e.value)


def test_unknown_targets(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no target is named webgp; did you mean webgpu"):
        optimize(gelu(tmp_path), target="webgp")
    with pytest.raises(UsageError, match=r"cannot read missing\.toml: No such file"):
        info(gelu(tmp_path), target="missing.toml")


GOLDEN = {
    "mlp_dropout": (), "bert": ("batch", "sequence"), "bert_dynamo": ("batch", "sequence"), "crnn": (), "keras_cnn": (),
    "mobilenet_dynamo": (), "shufflenet": ("batch",), "swin": ("batch",), "t5_encoder": ("batch", "sequence"),
    "vit": ("batch",), "whisper_encoder": ("batch",),
}  # fmt: skip
"""Models with ops that WebGPU lacks, and the dims that are fixed so that no shape is computed."""


@pytest.mark.parametrize("name", slow_unless(["mlp_dropout"], GOLDEN))
def test_golden_models_are_on_webgpu(name: str) -> None:
    model = Path(__file__).parent.parent / "golden_models" / f"{name}.onnx"
    fit = info(model, target="webgpu").models[0].target
    assert fit is not None
    assert fit.misfits
    sizes = {d: 2 if d == "batch" else 8 for d in GOLDEN[name]}
    result = optimize(model, target="webgpu", dim=sizes, enable=["int32-inputs"], verify="quick")
    assert str(result.report.target) == "supported by target webgpu"
    assert result.report.verification is not None
    assert result.report.rejected == []


OPENVINO = SessionConfig(engine="openvino", intra_op_threads=1)
LACKED_BY_OPENVINO: dict[str, tuple[str, int, list[str]]] = {
    "CastLike": ("g (float[2,8] x, int32[1] t) => (int32[2,8] y) { y = CastLike(x, t) }", 20, ["Cast"]),
    "axes that it ignores": ("g (float[2,8] x) => (float[2,1] y) { y = ReduceL1<axes=[1]>(x) }", 13, ["ReduceL1"]),
    "repeats that no constant has": (
        "g (float[A,B] x) => (float[C,D] y) { s = Shape(x) y = Tile(x, s) }",
        20,
        [
            "Shape",
            "Split",
            "Concat",
            "Concat",
            "Mul",
            "Expand",
            "Reshape",
            "Concat",
            "Unsqueeze",
            "Concat",
            "Expand",
            "Mul",
            "Reshape",
        ],
    ),
    "repeats of one axis": (
        """g (float[A,2,3,4] x) => (float[B,2,3,4] y) <int64[3] ones = {1, 1, 1}> {
            n = Shape<end=1>(x) r = Concat<axis=0>(n, ones) y = Tile(x, r) }""",
        20,
        ["Shape", "Concat", "Expand", "Reshape"],
    ),
    "antialias": (
        """g (float[1,1,4,4] x) => (float[1,1,2,2] y) <float[4] s = {1, 1, 0.5, 0.5}> {
            y = Resize<mode="linear", antialias=1>(x, , s) }""",
        18,
        ["MatMul", "MatMul"],
    ),
}
"""Ops that OpenVINO lacks or computes otherwise, their opset, and what is made of them."""
GOLDEN_ON_OPENVINO = (
    *("attention_int8", "bert_dynamo", "keras_cnn", "loop_if", "mobilenet", "t5_decoder", "yolo"),
    "families/sam_decoder_ts17_eager",  # two Expands, of which one of rank 8 or more is wrong there
)


def computes_the_same(model: onnx.ModelProto, result: onnx.ModelProto, feeds: dict[str, Any]) -> bool:
    """Whether the result in OpenVINO and the model in onnxruntime have equal outputs."""
    want = create_session(model.SerializeToString()).run(None, feeds)
    got = create_session(result.SerializeToString(), OPENVINO).run(None, feeds)
    return not any(compare_outputs(w, g, exact=False).reason for w, g in zip(want, got, strict=True))


@needs_openvino
@cases("text, opset, expected", LACKED_BY_OPENVINO)
def test_models_that_openvino_lacks_are_right_there(text: str, opset: int, expected: list[str]) -> None:
    model = load(text, opset)
    result = optimize(model, target="openvino", verify="quick").model
    assert op_types(result) == expected
    shapes = {i.name: [d.dim_value or 3 for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    x = np.random.default_rng(0).normal(size=shapes["x"]).astype(np.float32)
    assert computes_the_same(
        model, result, {"x": x} | {n: np.zeros(s, np.int32) for n, s in shapes.items() if n != "x"}
    )


@needs_openvino
@pytest.mark.parametrize("name", slow_unless(["keras_cnn"], GOLDEN_ON_OPENVINO))
def test_golden_models_are_right_in_openvino(name: str) -> None:
    model = onnx.load(Path(__file__).parent.parent / "golden_models" / f"{name}.onnx")
    result = optimize(model, target="openvino", verify="quick")
    assert str(result.report.target) == "supported by target openvino"
    assert result.report.rejected == []
    assert computes_the_same(model, result.model, next(drawn_feeds(model_source(model, inline=False), 1)))


CONTRIB: dict[str, tuple[str, list[tuple[int, ...]], dict[str, Any]]] = {
    "Gelu": ("right", [(2, 3, 8)], {}),
    "FastGelu": ("right", [(2, 3, 8), (8,)], {}),
    "BiasGelu": ("right", [(2, 3, 8), (8,)], {}),
    "QuickGelu": ("right", [(2, 3, 8)], {"alpha": 1.702}),
    "FusedMatMul": ("right", [(2, 3, 8), (2, 5, 8)], {"transB": 1, "alpha": 0.5}),
    "FusedMatMul of batches": ("refused", [(3, 2, 8), (2, 8, 5)], {"transBatchA": 1}),
    "FusedGemm": ("right", [(3, 8), (8, 5), (5,)], {"activation": "Relu"}),
    "FusedConv": ("right", [(1, 3, 8, 8), (4, 3, 3, 3), (4,), (1, 4, 6, 6)], {"activation": "Relu"}),
    "SkipLayerNormalization": ("right", [(2, 3, 8), (2, 3, 8), (8,), (8,), (8,)], {"epsilon": 1e-5}),
    "SkipSimplifiedLayerNormalization": ("right", [(2, 3, 8), (2, 3, 8), (8,)], {"epsilon": 1e-5}),
    "Attention": ("right", [(2, 4, 16), (16, 48), (48,)], {"num_heads": 2}),
    "MultiHeadAttention": ("right", [(2, 4, 16)] * 3, {"num_heads": 2}),
    "Inverse": ("refused", [(1, 4, 4)], {}),
    "GridSample": ("refused", [(1, 2, 4, 4), (1, 3, 3, 2)], {}),
}
"""Operators of com.microsoft, whether OpenVINO computes or refuses them, shapes of their inputs, and attributes."""


@needs_openvino
@cases("name, expected, shapes, attributes", {name: (name, *row) for name, row in CONTRIB.items()})
def test_operators_of_onnxruntime_that_openvino_computes(
    name: str, expected: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any]
) -> None:
    random = np.random.default_rng(0)
    feeds = {f"x{i}": random.normal(size=shape).astype(np.float32) for i, shape in enumerate(shapes)}
    inputs = [onnx.helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n, x in feeds.items()]
    node = onnx.helper.make_node(name.partition(" ")[0], [*feeds], ["y"], domain="com.microsoft", **attributes)
    output = onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    graph = onnx.helper.make_graph([node], "g", inputs, [output])
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    if expected == "right":
        assert computes_the_same(model, model, feeds)
    else:
        with pytest.raises(EvaluationError, match=r"it has no com\.microsoft\.|Conversion is failed"):
            create_session(model.SerializeToString(), OPENVINO)


def test_openvino_is_given_no_operator_that_is_slower_there() -> None:
    target = shipped_target("openvino")
    assert target.takes("Attention", "", 23, [TensorProto.FLOAT] * 3)
    assert not target.may_add("Attention", "", 23, [TensorProto.FLOAT] * 3)
    assert not target.may_add("RotaryEmbedding", "", 23, [TensorProto.FLOAT] * 3)
    assert not target.takes("Relu", "", 22, [TensorProto.DOUBLE]), "it computes double in single precision"
    model = load("g (float[1000,4] x) => (float[1000,1] y) { a = Abs(x) y = ReduceSum<axes=[1]>(a) }", 11)
    for name, kinds in (("openvino", ["ReduceL1"]), ("ort", ["Abs", "ReduceSum"])):
        assert op_types(optimize(model, target=name, verify=False).model) == kinds
