"""The library function `optimize`."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.core import (
    EXACT,
    ChangeLog,
    Graph,
    Op,
    Pass,
    PassesError,
    Pipeline,
    RewriteBuilder,
    Rule,
    RulePass,
    Value,
    conditional,
    rule,
)
from passwright.core.errors import ModelError, PluginError, UnknownNameError, UnverifiableError, VerificationError
from rewriting import cases, load, op_types, run

import passwright
from passwright import Result, optimize

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) m = MatMul(a, w) s = Add(m, c) y = Relu(s) }"
WEIGHTS = {"w": np.eye(4, dtype=np.float32), "c": np.full(4, -1, np.float32)}
GOLDEN = Path(__file__).parent.parent / "golden_models"
X = np.arange(-4, 4, dtype=np.float32).reshape(2, 4)


@rule(lambda g, x: g.Relu(x), contract=EXACT)
def drop_relu(g: RewriteBuilder, x: Value) -> Value:
    """Relu(x) => x, which is wrong"""
    return x


@rule(lambda g, x: g.Relu(x), contract=conditional("no zero is negative"))
def relu_by_elu(g: RewriteBuilder, x: Value) -> Value:
    """Relu(x) => Elu(x, alpha=0)"""
    return g.Elu(x, alpha=0.0)


@rule(lambda g, x, elu: g.Elu(x) @ elu, contract=EXACT)
def raises(g: RewriteBuilder, x: Value, elu: Op) -> Value:
    """Elu(x) => a ZeroDivisionError"""
    return g.const(1 // 0)


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def abs_to_neg(g: RewriteBuilder, x: Value) -> Value:
    """Abs(x) => Neg(x)"""
    return g.Neg(x)


@rule(lambda g, x: g.Neg(x), contract=EXACT)
def neg_to_abs(g: RewriteBuilder, x: Value) -> Value:
    """Neg(x) => Abs(x)"""
    return g.Abs(x)


@dataclass(frozen=True)
class Renames:
    """A pass that is not a RulePass; it removes every Relu."""

    name: str = "renames"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        count = 0
        for op in graph.ops("Relu"):
            if change_log.request_change(self.name, op.outputs[0].name):
                graph.replace_value(op.outputs[0], op.inputs[0])
                graph.prune([op])
                count += 1
        return count


def model() -> onnx.ModelProto:
    return load(TEXT, weights=WEIGHTS)


def saved(folder: Path, **options: Any) -> Path:
    onnx.save(model(), folder / "m.onnx", **options)
    return folder / "m.onnx"


def test_package_exports() -> None:
    assert set(passwright.__all__) == {
        "EvaluationError", "ModelError", "PassesError", "PluginError", "TargetError", "TimeLimitError",
        "UnknownNameError", "UnverifiableError", "UsageError", "VerificationError",
        "AdviceReport", "BenchReport", "ComparisonReport", "DiffReport", "EngineBisectReport", "Explanation",
        "InfoReport", "ModelInfo", "OrtBisectReport", "ProfileReport", "QuantizationReport", "QuantizationResult",
        "ReplayReport", "Result", "TuneReport", "TuneResult", "VerificationReport", "__version__", "advise", "bench",
        "bisect_engine",
        "bisect_ort", "compare", "convert_opset", "diff", "explain", "info", "optimize", "profile", "quantize",
        "replay", "rule_from_functions", "show", "tune", "verify",
    }  # fmt: skip
    assert all(hasattr(passwright, name) for name in passwright.__all__)
    assert passwright.Result is Result
    assert optimize.__doc__
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        passwright.optimise  # noqa: B018 - looking it up is the test


def test_model_in_memory_is_not_changed() -> None:
    given = model()
    before = given.SerializeToString(deterministic=True)
    result = optimize(given)
    assert op_types(result.model) == ["Gemm", "Relu"]
    assert given.SerializeToString(deterministic=True) == before
    result.model.graph.node[0].op_type = "Changed"
    for t in result.model.graph.initializer:
        t.name = "changed"
    assert given.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("path", [*sorted(GOLDEN.glob("*loop*.onnx")), GOLDEN / "functions.onnx", GOLDEN / "crnn.onnx"],
                         ids=lambda p: p.stem)  # fmt: skip
def test_golden_models_in_memory_are_not_changed(path: Path) -> None:
    given = onnx.load(path)
    before = given.SerializeToString(deterministic=True)
    optimize(given)
    assert given.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("kind", [str, Path])
@pytest.mark.parametrize("external", [False, True], ids=["embedded", "external"])
def test_model_path_is_accepted(tmp_path: Path, kind: type[str | Path], external: bool) -> None:
    path = saved(tmp_path, save_as_external_data=external, location="w.bin", size_threshold=0)
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    result = optimize(kind(path))
    assert op_types(result.model) == ["Gemm", "Relu"]
    np.testing.assert_array_equal(run(result.model, {"x": X})[0], run(model(), {"x": X})[0])
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_memory_and_file_give_equal_models(tmp_path: Path) -> None:
    assert optimize(saved(tmp_path)).model == optimize(model()).model


def test_relative_path_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path, save_as_external_data=True, location="w.bin", size_threshold=0)
    monkeypatch.chdir(tmp_path)
    assert optimize("m.onnx", output="out.onnx").report.source == "m.onnx"
    assert op_types(onnx.load("out.onnx")) == ["Gemm", "Relu"]


def test_unloaded_external_data_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, save_as_external_data=True, location="w.bin", size_threshold=0)
    with pytest.raises(PassesError) as caught:
        optimize(onnx.load(path, load_external_data=False))
    assert str(caught.value)


def test_save(tmp_path: Path) -> None:
    result = optimize(model())
    result.save(tmp_path / "a.onnx")
    result.save(str(tmp_path / "b.onnx"))
    assert onnx.load(tmp_path / "a.onnx") == onnx.load(tmp_path / "b.onnx") == result.model


def test_save_with_external_data(tmp_path: Path) -> None:
    weights = {"w": np.ones((64, 64), np.float32), "c": np.ones(64, np.float32)}
    onnx.save(
        load(TEXT.replace("[N,4]", "[N,64]"), weights=weights),
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="w.bin",
    )
    result = optimize(tmp_path / "m.onnx")
    result.save(tmp_path / "out.onnx")
    (data,) = tmp_path.glob("out.onnx.*.data")
    assert data.stat().st_size == 64 * 64 * 4
    assert onnx.load(tmp_path / "out.onnx").graph.node == result.model.graph.node


@pytest.mark.parametrize("where", ["m.onnx", "sub", "nowhere/out.onnx"])
def test_save_to_invalid_path_is_refused(tmp_path: Path, where: str) -> None:
    path = saved(tmp_path)
    (tmp_path / "sub").mkdir()
    before = path.read_bytes()
    with pytest.raises(ModelError):
        optimize(path).save(tmp_path / where)
    assert path.read_bytes() == before
    assert not any((tmp_path / "sub").iterdir())


def test_output_is_written_only_if_verified(tmp_path: Path) -> None:
    optimize(model(), output=tmp_path / "out.onnx")
    assert op_types(onnx.load(tmp_path / "out.onnx")) == ["Gemm", "Relu"]
    with pytest.raises(VerificationError):
        optimize(model(), plugin=[drop_relu], output=tmp_path / "wrong.onnx", strict=True)
    assert [p.name for p in tmp_path.iterdir()] == ["out.onnx"]


def test_progress_reports_every_phase() -> None:
    phases: list[str] = []
    report = optimize(model(), progress=phases.append).report
    names = list(dict.fromkeys(phase.partition(": ")[0] for phase in phases))
    assert names == ["verifying" if name.startswith("comparing") else name for name in report.seconds]
    assert names[0] == "loading"
    assert "rewriting: pass drop-identity" in phases


@cases(
    "plugin",
    {
        "rule": (relu_by_elu),
        "rule pass": (RulePass("mine", (relu_by_elu,))),
        "pipeline": (Pipeline("mine", (RulePass("inner", (relu_by_elu,)),))),
    },
)
def test_plugins(plugin: Rule | Pass) -> None:
    assert op_types(optimize(model(), plugin=[plugin]).model) == ["Gemm", "Elu"]


def test_custom_pass() -> None:
    assert op_types(optimize(model(), plugin=[Renames()], verify=False).model) == ["Gemm"]
    with pytest.raises(VerificationError, match=r"y: .*first broken by renames #"):
        optimize(model(), plugin=[Renames()], strict=True)


@pytest.mark.parametrize("kind", [str, Path])
def test_plugin_file(tmp_path: Path, kind: type[str | Path]) -> None:
    path = tmp_path / "my_rules.py"
    path.write_text(
        "from passwright.core import conditional, rule\n"
        "@rule(lambda g, x: g.Relu(x), contract=conditional('no zero is negative'))\n"
        "def relu_by_elu(g, x):\n"
        '    "Relu(x) => Elu(x, alpha=0)"\n'
        "    return g.Elu(x, alpha=0.0)\n"
    )
    result = optimize(model(), plugin=[kind(path)])
    assert op_types(result.model) == ["Gemm", "Elu"]
    assert {p.name: p.changes for p in result.report.passes}["my-rules"] == 1


@cases(
    ("pipeline", "ops"),
    {
        "by name": ("none", ["Identity", "MatMul", "Add", "Relu"]),
        "a pass": (RulePass("mine", (relu_by_elu,)), ["Identity", "MatMul", "Add", "Elu"]),
        "an empty pipeline": (Pipeline("mine", ()), ["Identity", "MatMul", "Add", "Relu"]),
    },
)
def test_pipelines(pipeline: str | Pass, ops: list[str]) -> None:
    assert op_types(optimize(model(), pipeline).model) == ops


@cases(
    ("options", "ops"),
    {
        "only": ({"only": ["drop-identity"]}, ["MatMul", "Add", "Relu"]),
        "skip": ({"skip": {"drop_identity"}}, ["Identity", "Gemm", "Relu"]),
        "enable": ({"pipeline": "none", "enable": ("fuse-gemm",)}, ["Identity", "Gemm", "Relu"]),
        "exact": ({"exact": True}, ["MatMul", "Add", "Relu"]),
    },
)
def test_pass_selection(options: dict[str, Any], ops: list[str]) -> None:
    assert op_types(optimize(model(), **options).model) == ops


def test_inputs_as_mapping() -> None:
    given = {"x": X}
    (input_set,) = optimize(model(), inputs=given).report.verification.input_sets
    assert input_set == "given inputs"
    assert list(given) == ["x"]
    assert given["x"] is X


def test_inputs_as_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=X)
    for inputs in (tmp_path / "in.npz", str(tmp_path / "in.npz")):
        assert len(optimize(model(), inputs=inputs).report.verification.input_sets) == 1


def test_inputs_as_lists() -> None:
    assert optimize(model(), inputs={"x": [[1.0, 2.0, 3.0, 4.0]]}).report.verification is not None


@pytest.mark.parametrize("x", [1.0, None, "x"], ids=["number", "None", "text"])
def test_non_array_inputs_are_refused(x: Any) -> None:
    with pytest.raises(ModelError, match="given inputs"):
        optimize(model(), inputs={"x": x})


def test_report_is_written_on_request(tmp_path: Path) -> None:
    result = optimize(model(), json=tmp_path / "r.json")
    assert (tmp_path / "r.json").read_text() == result.report.to_json() + "\n"


def shapes_of(model: onnx.ModelProto) -> dict[str, list[int | str]]:
    ends = [*model.graph.input, *model.graph.output]
    return {i.name: [d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in ends}


@cases(
    "options",
    {
        "shapes": ({"shape": {"x": [7, 4]}}),
        "dims": ({"dim": {"N": 7}}),
        "both": ({"shape": {"x": (7, 4)}, "dim": {"N": 7}}),
    },
)
def test_fixed_sizes(options: dict[str, Any], tmp_path: Path) -> None:
    given = model()
    result = optimize(given, **options, output=tmp_path / "out.onnx")
    assert shapes_of(result.model) == shapes_of(onnx.load(tmp_path / "out.onnx")) == {"x": [7, 4], "y": [7, 4]}
    assert shapes_of(given) == {"x": ["N", 4], "y": ["N", 4]}
    assert result.report.verification is not None
    assert result.report.verification.input_sets[0] == "normal inputs"
    assert not any(" with " in d for d in result.report.verification.input_sets)  # no symbol is open
    x = np.linspace(-2, 2, 28, dtype=np.float32).reshape(7, 4)
    np.testing.assert_array_equal(run(result.model, {"x": x})[0], run(given, {"x": x})[0])


def test_shape_for_input_of_unknown_rank() -> None:
    given = load("g (float[N,4] x) => (float[N,M] y) { s = Sin(x) y = Cos(s) }")
    given.graph.input[0].type.tensor_type.ClearField("shape")
    assert shapes_of(optimize(given, shape={"x": [7, 4]}).model)["x"] == [7, 4]


@pytest.mark.parametrize(("columns", "ops"), [(2, ["Identity"]), (4, ["Reshape"])])
def test_values_decided_by_sizes_are_folded(columns: int, ops: list[str]) -> None:
    given = load("g (float[N,M] x) => (float[K,2] y) <int64[2] s = {-1,2}> { y = Reshape(x, s) }")
    assert op_types(optimize(given, dim={"M": columns}).model) == ops


def test_keep_functions() -> None:
    given = onnx.load(GOLDEN / "functions.onnx")
    kept = optimize(given, keep_functions=True).model
    assert list(kept.functions) == list(given.functions)
    flat = optimize(given).model
    assert not flat.functions
    assert len(flat.graph.node) > 0


def test_seed_determines_input_sets() -> None:
    rounds = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 17]> g (float[2,3] x) => (float[2,3] y) '
        "<float a = {3.3}, float b = {0.7}> { t = Mul(x, a) y = Mul(t, b) }"
    )

    def error(seed: int) -> float:
        verdict = optimize(rounds, seed=seed).report.verification
        assert verdict is not None
        return verdict.differences["y"].error

    assert error(3) == error(3) != error(6)


@cases(
    ("options", "error", "message"),
    {
        "pipeline": ({"pipeline": "turbo"}, UnknownNameError, "no pass or pipeline is named turbo"),
        "only": ({"only": ["turbo"]}, UnknownNameError, "turbo"),
        "enable": ({"enable": ["turbo"]}, UnknownNameError, "turbo"),
        "no plugin file": ({"plugin": ["nowhere.py"]}, PluginError, "nowhere.py"),
        "name taken": (
            {"plugin": [RulePass("fuse-gemm", (drop_relu,))]},
            PluginError,
            "two passes are named fuse-gemm: one from passwright 0.1.0, one from the caller",
        ),
        "no inputs": ({"inputs": {}}, ModelError, "lack x"),
        "type": ({"inputs": {"x": X.astype(int)}}, ModelError, "x of the given inputs is int64"),
        "no inputs file": ({"inputs": "nowhere.npz"}, ModelError, "nowhere.npz does not exist"),
        "shape": ({"shape": {"x": [1]}}, ModelError, "x: 1 dims given"),
        "negative size": ({"shape": {"x": [1, -4]}}, ModelError, "x: -4 is not a size"),
        "symbol": ({"dim": {"M": 1}}, ModelError, r"M: the model has no such symbol \(it has N\)"),
        "conflict": ({"dim": {"N": 2}, "shape": {"x": [1, 4]}}, ModelError, "N cannot be both 2 and 1"),
        "wrong rule": (
            {"plugin": [drop_relu], "strict": True},
            VerificationError,
            r"y: .* on .* inputs with N=\d; first broken by drop-relu/drop_relu #\d at y",
        ),
        "bug": (
            {"plugin": [relu_by_elu, raises], "strict": True},
            VerificationError,
            "rule raises failed at Elu .*: ZeroDivisionError: .*; first broken by raises #3 at y",
        ),
    },
)
def test_errors(options: dict[str, Any], error: type[PassesError], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        optimize(model(), **options)
    assert isinstance(caught.value, PassesError)
    assert "\n" not in str(caught.value)


def test_mutually_undoing_rules_are_rejected() -> None:
    given = load("g (float[2] x) => (float[2] y) { y = Abs(x) }")
    (found,) = optimize(given, plugin=[RulePass("chase", (abs_to_neg, neg_to_abs))], verify=False).report.rejected
    assert (found.pass_name, found.place, found.failure_kind) == ("chase", "", "endless")
    assert re.search(r"abs_to_neg \d+ times, neg_to_abs \d+ times", found.message)


NO_CHANNELS = "g (float[2,0,4,4] x, float[2,0,2,2] w) => (float[A,B,C,D] y) { y = Conv(x, w) }"


@cases(
    ("given", "error"),
    {
        "empty message": (onnx.ModelProto(), ModelError),
        "no file": ("nowhere.onnx", ModelError),
        "no such operator": (load("g (float[2] x) => (float[2] y) { y = Nothing(x) }"), UnverifiableError),
        "empty sum with varying result": (load(NO_CHANNELS), UnverifiableError),
    },
)
def test_invalid_models_are_refused(given: Any, error: type[PassesError]) -> None:
    with pytest.raises(error):
        optimize(given)
