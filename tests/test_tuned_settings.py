"""Settings of sessions: files, sessions that they make, and the commands that take them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from msgspec import structs
from passwright.app.cli.entry import app
from passwright.app.measure.benchmark import WorkerProxy
from passwright.app.measure.benchmark_worker import concurrent_times
from passwright.app.measure.tuned_settings import (
    DEFAULT_SESSION,
    SWITCHES,
    Configuration,
    Recipe,
    SessionSettings,
    TunedSettings,
    read_tuned_settings,
    settings_words,
)
from passwright.app.tune.session_script import session_script
from passwright.core.errors import UsageError
from passwright.core.ort.sessions import SessionConfig, create_session, inference_session, session_entries
from passwright.core.ort.value_files import write_value
from passwright.testing.rewriting import load, op_types
from rewriting import cases
from simulated_races import SimulatedMachine
from tiers import needs_openvino
from typer.testing import CliRunner

TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) b = Sigmoid(a) y = Mul(a, b) }"
OTHER = SessionConfig(
    "ENABLE_EXTENDED", ("ConstantFolding", "A.b-c_1"), prepack_weights=False, allow_spinning=False,
    memory_patterns=False, intra_op_threads=2, inter_op_threads=3, parallel=True, dynamic_block_base=4, cpu_arena=False,
    shared_allocator=True, denormals_as_zero=True, provider_options=(("a", "b"),),
)  # fmt: skip
"""Nothing in it is onnxruntime's default."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(load(TEXT, 17), path)
    return path


def test_settings_round_trip(tmp_path: Path) -> None:
    found, usual = SessionSettings.of(OTHER), SessionSettings()
    not_settings = {
        "verbose", "records_assignment", "optimized_model_path", "profile_prefix", "save_external_data", "model_file",
        "optimization_level", "provider_library",  # which is code, that a file of settings does not name
    }  # fmt: skip
    assert {*SessionConfig.__struct_fields__} - not_settings | {"level"} == {*SessionSettings.__struct_fields__}
    same = [n for n in SessionSettings.__struct_fields__ if getattr(found, n) == getattr(usual, n)]
    own = ["provider", "engine", "precision", "streams"]
    assert (same, found.config(), usual.config()) == (own, OTHER, DEFAULT_SESSION)
    configuration = Configuration(Recipe("ort", ("fuse-attention",), ("fuse-swish",), 20), OTHER, 3)
    settings = TunedSettings.of(configuration, "m.onnx", {"a": 1})
    path = tmp_path / "s.json"
    path.write_text(settings.to_json())
    assert read_tuned_settings(path) == settings


@needs_openvino
def test_settings_of_another_engine() -> None:
    settings = SessionSettings(engine="openvino", precision="bf16", streams=2)
    assert SessionSettings.of(config := settings.config()) == settings
    assert settings_words(config) == ["engine openvino:bf16", "2 streams"]


def test_settings_in_words() -> None:
    assert settings_words(DEFAULT_SESSION) == []
    words = ", ".join(settings_words(OTHER))
    assert words == (
        "provider cpu{a=b}, level extended, without ConstantFolding, A.b-c_1, 2 intra-op threads, independent ops in "
        "parallel, threads sleep, no arena, arena that grows as needed, no memory patterns, denormals as zero, weights "
        "not prepacked, 3 inter-op threads, dynamic blocks of 4"
    )
    assert all(on != off for off, on in SWITCHES.values())


def test_sessions_have_their_settings(model: Path) -> None:
    session = inference_session(model, MANY)
    options = session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (2, 3)
    assert (options.enable_cpu_mem_arena, options.enable_mem_pattern) == (False, False)
    assert options.execution_mode == ort.ExecutionMode.ORT_PARALLEL
    assert options.get_session_config_entry("session.dynamic_block_base") == "4"
    assert options.get_session_config_entry("session.set_denormal_as_zero") == "1"
    assert session_entries(DEFAULT_SESSION) == {}
    x = np.ones((2, 4), np.float32)
    expected = create_session(model, DEFAULT_SESSION).run(None, {"x": x})
    others = (structs.replace(DEFAULT_SESSION, **{name: True}) for name in ("shared_allocator", "parallel"))
    for config in (OTHER, *others):
        shared = create_session(model, structs.replace(config, provider_options=()))
        assert np.allclose(shared.run(None, {"x": x}), expected)


MANY = structs.replace(OTHER, provider_options=(), shared_allocator=False)


@pytest.mark.parametrize("config", [DEFAULT_SESSION, MANY])
def test_scripts_make_the_same_session(model: Path, config: SessionConfig) -> None:
    text = session_script(Configuration(session=config, callers=2), model.name, "a comment\nwith a line break '''")
    made: dict[str, Any] = {"__file__": str(model.with_name("s.py"))}
    exec(compile(text, "s.py", "exec"), made)
    found, wanted = (s.get_session_options() for s in (made["session"], inference_session(model, config)))
    for name in ("intra_op_num_threads", "inter_op_num_threads", "enable_cpu_mem_arena", "enable_mem_pattern",
                 "execution_mode", "graph_optimization_level"):  # fmt: skip
        assert getattr(found, name) == getattr(wanted, name), name
    for key, value in session_entries(config).items():
        assert found.get_session_config_entry(key) == value
    assert "from 2 threads" in text


SETTINGS: dict[str, Any] = {
    "format": 1,
    "run": {"pipeline": "basic", "enable": ["fuse-swish"], "opset": 24},
    "session": {"intra_op_threads": 1, "level": "extended", "allow_spinning": False},
}


def written(folder: Path, data: Any = None, **changes: Any) -> Path:
    path = folder / "settings.json"
    path.write_text(json.dumps({**SETTINGS, **changes} if data is None else data))
    return path


BAD_SETTINGS: dict[str, tuple[Any, str]] = {
    "list": ([], "Expected `object`, got `array`"),
    "empty": ({}, "missing required field `format`"),
    "format": ({"format": 2}, "Invalid enum value 2 - at `$.format`"),
    "key": ({"plugin": "x.py"}, "unknown field `plugin`"),
    "callers": ({"callers": 0}, "Expected `int` >= 1 - at `$.callers`"),
    "code": ({"run": {"pipeline": "mod:thing"}}, "pipeline mod:thing is unknown; choose from none, basic, ort"),
    "pipeline": ({"run": {"pipeline": ["basic"]}}, "Expected `str`, got `array` - at `$.run.pipeline`"),
    "enable": ({"run": {"enable": ["mod:thing"]}}, "mod:thing is not a pass that `passes tune` chooses"),
    "skip": ({"run": {"skip": "fuse-gelu"}}, "Expected `array`, got `str` - at `$.run.skip`"),
    "opset": ({"run": {"opset": 0}}, "Expected `int` >= 1 - at `$.run.opset`"),
    "bool": ({"run": {"opset": True}}, "got `bool` - at `$.run.opset`"),
    "run": ({"run": 3}, "Expected `object`, got `int` - at `$.run`"),
    "session": ({"session": []}, "Expected `object`, got `array` - at `$.session`"),
    "setting": ({"session": {"speed": 1}}, "unknown field `speed` - at `$.session`"),
    "level": ({"session": {"level": "fast"}}, "Invalid enum value 'fast' - at `$.session.level`"),
    "type": ({"session": {"parallel": 1}}, "Expected `bool`, got `int` - at `$.session.parallel`"),
    "threads": ({"session": {"intra_op_threads": 5000}}, "Expected `int` <= 1024 - at `$.session.intra_op_threads`"),
    "provider": ({"session": {"provider": "cuda"}}, "no execution provider cuda"),
    "options": ({"session": {"provider_options": {"a": 1}}}, "Expected `str`, got `int`"),
    "library": (
        {"session": {"provider_options": {"backend_path": "./a.so"}}},
        "the option backend_path of the provider",
    ),
    "names": ({"session": {"disabled_optimizers": ["a\n"]}}, "at `$.session.disabled_optimizers[0]`"),
}


@cases(("data", "error"), BAD_SETTINGS)
def test_bad_settings(tmp_path: Path, data: Any, error: str) -> None:
    if data and "format" not in data:
        data = {"format": 1, **data}
    with pytest.raises(UsageError, match="--settings") as raised:
        read_tuned_settings(written(tmp_path, data))
    assert error in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"\xff", b"{", b"[" * 100_000, b'{"format": 1e999}'])
def test_other_files_are_one_line(model: Path, content: bytes) -> None:
    path = model.with_name("s.json")
    path.write_bytes(content)
    result = CliRunner().invoke(app, ["run", str(model), "--settings", str(path)])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: --settings {path}: ")
    assert result.stderr.count("\n") == 1
    missing = CliRunner().invoke(app, ["run", str(model), "--settings", str(path) + "x"])
    assert (missing.exit_code, missing.stderr.count("\n")) == (2, 1)


def test_run_takes_pipeline_rules_and_opset(model: Path, tmp_path: Path) -> None:
    file = str(written(tmp_path))
    arguments = ["run", str(model), "-o", str(tmp_path / "o.onnx"), "--verify", "quick"]
    assert CliRunner().invoke(app, [*arguments, "--settings", file]).exit_code == 0
    made = onnx.load(tmp_path / "o.onnx")
    assert (op_types(made), made.opset_import[0].version) == (["Swish"], 24)
    for more, named in (
        (["--pipeline", "ort"], "--pipeline"),
        (["--opset", "20"], "--opset"),
        (["--skip", "x"], "--skip"),
    ):
        refused = CliRunner().invoke(app, [*arguments, "--settings", file, *more])
        assert (refused.exit_code, refused.stderr) == (2, f"error: {named}: --settings {file} sets it already\n")


def test_settings_win_over_those_of_the_folder(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "passwright.toml").write_text('pipeline = "none"\nopset = 20\n')
    file = written(tmp_path)
    result = CliRunner().invoke(app, ["run", str(model), "-o", "o.onnx", "--no-verify", "--settings", str(file)])
    assert result.exit_code == 0, result.output
    assert op_types(onnx.load("o.onnx")) == ["Swish"]


def test_compare_measures_in_sessions_of_the_settings(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = SimulatedMachine(lambda _: 1e-3).replace_real_one(monkeypatch)
    file = str(written(tmp_path))
    arguments = ["compare", str(model), "--tools", "ort", "--batch", "1", "--settings", file]
    result = CliRunner().invoke(app, [*arguments, "--json", str(tmp_path / "c.json")])
    assert result.exit_code == 0, result.output
    assert "settings: level extended, 1 intra-op thread, threads sleep" in result.stdout
    configs = [t.config for race in machine.races for t in race]
    assert {(c.intra_op_threads, c.allow_spinning) for c in configs} == {(1, False)}
    assert {c.optimization_level for c in configs} == {"DISABLE_ALL", "ENABLE_EXTENDED"}
    assert json.loads((tmp_path / "c.json").read_text())["session"].startswith("level extended")
    for more in (["--threads", "2"], ["--ep", "azure"], ["--quantized"]):
        refused = CliRunner().invoke(app, [*arguments, *more])
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)


def test_callers_share_a_session(model: Path, tmp_path: Path) -> None:
    write_value({"x": np.ones((2, 4), np.float32)}, tmp_path / "feeds")
    worker = WorkerProxy(tmp_path / "w")
    try:
        worker.load(model, DEFAULT_SESSION, {2: tmp_path / "feeds"}, callers=3)
        times = worker.time_calls(2, 10, 1e-5)
    finally:
        worker.terminate()
    assert len(times.calls) == 12  # four of each caller
    assert len(set(times.calls)) == 1
    assert 0 < times.calls[0] < times.elapsed < 1e10


def test_failure_of_a_caller_is_raised() -> None:
    def fail() -> None:
        raise ValueError("a caller failed")

    with pytest.raises(ValueError, match="a caller failed"):
        concurrent_times(fail, 4, 2)


def test_requests_to_workers_have_all_settings() -> None:
    assert SessionConfig(
        **json.loads(json.dumps(structs.asdict(structs.replace(OTHER, disabled_optimizers=(), provider_options=()))))
    ) == (
        structs.replace(OTHER, disabled_optimizers=[], provider_options=[])  # type: ignore[arg-type]
    )
