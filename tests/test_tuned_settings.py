"""Settings of sessions: files, sessions that they make, and the commands that take them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from msgspec import structs
from passwright.app.cli.entry import app
from passwright.app.measure.benchmark import BenchmarkTarget, WorkerProxy
from passwright.app.measure.benchmark_worker import concurrent_times
from passwright.app.measure.metrics import Latency, ModelMetrics
from passwright.app.measure.session_settings import SWITCHES, USUAL, settings_data, settings_from_data, settings_words
from passwright.app.measure.tuned_settings import Configuration, Recipe, TunedSettings, read_tuned_settings
from passwright.app.tune.session_script import session_script
from passwright.core.errors import UsageError
from passwright.core.ort.sessions import SessionConfig, create_session, session_entries
from passwright.core.ort.value_files import write_value
from passwright.testing.rewriting import load, op_types
from typer.testing import CliRunner

pytestmark = pytest.mark.usefixtures("_commands_share_process")
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
    data = settings_data(OTHER)
    of_sessions = {"optimization_level", "provider_options", "disabled_optimizers", "provider"}
    not_settings = {"verbose", "optimized_model_path", "profile_prefix", "save_external_data"}
    assert {*SessionConfig.__struct_fields__} - not_settings - of_sessions <= data.keys()
    assert [name for name in data if name != "provider" and data[name] == settings_data(USUAL)[name]] == []
    assert settings_from_data(json.loads(json.dumps(data))) == OTHER
    assert settings_from_data({}) == USUAL
    settings = TunedSettings(
        Configuration(Recipe("ort", ("fuse-attention",), ("fuse-swish",), 20), OTHER, 3), "m.onnx", {"a": 1}
    )
    path = tmp_path / "s.json"
    path.write_text(settings.to_json())
    assert read_tuned_settings(path) == settings


def test_settings_in_words() -> None:
    assert settings_words(USUAL) == []
    words = ", ".join(settings_words(OTHER))
    assert words == (
        "level extended, without ConstantFolding, A.b-c_1, 2 intra-op threads, independent ops in parallel, threads "
        "sleep, no arena, arena that grows by need, no memory patterns, denormals as zero, weights not prepacked, "
        "3 inter-op threads, dynamic blocks of 4, provider cpu{a=b}"
    )
    assert all(on != off for off, on in SWITCHES.values())


def test_sessions_have_their_settings(model: Path) -> None:
    session = create_session(model, structs.replace(OTHER, provider_options=(), shared_allocator=False))
    options = session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (2, 3)
    assert (options.enable_cpu_mem_arena, options.enable_mem_pattern) == (False, False)
    assert options.execution_mode == ort.ExecutionMode.ORT_PARALLEL
    assert options.get_session_config_entry("session.dynamic_block_base") == "4"
    assert options.get_session_config_entry("session.set_denormal_as_zero") == "1"
    assert session_entries(USUAL) == {}
    x = np.ones((2, 4), np.float32)
    expected = create_session(model, USUAL).run(None, {"x": x})
    for config in (OTHER, structs.replace(USUAL, shared_allocator=True), structs.replace(USUAL, parallel=True)):
        shared = create_session(model, structs.replace(config, provider_options=()))
        assert np.allclose(shared.run(None, {"x": x}), expected)


@pytest.mark.parametrize("config", [USUAL, structs.replace(OTHER, provider_options=(), shared_allocator=False)])
def test_scripts_make_the_same_session(model: Path, config: SessionConfig) -> None:
    text = session_script(Configuration(session=config, callers=2), model.name, "a comment\nwith a line break '''")
    made: dict[str, Any] = {"__file__": str(model.with_name("s.py"))}
    exec(compile(text, "s.py", "exec"), made)
    found, wanted = (s.get_session_options() for s in (made["session"], create_session(model, config)))
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


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param([], "not a file of `passes tune`", id="list"),
        pytest.param({}, "not a file of `passes tune`", id="empty"),
        pytest.param({"format": 2}, "its format is 2, not 1", id="format"),
        pytest.param({"format": 1, "plugin": "x.py"}, "plugin is unknown", id="key"),
        pytest.param({"format": 1, "callers": 0}, "callers: a number from 1", id="callers"),
        pytest.param(
            {"format": 1, "run": {"pipeline": "mod:thing"}}, "pipeline is none of none, basic, ort", id="code"
        ),
        pytest.param({"format": 1, "run": {"pipeline": ["basic"]}}, "pipeline is none of", id="pipeline"),
        pytest.param({"format": 1, "run": {"enable": ["mod:thing"]}}, "other things than passes", id="enable"),
        pytest.param({"format": 1, "run": {"skip": "fuse-gelu"}}, "other things than passes", id="skip"),
        pytest.param({"format": 1, "run": {"opset": 0}}, "opset is not the number", id="opset"),
        pytest.param({"format": 1, "run": {"opset": True}}, "opset is not the number", id="bool"),
        pytest.param({"format": 1, "run": 3}, "run: not an object", id="run"),
        pytest.param({"format": 1, "session": []}, "session: not an object", id="session"),
        pytest.param({"format": 1, "session": {"speed": 1}}, "session: speed is no setting", id="setting"),
        pytest.param({"format": 1, "session": {"level": "fast"}}, "unknown level", id="level"),
        pytest.param({"format": 1, "session": {"parallel": 1}}, "parallel is not true or false", id="type"),
        pytest.param({"format": 1, "session": {"intra_op_threads": 5000}}, "from 0 to 1024", id="threads"),
        pytest.param({"format": 1, "session": {"provider": "cuda"}}, "no execution provider cuda", id="provider"),
        pytest.param({"format": 1, "session": {"provider_options": {"a": 1}}}, "other things than texts", id="options"),
        pytest.param({"format": 1, "session": {"disabled_optimizers": ["a b"]}}, "names of optimizers", id="names"),
    ],
)
def test_bad_settings(tmp_path: Path, data: Any, error: str) -> None:
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
        assert (refused.exit_code, refused.stderr) == (2, f"error: {named}: --settings {file} says that\n")


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
    latency = Latency(1, 9, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, ((1e-3,) * 9,))
    seen: list[BenchmarkTarget] = []

    def run_benchmark(targets: Sequence[BenchmarkTarget], *_: object) -> list[ModelMetrics]:
        seen.extend(targets)
        return [ModelMetrics(latencies={1: latency}) for _ in targets]

    monkeypatch.setattr("passwright.app.compare.rows.run_benchmark", run_benchmark)
    file = str(written(tmp_path))
    arguments = ["compare", str(model), "--with", "ort", "--batch", "1", "--settings", file]
    result = CliRunner().invoke(app, [*arguments, "--json", str(tmp_path / "c.json")])
    assert result.exit_code == 0, result.output
    assert "settings: level extended, 1 intra-op thread, threads sleep" in result.stdout
    assert {(t.config.intra_op_threads, t.config.allow_spinning) for t in seen} == {(1, False)}
    assert {t.config.optimization_level for t in seen} == {"DISABLE_ALL", "ENABLE_EXTENDED"}
    assert json.loads((tmp_path / "c.json").read_text())["session"].startswith("level extended")
    for more in (["--threads", "2"], ["--ep", "azure"], ["--quantized"]):
        refused = CliRunner().invoke(app, [*arguments, *more])
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)


def test_callers_share_a_session(model: Path, tmp_path: Path) -> None:
    write_value({"x": np.ones((2, 4), np.float32)}, tmp_path / "feeds")
    worker = WorkerProxy(tmp_path / "w")
    try:
        worker.load(model, USUAL, {2: tmp_path / "feeds"}, callers=3)
        times = worker.time_calls(2, 10, 1e-5)
    finally:
        worker.terminate()
    assert len(times) == 12  # four of each caller
    assert len(set(times)) == 1
    assert 0 < times[0] < 10


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
