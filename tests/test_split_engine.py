"""The engine of two: what runs where, the values of both, refusals, and the commands that take it."""

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from msgspec import structs
from onnx import parser
from passwright.app.measure import benchmark
from passwright.app.measure.tuned_settings import DEFAULT_SESSION, Configuration, SessionSettings
from passwright.app.tune.session_script import session_script
from passwright.app.verify.document import describe
from passwright.core import EngineSettings, find_engine
from passwright.core.errors import EvaluationError
from passwright.core.ort.engines import SPLIT
from rewriting import each
from simulated_races import SimulatedMachine
from tiers import needs_openvino

import passwright

pytestmark = needs_openvino
X = {"x": np.float32([[1, -2], [3, 1], [0, 0]])}
TEXTS = {"s": np.array(["a", "b", "a"], object)}
LABELS = 'ai.onnx.ml.LabelEncoder<keys_int64s=[0,1], values_strings=["a","b"]>'
LOOKUP = 'ai.onnx.ml.LabelEncoder<keys_strings=["a","b"], values_int64s=[0,1]>'
SCALER = "ai.onnx.ml.Scaler<scale=[2.0], offset=[1.0]>"
W = "<float[2,2] w = {1,2,3,4}>"
TAIL = f"""g (float[N,2] x) => (float[N,2] p, string[N] z) {W}
    {{ y = MatMul(x, w) p = Softmax(y) i = ArgMax<axis=1, keepdims=0>(p) z = {LABELS}(i) }}"""
NETWORK = f"g (float[N,2] x) => (float[N,2] p) {W} {{ y = MatMul(x, w) p = Softmax(y) }}"


def read(text: str) -> onnx.ModelProto:
    opsets = '["": 17, "ai.onnx.ml": 3]'
    return parser.parse_model(f"<ir_version: 8, opset_import: {opsets}> {text}")


def loaded(text: str, precision: str = "f32") -> Any:
    return find_engine(SPLIT).load(read(text).SerializeToString(), EngineSettings(precision, threads=1))


def where(ours: int, others: str) -> str:
    return f"f32: {ours} op{'s' * (ours != 1)}; onnxruntime {ort.__version__}: {others}"


DIVIDED: dict[str, tuple[str, dict[str, Any], str, list[list[str]]]] = {
    "a classifier's labels": (TAIL, X, where(3, "1 op of ai.onnx.ml"), [["p", "i"], ["z"]]),
    "texts in front, weights that are computed, and an input that is not read": (
        f"""g (string[N] s, int64 u) => (float[N,2] y) <uint8[2,2] q = {{1,2,3,4}}>
        {{ i = {LOOKUP}(s) d = Cast<to=1>(q) w = Neg(d) e = Gather(w, i) y = MatMul(e, w) }}""",
        TEXTS | {"u": np.array(1)}, where(2, "1 op of ai.onnx.ml"), [["i"], ["y"]],
    ),
    "an output of each, and one that is an initializer": (
        f"""g (float[N,2] x, string[N] s) => (float[N,2] y, int64[N] i, float[2,2] w) {W}
        {{ y = MatMul(x, w) i = {LOOKUP}(s) }}""",
        X | TEXTS, where(1, "1 op of ai.onnx.ml"), [["y"], ["i"]],
    ),
    "in the middle, of a rank that is not inferred": (
        f"""g (float[N,2] x) => (float[N,2] z) {W}
        {{ y = MatMul(x, w) r = Relu(x) u = {SCALER}(y) a = Add(u, r) z = MatMul(a, w) }}""",
        X, where(4, "1 op of ai.onnx.ml"), [["y", "r"], ["u"], ["z"]],
    ),
    "in a body": (
        f"""g (bool b, float[N,2] x) => (float[N,2] z) {W}
        {{ y = If(b) <then_branch = t () => (float[N,2] c) {{ c = {SCALER}(x) }},
        else_branch = e () => (float[N,2] d) {{ d = Identity(x) }}> z = MatMul(y, w) }}""",
        X | {"b": np.array(True)}, where(1, "1 op of ai.onnx"), [["y"], ["z"]],
    ),
    "sequences": (
        f"""g (float[N,2] x) => (float[N,2] z) {W} {{ y = MatMul(x, w) u = SequenceConstruct(y, x)
        k = Constant<value_int=0>() v = SequenceAt(u, k) z = MatMul(v, w) }}""",
        X, where(2, "2 ops of ai.onnx"), [["y"], ["v"], ["z"]],
    ),
    "maps": (
        f"""g (float[N,2] x) => (seq(map(int64,float)) z) {W}
        {{ y = MatMul(x, w) z = ai.onnx.ml.ZipMap<classlabels_int64s=[0,1]>(y) }}""",
        X, where(1, "1 op of ai.onnx.ml"), [["y"], ["z"]],
    ),
    "small regions stay with the rest": (
        f"g (float[N,2] x) => (float[N,2] z) {W} {{ y = MatMul(x, w) u = {SCALER}(y) a = Relu(u) z = Neg(a) }}",
        X, where(1, "3 ops of ai.onnx, ai.onnx.ml"), [["y"], ["z"]],
    ),
}  # fmt: skip


@each(("text", "feeds", "ran", "exchanged"), DIVIDED)
def test_parts_give_what_the_model_gives(
    text: str, feeds: dict[str, Any], ran: str, exchanged: list[list[str]]
) -> None:
    session, reference = loaded(text), ort.InferenceSession(read(text).SerializeToString())
    more = {name: np.concatenate([v, v]) if v.ndim else v for name, v in feeds.items()}
    for given in (feeds, more, feeds):
        for got, want in zip(session.run(None, given), reference.run(None, given), strict=True):
            is_float = isinstance(want, np.ndarray) and want.dtype == np.float32
            assert np.allclose(got, want, rtol=1e-6) if is_float else np.array_equal(got, want)
            assert isinstance(want, list) or got.dtype == want.dtype
        session.bind(given)()
    assert session.precision == ran
    assert [sorted(part.makes) for part in session._parts] == [sorted(made) for made in exchanged]
    assert [v.name for v in session.inputs] == [v.name for v in reference.get_inputs()]
    assert [v.type for v in session.outputs] == [v.type for v in reference.get_outputs()]


def test_threads_may_call_a_session_side_by_side() -> None:
    session, inputs = loaded(TAIL), np.random.default_rng(0).standard_normal((200, 3, 2), np.float32)
    calls = [session.bind({"x": x}) for x in inputs]
    want = [call() for call in calls]
    with ThreadPoolExecutor(4) as pool:
        got = [*pool.map(lambda call: call(), calls)]
    for a, b in zip(got, want, strict=True):
        assert all(np.array_equal(found, single) for found, single in zip(a, b, strict=True))


def test_random_values_are_of_one_draw() -> None:
    text = f"""g (float[2,2] x) => (float[2,2] z, float[2,2] r) {W}
        {{ r = RandomUniformLike(w) y = MatMul(x, r) z = {SCALER}(y) }}"""
    x = X["x"][:2]
    z, r = loaded(text).run(None, {"x": x})
    np.testing.assert_allclose(z, 2 * (x @ r - 1), rtol=1e-5)


def test_regions_are_few() -> None:
    steps = "".join(f"a{n} = MatMul(b{n}, w) b{n + 1} = {SCALER}(a{n}) " for n in range(9))
    session = loaded(f"g (float[N,2] b0) => (float[N,2] b9) {W} {{ {steps} }}")
    assert sum(not part.is_other for part in session._parts) == 4
    (want,) = ort.InferenceSession(
        read(f"g (float[N,2] b0) => (float[N,2] b9) {W} {{ {steps} }}").SerializeToString()
    ).run(None, {"b0": X["x"]})
    np.testing.assert_allclose(session.run(None, {"b0": X["x"]})[0], want, rtol=1e-5)


def test_models_of_one_part() -> None:
    session = loaded(NETWORK)
    assert (type(session).__name__, session.precision) == ("OpenvinoSession", "f32")
    with pytest.raises(EvaluationError, match=r"^OpenVINO supports no part with a product or convolution; use onnxr"):
        loaded(f"g (float[N,2] x) => (float[N,2] z) {{ y = Relu(x) z = {SCALER}(y) }}")
    text = f"g (float[N,2] x, float[2,2] w) => (float[N,2] z) {W} {{ y = MatMul(x, w) z = {SCALER}(y) }}"
    with pytest.raises(EvaluationError, match="it treats w as a constant, so its default cannot be overridden"):
        loaded(text).run(None, X | {"w": X["x"][:2]})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(read(TAIL), path, save_as_external_data=True, size_threshold=0, location="m.data")
    return path


def test_commands_say_what_runs_where(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "BenchmarkConfig", partial(benchmark.BenchmarkConfig, process_sets=1))
    report = passwright.verify(model, engine=SPLIT, effort="quick")
    ran = where(3, "1 op of ai.onnx.ml")
    assert (report.agrees, report.precision) == (True, ran)
    version = find_engine(SPLIT).version()
    assert f"{SPLIT} {version} ({ran})" in describe(report).verdict
    engines = ["onnxruntime", SPLIT]
    measured = passwright.bench([model], engine=engines, batch=(1,), min_time=0.01, threads=1)
    assert [(m.engine, m.measured.failure) for m in measured.models] == [(name, "") for name in engines]
    assert (measured.models[1].measured.precision, measured.models[1].measured.threads) == (ran, 1)
    profile = passwright.profile(model, engine=SPLIT, no_optimize=True, min_time=0.01, threads=1)
    assert profile.before.precision == ran
    kernels = {node.provider for node in profile.before.nodes}
    assert "onnxruntime" in kernels
    assert len(kernels) > 1


@pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
@each(
    ("text", "budget", "taken"),
    {"divided": (TAIL, None, SPLIT), "lossy": (TAIL, "5%", f"{SPLIT}:bf16"), "whole": (NETWORK, None, "onnxruntime")},
)
def test_tune_takes_it_where_ops_are_missing(
    text: str, budget: str | None, taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {SPLIT: 0.5, "onnxruntime": 1.0, f"{SPLIT}:bf16": 0.3}
    machine = SimulatedMachine(lambda t: times.get(t.config.engine_name, "it has no LabelEncoder"))
    machine.replace_real_one(monkeypatch)
    onnx.save(read(text), tmp_path / "m.onnx")
    output = tmp_path / "t.onnx"
    lossy = {"budget": budget, "scheme": "half-weights"} if budget else {}
    result = passwright.tune(
        tmp_path / "m.onnx", output=output, pipeline=["none"], ep=[], threads=1, min_time=0.01, verify="quick",
        trials=20, **lossy,
    )  # fmt: skip
    report = result.report
    assert report.configuration.session.engine_name == taken
    tried: Iterable[str] = (trial.choice for trial in report.trials)
    assert any(SPLIT in choice for choice in tried) == (taken != "onnxruntime")
    settings = json.loads((tmp_path / "t_settings.json").read_text())
    assert settings["session"].get("engine", "onnxruntime") == taken.partition(":")[0]
    made: dict[str, Any] = {"__file__": str(tmp_path / "t_session.py")}
    exec(compile((tmp_path / "t_session.py").read_text(), "t_session.py", "exec"), made)
    for got, want in zip(made["session"].run(None, X), ort.InferenceSession(output).run(None, X), strict=True):
        assert got.dtype == want.dtype
        assert np.allclose(got, want, rtol=0.02) if want.dtype == np.float32 else np.array_equal(got, want)


def test_settings_and_scripts_name_it(model: Path) -> None:
    config = structs.replace(DEFAULT_SESSION, engine=SPLIT, precision="bf16", intra_op_threads=1)
    assert SessionSettings.of(config).config() == config
    made: dict[str, Any] = {"__file__": str(model)}
    exec(compile(session_script(Configuration(session=config), model.name, "a test"), "s.py", "exec"), made)
    assert made["session"].run(["z"], X)[0].tolist() == ["a", "b", "a"]
