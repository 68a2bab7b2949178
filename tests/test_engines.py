"""Engines: how they are named, found and loaded; values, refusals and silence of OpenVINO; a wrong engine."""

import json
import subprocess
import sys
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock, patch

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from commands import invoke
from msgspec import structs
from passwright.app.cli.entry import app
from passwright.app.compare.document import engine_table
from passwright.app.listing.document import describe_all
from passwright.app.listing.listing import EngineInfo, listing
from passwright.app.measure import benchmark
from passwright.app.report.document import Facts
from passwright.app.verify.document import describe
from passwright.core import Engine, EngineSession, EngineSettings, find_engine
from passwright.core.errors import EvaluationError, ModelLoadError, PluginError, UsageError
from passwright.core.io.files import split_model
from passwright.core.ort import engines, session_source, sessions
from passwright.core.ort.backends import LoadedModel
from passwright.core.ort.engines import EngineChoice, parse_engine
from passwright.core.ort.sessions import SessionConfig, library_devices
from rewriting import cases, each, load
from simulated_races import SimulatedMachine
from test_cli import UNVERIFIED, WRONG
from tiers import needs_openvino
from typer.testing import CliRunner

import passwright

PLANTED = Path(__file__).with_name("planted_engine.py")
OPENVINO = SessionConfig(engine="openvino", intra_op_threads=1)
BUILT_IN = ("onnxruntime", "openvino", "openvino+onnxruntime", "web", "webgpu")
F = np.float32([-1, 2])
RELU = "g (float[2] x) => (float[2] y) { y = Relu(x) }"


@each(
    ("text", "expected"),
    {
        "name": ("onnxruntime", EngineChoice()),
        "case": ("ONNXRuntime", EngineChoice()),
        "precision": ("onnxruntime:f32", EngineChoice()),
        "options": ("onnxruntime{a=b, c = d}", EngineChoice(options=(("a", "b"), ("c", "d")))),
        "file": (f"{PLANTED}:bf16", EngineChoice(str(PLANTED), "bf16")),
    },
)
def test_texts_name_engines(text: str, expected: EngineChoice) -> None:
    assert parse_engine(text) == expected


@each(
    ("text", "error"),
    {
        "unknown": ("onnxruntim", "there is no engine onnxruntim; choose from onnxruntime, openvino"),
        "near": ("onnxruntim", "did you mean onnxruntime or openvino+onnxruntime?"),
        "precision": ("onnxruntime:bf16", "engine onnxruntime has no precision bf16; it has f32"),
        "no precision": ("onnxruntime:", "not of the form name, name:precision"),
        "no option": ("onnxruntime{a}", "not of the form"),
        "empty": ("", "not of the form"),
    },
)
def test_texts_that_name_no_engine(text: str, error: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_engine(text)
    assert error in str(raised.value)


def test_engines_of_packages_are_found_by_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("mine", "planted_engine:ENGINE", engines.ENGINE_GROUP)
    monkeypatch.setattr(engines, "entry_points", lambda **_: [point])
    assert engines.engine_names() == [*BUILT_IN, "mine"]
    assert engines._find_engine.__wrapped__("mine").name == "planted"
    broken = EntryPoint("mine", "planted_engine:LIMIT", engines.ENGINE_GROUP)
    monkeypatch.setattr(engines, "entry_points", lambda **_: [broken])
    with pytest.raises(PluginError, match="planted_engine:LIMIT"):
        engines._find_engine.__wrapped__("mine")


def test_engines_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {"mine": "planted_engine:ENGINE", "bad": "planted_engine:LIMIT", "lacking": "lacking_engine:ENGINE"}
    monkeypatch.setattr(
        engines, "entry_points", lambda **_: [EntryPoint(n, v, engines.ENGINE_GROUP) for n, v in points.items()]
    )
    version = Mock(side_effect=ImportError("no"))
    lacking = Engine("lacking", lambda *_: pytest.fail("not installed"), version, ("f32", "f16"), install="get it")
    monkeypatch.setitem(sys.modules, "lacking_engine", SimpleNamespace(ENGINE=lacking))
    try:
        found = listing()
    finally:
        engines._find_engine.cache_clear()
    listed = {e.name: e for e in found.engines}
    assert list(listed) == [*BUILT_IN, "lacking", "mine"]
    assert listed["onnxruntime"].version == onnxruntime.__version__
    assert listed["openvino"].precisions == ("f32", "bf16", "f16", "int8")
    assert listed["openvino+onnxruntime"].precisions == ("f32", "bf16", "f16")
    assert listed["mine"] == EngineInfo("mine", points["mine"], "1.0", "", ("f32", "bf16", "crash"))
    assert listed["lacking"] == EngineInfo("lacking", points["lacking"], "", "get it", ("f32", "f16"))
    assert "planted_engine:LIMIT" in found.broken["bad"]
    (shown,) = [block for block in describe_all(found).blocks if isinstance(block, Facts) and block.title == "engines"]
    assert shown.items["lacking (lacking_engine:ENGINE):"] == "not installed: get it; f32, f16"


def test_missing_packages_are_named() -> None:
    def version() -> str:
        raise ImportError("No package metadata was found for it")

    engine = Engine("it", lambda *_: pytest.fail("not installed"), version, install="pip install 'passwright[it]'")
    with pytest.raises(UsageError, match=r"engine it is not installed here: pip install 'passwright\[it\]'"):
        engine.installed_version()


VALUES: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "one name of two": (
        "g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Dropout(y) }", {"x": F}, [[0, 2], [0, 2]],
    ),
    "an output that is an input": ("g (float[2] x) => (float[2] x, float[2] y) { y = Neg(x) }", {"x": F}, [F, -F]),
    "an output that is a constant": (
        "g (float[2] x) => (float[2] w, float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }", {"x": F},
        [[1, 2], [0, 4]],
    ),
    "an input that is not read": (
        "g (float[2] x, float[2] u) => (float[2] y) { y = Relu(x) }", {"x": F, "u": F}, [[0, 2]],
    ),
    "no element": ("g (float[N] x) => (float[N] y) { y = Relu(x) }", {"x": F[:0]}, [F[:0]]),
    "bfloat16": (
        "g (bfloat16[2] x) => (bfloat16[2] y) { y = Relu(x) }", {"x": F.astype(ml_dtypes.bfloat16)},
        [np.array([0, 2], ml_dtypes.bfloat16)],
    ),
    "int4": (
        "g (int4[3] x) => (int4[3] y) { y = Identity(x) }", {"x": np.array([1, -2, 3], ml_dtypes.int4)},
        [np.array([1, -2, 3], ml_dtypes.int4)],
    ),
    "float8": (
        "g (float8e4m3fn[2] x) => (float[2] y) { y = Cast<to=1>(x) }", {"x": F.astype(ml_dtypes.float8_e4m3fn)}, [F],
    ),
    "bool": ("g (bool[2] x) => (bool[2] y) { y = Not(x) }", {"x": F > 0}, [F < 0]),
    "a scalar": ("g (float x) => (float y) { y = Relu(x) }", {"x": np.float32(3)}, [np.float32(3)]),
}  # fmt: skip


@needs_openvino
@each(("text", "feeds", "expected"), VALUES)
def test_openvino_exchanges_values(text: str, feeds: dict[str, Any], expected: list[Any]) -> None:
    model = LoadedModel(load(text, 21).SerializeToString(), OPENVINO)
    names = [o.name for o in load(text, 21).graph.output]
    first = model.run(names, feeds)
    others = model.run(names, {name: np.zeros_like(array) for name, array in feeds.items()})
    for got, want in zip(first, expected, strict=True):  # not overwritten by the second run
        np.testing.assert_array_equal(got, want)
        assert got.dtype == np.asarray(want, None if isinstance(want, np.ndarray) else np.float32).dtype
    assert [o.shape for o in others] == [o.shape for o in first]


FUNCTION = """g (float[2,2] x) => (float[2,2] y) { y = own.F(x) }
    <domain: "own", opset_import: ["": 20]> F (a) => (b) { b = Neg(a) }"""
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "texts": ("g (string[2] x) => (string[2] y) { y = Identity(x) }", {}, "it cannot exchange strings, such as x"),
    "a sequence": (
        "g (seq(float[2]) x, int64 i) => (float[2] y) { y = SequenceAt(x, i) }", {},
        "cannot exchange a sequence with Python",
    ),
    "an operator": ("g (float[2,2] x) => (float z) { y = Relu(x) z = Det(y) }", {}, "it has no Det, at z"),
    "an operator in a body": (
        """g (float[2,2] x, bool b) => (float z) { z = If(b) <then_branch = t () => (float p) { p = Det(x) },
        else_branch = e () => (float q) { q = ReduceSum<keepdims=0>(x) }> }""", {}, "it has no Det, at p",
    ),
    "a function": (FUNCTION, {}, "it has no own.F, at y; `passes run --pipeline none` inlines functions"),
    "a named operator": ("g (float[2,2] x) => (float z) { [named] z = Det(x) }", {}, "it has no Det, at z"),
    "an initializer": (
        "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }", {"x": F, "w": F},
        "openvino cannot run it: it treats w as a constant, so its default cannot be overridden",
    ),
    "a type": (RELU, {"x": F.astype(np.float64)}, "x has elements of float64 instead of float32"),
    "a shape": (RELU, {"x": np.zeros(3, np.float32)}, "the model input (shape=[2]) and the tensor (shape=(3))"),
}  # fmt: skip


@needs_openvino
@each(("text", "feeds", "error"), REFUSED)
def test_openvino_refuses_in_one_line(text: str, feeds: dict[str, Any], error: str) -> None:
    with pytest.raises((ModelLoadError, EvaluationError)) as raised:
        LoadedModel(load(text, 20).SerializeToString(), OPENVINO).run(["y"], feeds)
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)


@needs_openvino
def test_openvino_does_not_say_where_a_compilation_fails_but_it_is_found() -> None:
    model = PLANTED.parent.parent / "golden_models" / "script_scan.onnx"
    with pytest.raises(ModelLoadError, match=r"Memory has not been allocated, first at TensorIterator states$"):
        LoadedModel(model.read_bytes(), OPENVINO)


@needs_openvino
def test_precisions_of_openvino() -> None:
    """The default of OpenVINO is bf16 where the processor has it, f32 here; a request for f16 says what it became."""
    text = "g (float[2,3] x, float[3,2] w) => (float[2,2] y) { y = MatMul(x, w) }"
    model, feeds = load(text, 20).SerializeToString(), {"x": np.full((2, 3), 1.001), "w": np.full((3, 2), 1.001)}
    feeds = {name: array.astype(np.float32) for name, array in feeds.items()}
    exact = LoadedModel(model, OPENVINO)
    assert exact.session.precision == "f32"
    np.testing.assert_allclose(exact.run(["y"], feeds)[0], 3 * 1.001**2, rtol=1e-6)
    for precision in ("bf16", "f16"):
        lossy = LoadedModel(model, SessionConfig(engine="openvino", precision=precision))
        error = np.abs(lossy.run(["y"], feeds)[0] - 3 * 1.001**2).max()
        assert (lossy.session.precision != "f32") == (error > 1e-4)


@needs_openvino
def test_int8_is_for_quantized_weights() -> None:
    """In int8 OpenVINO rounds what is multiplied by weights of 8 bits, and in f32 nothing."""
    inputs = "(float[16,256] x) => (float[16,256] y)"
    constants = "float[256] s, int8[256] z, int8[256,256] w"
    text = f"g {inputs} <{constants}> {{ f = DequantizeLinear<axis=1>(w, s, z) y = MatMul(x, f) }}"
    random = np.random.default_rng(0)
    weights = {"s": np.full(256, 0.01, np.float32), "z": np.zeros(256, np.int8)}
    weights["w"] = random.integers(-127, 128, (256, 256)).astype(np.int8)
    whole, plain = load(text, 20), load(f"g {inputs} <float[256,256] w> {{ y = MatMul(x, w) }}", 20)
    for model, arrays in ((whole, weights), (plain, {"w": weights["w"] * np.float32(0.01)})):
        del model.graph.initializer[:]
        model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    x = random.normal(size=(16, 256)).astype(np.float32)
    true = x @ (weights["w"] * np.float32(0.01))
    errors: dict[str, float] = {}
    for precision in ("f32", "int8"):
        found = LoadedModel(whole.SerializeToString(), SessionConfig(engine="openvino", precision=precision))
        assert found.session.precision == precision
        errors[precision] = np.abs(found.run(["y"], {"x": x})[0] - true).max() / np.abs(true).max()
    assert errors["f32"] < 1e-4 < errors["int8"] < 0.02
    usual = LoadedModel(plain.SerializeToString(), SessionConfig(engine="openvino", precision="int8"))
    assert usual.session.precision in {"bf16", "f32"}


@needs_openvino
def test_large_models_are_loaded_from_files(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = onnx.numpy_helper.from_array(np.arange(4096, dtype=np.float32), "w")
    model = load("g (float[4096] x) => (float[4096] y) { y = Add(x, w) }", 20)
    model.graph.initializer.append(weight)
    monkeypatch.setattr(session_source, "MAX_WHOLE_BYTES", 1)
    x = np.ones(4096, np.float32)
    found = LoadedModel(split_model(model.SerializeToString()), OPENVINO).run(["y"], {"x": x})[0]
    np.testing.assert_array_equal(found, np.arange(4096, dtype=np.float32) + 1)


QUIET = """
import sys
def audit(event, arguments):
    if event.startswith("socket.") or event in {"subprocess.Popen", "os.mkdir", "os.fork"}:
        print("told", event, arguments, file=sys.stderr)
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wxa+"):
        print("wrote", arguments[0], file=sys.stderr)
sys.addaudithook(audit)
from passwright.core import EngineSettings, find_engine
engine = find_engine("openvino")
assert "openvino" not in sys.modules
engine.load(open(sys.argv[1], "rb").read(), EngineSettings(threads=1))
assert not any(name.startswith("openvino_telemetry.") for name in sys.modules)
"""


@needs_openvino
def test_openvino_is_silent(tmp_path: Path) -> None:
    """Importing it without more would send an event, and write to ~/intel."""
    (tmp_path / "m.onnx").write_bytes(load(RELU, 20).SerializeToString())
    home = tmp_path / "home"
    home.mkdir()
    command = [sys.executable, "-B", "-c", QUIET, str(tmp_path / "m.onnx")]
    environment = {"HOME": str(home), "PATH": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    assert (done.stdout, done.stderr, [*home.iterdir()]) == ("", "", [])


TEXT = """g (float[N,4] x) => (float[N,4] y) {
    a = Sin(x) b = Mul(x, a) c = Mul(b, x) r = Relu(c) q = Mul(r, r) y = Sub(q, a) }"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(load(TEXT, 20), path)
    return path


def test_wrong_engines_are_caught_with_the_op(model: Path) -> None:
    report = passwright.verify(model, engine=str(PLANTED), effort="quick")
    assert (report.agrees, report.wrong_op) == (False, "Relu r")
    assert describe(report).verdict.startswith(f"{model} in planted_engine.py 1.0 (f32) is wrong: y: off by up to")
    assert json.loads(report.to_json())["engine"] == "planted_engine.py"
    with pytest.raises(UsageError, match="give a second model, or an engine"):
        passwright.verify(model)


def test_engines_may_be_right_on_finite_inputs_alone(tmp_path: Path) -> None:
    path, limited = tmp_path / "m.onnx", str(PLANTED.with_name("limited_engine.py"))
    onnx.save(load("g (float[N,4] x) => (float[N,4] y) { a = Neg(x) y = Mul(a, x) }", 20), path)
    report = passwright.verify(path, engine=limited, effort="quick")
    assert report.agrees
    assert report.verdict is not None
    assert sorted(report.verdict.limits) == ["no input is NaN or infinite", "no size is 0"]
    assert describe(report).verdict.startswith(f"verified where {' and '.join(report.verdict.limits)}: no difference")
    assert any("differs on normal inputs with N=0" in note and "nothing is" in note for note in report.verdict.notes)
    given = np.full((1, 4), np.nan, np.float32)
    report = passwright.verify(path, engine=limited, effort="quick", inputs={"x": given})
    assert describe(report).verdict.startswith(f"{path} in limited_engine.py (f32) is wrong: y: 4 of 4 elements")
    row = passwright.compare(path, tools=(), engine=[limited], batch=(1,), min_time=0.01, threads=1).engines[0]
    assert (row.verdict.partition(" where no ")[0], row.is_wrong) == ("no difference seen", False)


def test_models_that_an_engine_does_not_load_are_not_wrong(model: Path) -> None:
    limited = PLANTED.with_name("limited_engine.py")
    found = invoke("verify", model, "--engine", limited, "--effort", "quick", code=UNVERIFIED)
    assert "does not run: limited_engine.py cannot load it: it has no Sin" in " ".join(found.stdout.split())


def test_wrong_ops_of_engines_are_listed(model: Path) -> None:
    report = passwright.bisect_engine(model, str(PLANTED), verify="quick")
    assert [(op.op_type, op.place) for op in report.wrong_ops] == [("Relu", "r")]
    assert report.failure


def test_ops_that_crash_an_engine_are_listed(model: Path) -> None:
    report = passwright.bisect_engine(model, f"{PLANTED}:crash", verify="quick")
    assert report.failure == "it does not load: planted_engine.py:crash crashed (SIGABRT) as it loads it"
    assert [(op.op_type, op.place, op.failure) for op in report.wrong_ops] == [
        ("Relu", "r", "planted_engine.py:crash crashed (SIGABRT)")
    ]


def test_ops_that_are_wrong_together_are_listed(model: Path) -> None:
    report = passwright.bisect_engine(model, f"{PLANTED}:bf16", verify="quick")
    assert (report.wrong_ops, report.together) == ([], ["Mul c", "Relu r"])


@pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
def test_comparisons_have_rows_for_engines(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SimulatedMachine(lambda _: 1e-3).replace_real_one(monkeypatch)
    engines = ["onnxruntime", str(PLANTED), f"{PLANTED}:bf16"]
    report = passwright.compare(model, tools=(), engine=engines, batch=(1,), min_time=0.01, threads=1)
    assert [(row.made_by, row.engine) for row in report.engines] == [
        (made_by, f"planted_engine.py{precision}")
        for made_by in ("original", "passwright")
        for precision in ("", ":bf16")
    ]
    assert [row.is_wrong for row in report.engines] == [True] * 4
    assert report.engines[0].verdict.startswith("wrong: y: off by up to")
    assert report.engines[1].verdict.startswith("over the budget of 1%: SNR")
    assert all(row.measured is not None and row.ratios for row in report.engines)
    cells = engine_table(report).rows[0].cells
    assert [str(cell) for cell in cells[:2]] == ["original", "planted_engine.py 1.0 (f32)"]


@needs_openvino
def test_profiles_of_openvino_name_the_nodes_of_the_file(tmp_path: Path) -> None:
    text = "g (float[1,3,8,8] x) => (float[1,4,8,8] y) { [conv] c = Conv<pads=[1,1,1,1]>(x, w) [relu] y = Relu(c) }"
    path = tmp_path / "m.onnx"
    onnx.save(load(text, 20, weights={"w": np.ones((4, 3, 3, 3), np.float32)}), path)
    report = passwright.profile(path, engine="openvino", no_optimize=True, min_time=0.01, threads=1)
    assert (report.engine, report.before.precision) == ("openvino", "f32")
    convolution = next(node for node in report.before.nodes if "Conv" in node.op)
    assert set(convolution.file_nodes) == {"conv", "relu"}
    assert convolution.provider
    with pytest.raises(EvaluationError, match=r"planted_engine\.py does not report the time of each op"):
        passwright.profile(path, engine=str(PLANTED), no_optimize=True, min_time=0.01)


@needs_openvino
def test_bench_compares_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "BenchmarkConfig", partial(benchmark.BenchmarkConfig, process_sets=1))
    path = tmp_path / "m.onnx"
    onnx.save(load(RELU, 20), path)
    engines = ["onnxruntime", "openvino"]
    report = passwright.bench([path], engine=engines, batch=(1,), min_time=0.01, threads=1)
    assert [(m.engine, m.measured.precision, m.measured.threads) for m in report.models] == [
        (name, "f32", 1) for name in engines
    ]
    assert report.models[1].ratios
    assert report.versions["openvino"]
    with pytest.raises(UsageError, match="ep applies only to onnxruntime: leave it out"):
        passwright.bench([path], engine=["openvino"], ep="cuda")


@needs_openvino
def test_what_tune_returned_is_verified_and_benched_in_its_session(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "BenchmarkConfig", partial(benchmark.BenchmarkConfig, process_sets=1))
    single, lossy, quantized = (tmp_path / f"{name}.json" for name in ("single", "lossy", "quantized"))
    session = {"engine": "openvino", "intra_op_threads": 1, "streams": 1}
    single.write_text(json.dumps({"format": 1, "session": session}))
    lossy.write_text(json.dumps({"format": 1, "session": session | {"precision": "bf16"}}))
    quantized.write_text(json.dumps({"format": 1, "run": {"scheme": "static"}, "session": {"level": "basic"}}))
    report = passwright.verify(model, settings=single, effort="quick")
    assert (report.agrees, report.engine, report.accuracy) == (True, "openvino", None)
    for settings, engine in ((lossy, "openvino:bf16"), (quantized, "onnxruntime")):
        report = passwright.verify(model, settings=settings, effort="quick")
        assert (report.engine, report.accuracy is not None) == (engine, True)
    measured = passwright.bench([model], settings=single, batch=(1,), min_time=0.01)
    assert [(m.engine, m.measured.threads) for m in measured.models] == [("openvino", 1)]
    assert (measured.threads, measured.session) == (1, "engine openvino, 1 stream, 1 intra-op thread")
    for function, options in ((passwright.verify, {"engine": "openvino"}), (passwright.bench, {"threads": 2})):
        with pytest.raises(UsageError, match=rf"{min(options)}: settings .*single.json sets it already"):
            function([model] if function is passwright.bench else model, settings=single, **options)


def test_libraries_of_providers_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "junk.so").write_text("junk")
    config = SessionConfig(provider_library=str(tmp_path / "junk.so"), provider="")
    with pytest.raises(ModelLoadError, match=r"^junk\.so is not a library of an execution provider: [^\n]*$"):
        LoadedModel(load(RELU, 20).SerializeToString(), config)
    devices, added = (
        [SimpleNamespace(ep_name=name) for name in names]
        for names in (["CPUExecutionProvider", "Other"], ["AExecutionProvider", "B"])
    )
    ort = Mock(
        register_execution_provider_library=lambda *_: devices.extend(added),
        get_ep_devices=lambda: devices,
        get_available_providers=lambda: [d.ep_name for d in devices],  # as in 1.31, after a library was loaded
    )
    assert [d.ep_name for d in library_devices(ort, config)] == ["AExecutionProvider"]
    assert [d.ep_name for d in library_devices(ort, structs.replace(config, provider="b"))] == ["B"]
    with pytest.raises(ModelLoadError, match=r"it has no provider c; it has AExecutionProvider, B"):
        library_devices(ort, structs.replace(config, provider="c"))
    del devices[2:]
    with pytest.raises(ModelLoadError, match=r"junk\.so: it offers no device on this machine"):
        library_devices(ort, config)


BROKEN = """
import onnx
from passwright.core import Engine, EngineSession, ValueFacts, find_engine

class Session(EngineSession):
    def __init__(self, model, settings):
        self.session = find_engine("onnxruntime").load(model, settings)
        self.inputs, self.outputs = self.session.inputs, self.session.outputs
    def run(self, outputs, feeds):
        {run}

def load(model, settings):
    session = Session(model, settings)
    {load}

def version():
    {version}

ENGINE = Engine("broken", load, version=version)
"""
FINE = {"run": "return self.session.run(outputs, feeds)", "load": "return session", "version": "return '1'"}


@cases(
    ("parts", "error"),
    {
        "load gives None": ({"load": "return None"}, "broken.py cannot load it: it returned None"),
        "load raises": ({"load": "raise KeyError(0)"}, "broken.py cannot load it: KeyError: 0"),
        "a session without run": ({"load": "return 7"}, "broken.py cannot load it: it returned 7, which has no run"),
        "no inputs": ({"load": "del session.inputs; return session"}, "the inputs of its session are None"),
        "no facts": ({"load": "session.outputs = ['y']; return session"}, "the outputs of its session are ['y'], not"),
        "a type of NumPy": (
            {"load": "session.outputs = [ValueFacts('y', 'float')]; return session"},
            "broken.py cannot load it: the type of y is 'float', not one such as 'tensor(float)'",
        ),
        "run gives None": (
            {"run": "return None"},
            "broken.py cannot run it: its run returned NoneType, not a list of arr",
        ),
        "run gives too few": ({"run": "return []"}, "broken.py cannot run it: its run returned 0 values for 1 outputs"),
        "run raises": ({"run": "raise KeyError(0)"}, "broken.py cannot run it: KeyError: 0 (broken.py:10)"),
        "version raises": ({"version": "raise KeyError(0)"}, "engine broken: its version is not known: KeyError: 0"),
        "version is a number": ({"version": "return 1"}, "engine broken: its version is 1, not a string"),
    },
)
def test_broken_engines_are_named_in_one_line(tmp_path: Path, parts: dict[str, str], error: str) -> None:
    file = tmp_path / "broken.py"
    code = BROKEN
    for name, text in {**FINE, **parts}.items():
        code = code.replace(f"{{{name}}}", text)
    file.write_text(code)
    onnx.save(load("g (float[2] x) => (float[2] y) { y = Relu(x) }"), tmp_path / "m.onnx")
    model = str(tmp_path / "m.onnx")
    result = CliRunner().invoke(app, ["verify", model, model, "--engine", str(file)])
    assert isinstance(result.exception, SystemExit), result.exception
    assert error in " ".join(result.output.split()), result.output
    assert result.exit_code > 0
    if "run" in parts:
        measured = CliRunner().invoke(app, ["bench", model, "--engine", str(file), "--batch", "1"])
        assert measured.exit_code == 1
        reason = error.partition("cannot run it: ")[2]
        assert f"m.onnx on broken.py: not measured: {reason}" in " ".join(measured.output.split()), measured.output


def test_a_version_is_a_function() -> None:
    wrong: Any = Engine
    with pytest.raises(PluginError, match=r"engine e: version='1\.0' is not a function"):
        wrong("e", print, version="1.0")


def test_a_session_of_any_class_has_the_rest_of_a_session(tmp_path: Path) -> None:
    """The documents ask for no more than inputs, outputs and run."""
    code = BROKEN.replace("class Session(EngineSession)", "class Session")
    code = code.replace("def load(", "    precision = property(lambda self: 'f32: here')\n\ndef load(")
    for name, text in FINE.items():
        code = code.replace(f"{{{name}}}", text)
    (tmp_path / "plain.py").write_text(code)
    model = load("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    onnx.save(model, tmp_path / "m.onnx")
    result = invoke("verify", tmp_path / "m.onnx", "--engine", tmp_path / "plain.py", "--effort", "quick")
    assert "verified: no difference seen" in result.output
    session = sessions.create_session(model.SerializeToString(), SessionConfig(engine=str(tmp_path / "plain.py")))
    assert (session.precision, session.threads, session.op_times(), session.cancel()) == ("f32: here", 0, [], None)
    (y,) = cast("list[np.ndarray]", session.bind({"x": np.array([-1, 2], np.float32)})())
    assert y.tolist() == [0, 2]


def test_models_of_engines_have_the_types_of_outputs() -> None:
    model = load("g (float[N,2] x) => (float[N,2] y) { a = Relu(x) s = Shape(a) y = Neg(a) }")
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in ("a", "s"))
    given = list[onnx.ModelProto]()

    def loads(data: bytes | Path, settings: EngineSettings) -> EngineSession:
        assert isinstance(data, bytes)
        given.append(onnx.load_from_string(data))
        return find_engine("onnxruntime").load(data, settings)

    with patch.object(sessions, "find_engine", lambda _: Engine("mine", loads)):
        LoadedModel(model.SerializeToString(), SessionConfig(engine="mine"))
    types = [o.type.tensor_type for o in given[0].graph.output]
    assert [t.elem_type for t in types] == [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64]
    assert [[d.dim_value for d in t.shape.dim] for t in types] == [[0, 2], [2]]


def test_what_an_engine_does_not_load_is_a_note_beside_a_failure(tmp_path: Path) -> None:
    """Verdicts depend on values inside, which an engine may not give."""
    code = BROKEN
    raises = "assert [v.name for v in session.outputs] == ['y'], 'one output'; return session"
    for name, text in {
        **FINE,
        "load": raises,
        "run": "return [v + 1 for v in self.session.run(outputs, feeds)]",
    }.items():
        code = code.replace(f"{{{name}}}", text)
    (tmp_path / "broken.py").write_text(code)
    onnx.save(load("g (float[2] x) => (float[2] y) { a = Exp(x) y = Neg(a) }"), tmp_path / "m.onnx")
    result = invoke("verify", tmp_path / "m.onnx", tmp_path / "m.onnx", "--engine", tmp_path / "broken.py", code=WRONG)
    note = "note: the region of a was not compared: broken.py cannot load it: AssertionError: one output"
    assert note in " ".join(result.output.split())
