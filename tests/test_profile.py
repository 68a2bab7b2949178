"""`passes profile`: times per node, attributed to nodes of the file."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from onnx import numpy_helper
from passwright.app.cli.entry import app
from passwright.app.measure.profile_trace import KernelExecution, ProfiledRun
from passwright.app.profile.profile import MAX_RUNS, build_profile, timeline
from passwright.app.profile.profile_recording import Recording, record_profile
from passwright.app.profile.profile_report import Profile
from passwright.core.errors import EvaluationError, ModelError
from passwright.core.ort.sessions import CPU, SessionConfig
from rewriting import cases
from tiers import slow_unless
from typer.testing import CliRunner, Result

from passwright import ProfileReport, profile

GOLDEN = Path(__file__).parent.parent / "golden_models"
HEAD = '<ir_version: 10, opset_import: ["": 17]>'
ALL = SessionConfig("ENABLE_ALL", prepack_weights=True, intra_op_threads=1)
# A normalization folded by us into the convolution, and an activation fused by onnxruntime.
CNN = """g (float[N,3,6,6] x) => (float[N,4,4,4] y) <float[4] s = {1.5,2,0.5,1}, float[4] m = {0,0.5,1,2}> {
    [conv] c = Conv(x, w) [norm] b = BatchNormalization(c, s, m, m, s) [relu] r = Relu(b) [last] y = Exp(r) }"""


def cnn_in(folder: Path) -> Path:
    model = onnx.parser.parse_model(f"{HEAD} {CNN}")
    weights = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    path = folder / "cnn.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def cnn(tmp_path: Path) -> Path:
    return cnn_in(tmp_path)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> ProfileReport:
    """The profiles of the original and the result, with their timelines in a file."""
    folder = tmp_path_factory.mktemp("cnn")
    return profile(cnn_in(folder), level="extended", min_time=0.01, threads=1, trace=folder / "t.json")


def passes(*arguments: Any) -> Result:
    return CliRunner().invoke(app, ["profile", *map(str, arguments)])


def by_name(found: Profile) -> dict[str, Any]:
    return {n.name: n for n in found.nodes}


def adds_up(found: Profile) -> None:
    """Types and nodes add up to the same time, at most that of a run."""
    assert found.runs >= 3
    assert sum(n.seconds for n in found.nodes) == pytest.approx(found.node_seconds)
    assert sum(t.seconds for t in found.types) == pytest.approx(found.node_seconds)
    assert sum(t.nodes for t in found.types) == len(found.nodes)
    assert 0 < found.node_seconds <= found.seconds
    assert [n.seconds for n in found.nodes] == sorted((n.seconds for n in found.nodes), reverse=True)


def test_fused_nodes_list_file_nodes(found: ProfileReport) -> None:
    assert found.after is not None
    adds_up(found.before)
    adds_up(found.after)
    before, after = by_name(found.before), by_name(found.after)
    fused = next(n for n in before.values() if "Conv" in n.op)
    assert fused.file_nodes == fused.origin == ("conv", "norm", "relu")
    assert (fused.op, fused.rule, fused.provider) == ("FusedConv", "", CPU)
    ours = next(n for n in after.values() if "Conv" in n.op)
    assert len(ours.file_nodes) == 2
    assert set(ours.origin) == {"conv", "norm", "relu"}
    assert ours.rule != ""
    assert before["last"].origin == after["last"].origin == ("last",)
    assert found.before.eliminated_nodes == found.after.eliminated_nodes == ()
    assert len(json.loads(found.to_json())["before"]["nodes"]) == len(before)


def test_start_and_memory(found: ProfileReport) -> None:
    for side in found.profiles:
        assert side.loading is not None
        assert min(side.loading.read, side.loading.initialize, side.loading.first_run) > 0
        assert min(side.loading.optimize, side.loading.pack) >= 0
        conv = next(n for n in side.nodes if "Conv" in n.op)
        assert conv.written == 4 * 4 * 4 * 4
        assert conv.allocated >= conv.written
        assert side.peak >= conv.written
        assert side.copies == []


def test_copies_move_data_into_new_memory(tmp_path: Path) -> None:
    """A Reshape of the result of an op is another view of its memory, a Transpose is not."""
    text = """g (float[N,8,16] x) => (float[N,16,8] y) <int64[2] s = {0,-1}, int64[3] t = {0,8,16}> {
        a = Exp(x) [flat] b = Reshape(a, s) c = Sin(b) [back] d = Reshape(c, t) e = Cos(d)
        [turn] f = Transpose<perm=[0,2,1]>(e) y = Exp(f) }"""
    onnx.save(onnx.parser.parse_model(f"{HEAD} {text}"), tmp_path / "m.onnx")
    side = profile(tmp_path / "m.onnx", min_time=0.01, threads=1, level="disable", no_optimize=True).before
    assert {n.name: n.written for n in side.nodes if n.op in {"Reshape", "Transpose"}} == dict.fromkeys(
        ("flat", "back", "turn"), 512
    )
    assert [n.name for n in side.copies] == ["turn"]
    assert side.peak >= 2 * 512


@pytest.mark.parametrize("level", slow_unless({"disable"}, ["disable", "basic", "all"]))
def test_levels(cnn: Path, level: str) -> None:
    found = profile(cnn, level=level, min_time=0.01, threads=1, no_optimize=True)
    assert found.after is None
    assert found.level == level
    ops = {n.op for n in found.before.nodes}
    assert ("BatchNormalization" in ops) == (level == "disable")
    assert {o for n in found.before.nodes for o in n.origin} == {"conv", "norm", "relu", "last"}


@pytest.mark.parametrize(
    "stem", slow_unless({"loop_if"}, ["loop_if", "while_loop", "script_scan", "mixer_external", "sklearn_strings"])
)
def test_golden_models(stem: str) -> None:
    """Models with bodies, external weights and strings."""
    found = profile(GOLDEN / f"{stem}.onnx", min_time=0.01, threads=1, no_optimize=True)
    adds_up(found.before)
    assert all(n.file_nodes for n in found.before.nodes if n.op != "ReorderOutput")


def kernel(
    name: str, start: float, seconds: float, own: float | None = None, index: int = 0, op: str = "Add"
) -> KernelExecution:
    return KernelExecution(name, op, CPU, index, start, seconds, seconds if own is None else own)


def recording(text: str, *runs: ProfiledRun) -> Recording:
    graph = onnx.parser.parse_model(f"{HEAD} g {text}").graph
    return Recording(runs, graph, graph)


TEXT = "(float[N] x) => (float[N] y) { [a] p = Add(x, x) [b] y = Add(p, p) }"


def test_times_are_medians_under_interference() -> None:
    held_up = [(0.0, 0.0), (5.0, 0.0), (0.0, 7.0), (0.0, 0.0), (9.0, 0.0)]  # in nodes and outside, in most runs
    runs = [
        ProfiledRun(i, 4.0 + a + b, (kernel("a", 0.0, 2.0 + a), kernel("b", 3.0 + a, 1.0, op="Mul")))
        for i, (a, b) in enumerate(held_up)
    ]
    found = build_profile("before", recording(TEXT, *runs)).profile
    assert (found.runs, found.seconds, found.node_seconds, found.outside) == (5, 4.0, 3.0, 1.0)
    assert [n.seconds for n in found.nodes] == [2.0, 1.0]
    assert [t.seconds for t in found.types] == [2.0, 1.0]


def test_node_with_varying_number_of_calls() -> None:
    one = ProfiledRun(0, 9.0, (kernel("a", 1.0, 2.0), kernel("b", 3.0, 1.0), kernel("b", 5.0, 1.0)))
    other = ProfiledRun(10, 9.0, (kernel("a", 1.0, 4.0),))
    found = by_name(build_profile("before", recording(TEXT, one, other)).profile)
    assert (found["a"].seconds, found["a"].calls, found["a"].start) == (3.0, 1.0, 0.0)
    assert (found["b"].seconds, found["b"].calls, found["b"].start) == (1.0, 1.0, 2.0)


def test_equal_and_missing_names_are_resolved_by_index() -> None:
    made = recording(TEXT, ProfiledRun(0, 9.0, (kernel("n", 1.0, 1.0, index=4), kernel("Add_7", 3.0, 1.0, index=7))))
    ran = onnx.parser.parse_model(f"{HEAD} g {TEXT}").graph
    ran.node[0].name, ran.node[1].name = "n", ""
    nodes = build_profile("before", replace(made, optimized_graph=ran)).profile.nodes
    assert {n.name: n.file_nodes for n in nodes} == {"n": ("a",), "Add_7": ("b",)}


def test_provider_without_optimized_graph() -> None:
    runs = ProfiledRun(0, 9.0, (kernel("a", 1.0, 1.0), kernel("TRT_1", 3.0, 1.0)))
    found = build_profile("before", replace(recording(TEXT, runs), optimized_graph=None)).profile
    assert {n.name: n.file_nodes for n in found.nodes} == {"a": ("a",), "TRT_1": ()}


def test_recorded_origins_are_read() -> None:
    made = recording(TEXT, ProfiledRun(0, 9.0, (kernel("a", 1.0, 1.0),)))
    for key, value in (("passwright.rule", "our_rule"), ("passwright.from", '["one", "two"]')):
        made.file_graph.node[0].metadata_props.add(key=key, value=value)
    (node,) = build_profile("before", made).profile.nodes
    assert (node.file_nodes, node.origin, node.rule) == (("a",), ("one", "two"), "our_rule")


def test_odd_names(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(f"{HEAD} g {TEXT}")
    model.graph.node[0].name, model.graph.node[1].name = 'a"b', "two\nlines [red] \u2603"
    onnx.save(model, tmp_path / "m.onnx")
    options = ("--level", "disable", "--no-optimize", "--json", tmp_path / "r.json", "--trace", tmp_path / "t.json")
    result = passes(tmp_path / "m.onnx", "--min-time", 0.01, *options)
    nodes = json.loads((tmp_path / "r.json").read_text())["before"]["nodes"]
    assert sorted(n["file_nodes"] for n in nodes) == sorted([n.name] for n in model.graph.node)
    assert "two\\nlines [red]" in result.stdout


def require_trace(text: str) -> list[dict[str, Any]]:
    """The events of a file's text, checked against the Trace Event Format."""
    events = json.loads(text)["traceEvents"]
    for e in events:
        assert e["ph"] in {"X", "M", "C"}
        assert isinstance(e["name"], str)
        assert {type(e[k]) for k in ("pid", "tid")} == {int}
        assert isinstance(e["args"], dict)
        assert e["ts"] >= 0
        assert e["ph"] != "X" or e["dur"] >= 0
        assert e["ph"] != "C" or all(type(value) is int for value in e["args"].values())
    return events


def require_nested(spans: list[dict[str, Any]]) -> None:
    """Each event is inside its run or node: Perfetto drops overlapping ones."""
    ends: list[float] = []
    for span in spans:
        while ends and ends[-1] <= span["ts"] + 1e-6:
            ends.pop()
        assert bool(ends) == (span["cat"] == "node"), span
        ends.append(span["ts"] + span["dur"])
        assert ends[-1] <= ends[0] + 1e-2
        assert len(ends) < 2 or ends[-1] <= ends[-2] + 1e-2


def test_timeline_has_bodies() -> None:
    """Times truncated to microseconds may end after the enclosing event."""
    nodes = (kernel("a", 1e-6, 6e-6), kernel("b", 3e-6, 5e-6), kernel("b", 8e-6, 9e-6))
    text = timeline([build_profile("before", recording(TEXT, ProfiledRun(5.0, 12e-6, nodes)))], {})
    spans = [e for e in require_trace(text) if e["ph"] == "X"]
    assert [(e["ts"], e["dur"]) for e in spans] == [(0, 12), (1, 6), (3, 4), (8, 4)]


def test_the_timeline(found: ProfileReport) -> None:
    assert found.before.trace is not None
    events = require_trace(found.before.trace.read_text())
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["before", "after"]
    begin = next(e["ts"] for e in events if e.get("cat") == "run" and e["name"] != "first run")
    for process, side in enumerate(found.profiles, 1):
        own = [e for e in events if e["pid"] == process and e["ph"] == "X"]
        first, *runs = [e for e in own if e["cat"] == "run"]
        phases = [e for e in own if e["cat"] == "load"]
        assert [e["name"] for e in phases] == ["read", "optimize", "initialize", "pack"]
        assert phases[-1]["ts"] + phases[-1]["dur"] == pytest.approx(first["ts"], abs=0.01)
        assert first["ts"] + first["dur"] == pytest.approx(begin, abs=0.01)
        assert runs[0]["ts"] == begin
        assert len(runs) >= 3
        memory = [e["args"]["bytes"] for e in events if e["pid"] == process and e["ph"] == "C"]
        assert max(memory) == side.peak
        require_nested(own)
    made = [e["args"] for e in events if e["pid"] == 2 and "Conv" in e["args"].get("op", "")]
    assert all({"conv", "norm"} <= set(a["origin"]) and a["rule"] and a["file_nodes"] for a in made)
    assert made


def test_timeline_shows_a_limited_number_of_runs() -> None:
    runs = [ProfiledRun(float(i), 0.5, (kernel("a", 0.1, 0.2),)) for i in range(5 * MAX_RUNS)]
    text = timeline([build_profile("before", recording(TEXT, *runs))], {})
    spans = [e["ts"] for e in require_trace(text) if e.get("cat") == "run"]
    assert spans == [i * 1e6 for i in range(MAX_RUNS)]


def test_command_writes_files(cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("--dim", "N=3", "--json", tmp_path / "r.json", "--limit", 2, "--trace", "cnn.profile.json")
    result = passes(cnn, "--min-time", 0.01, "--threads", 1, *arguments)
    assert result.exit_code == 0, result.output
    tables = (
        "node before",
        "node after",
        "in nodes",
        "in copies",
        "memory at most",
        "pack weights",
        "first run",
        f"ran on {CPU}",
        "cnn.profile.json",
    )
    assert [text for text in ("a batch of 3", "1 thread", *tables) if text not in result.stdout] == []
    require_trace((tmp_path / "cnn.profile.json").read_text())
    told = json.loads((tmp_path / "r.json").read_text())
    assert told["before"]["nodes"][0]["seconds"] > 0
    assert told["after"]["trace"] == "cnn.profile.json"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cnn.onnx", "cnn.profile.json", "r.json"]


def test_json_is_the_only_output(cnn: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    result = passes(cnn, "--min-time", 0.01, "--no-optimize", "--batch", 2, "--json", "-", "--trace", trace)
    told = json.loads(result.stdout)
    assert told["after"] is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cnn.onnx", "t.json"]
    assert (told["batch"], told["sizes"]) == (2, {})


BAD_ARGUMENTS = {
    "a provider that is not there": ("--ep abacus", 2, "no execution provider abacus; it has"),
    "no provider at all": ("--ep cpu{x", 2, "name{option=text}: cpu{x"),
    "no such level": ("--level most", 2, "--level most"),
    "no such pipeline": ("--pipeline no-such", 2, "no-such"),
    "a pipeline that is not run": ("--no-optimize --pipeline cleanup", 2, "--no-optimize"),
    "a trace that cannot be written": ("--trace none/t.json", 1, "none/t.json"),
    "a trace over the model": ("--trace cnn.onnx", 1, "would overwrite"),
    "two things in one file": ("--json t.json --trace t.json", 1, "both"),
    "a page over the model": ("--html cnn.onnx", 1, "would overwrite"),
    "no such input": ("--shape z:1", 1, "no such input"),
    "inputs that are not there": ("--inputs none.npz", 1, "none.npz"),
}


@cases(("arguments", "code", "message"), BAD_ARGUMENTS)
def test_bad_arguments(cnn: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, code: int, message: str) -> None:
    monkeypatch.chdir(cnn.parent)
    data = cnn.read_bytes()
    result = passes("cnn.onnx", "--min-time", 0.01, *arguments.split())
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert [p.name for p in cnn.parent.iterdir()] == ["cnn.onnx"]
    assert cnn.read_bytes() == data


def test_invalid_model_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.onnx").write_text("{}")
    result = passes("m.onnx")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "m.onnx: not an ONNX model" in result.stderr


REFUSE = """
from passwright.core.processes.worker_process import serve
class Worker:
    def profile(self, *arguments):
        raise ValueError("no kernel")
serve(Worker())
"""


@cases(
    ("code", "timeout", "message"),
    {
        "dies": ("import os; os.abort()", 300.0, "SIGABRT"),
        "hangs": ("import time; time.sleep(600)", 0.5, "did not end within 0.5 s"),
        "reports": (REFUSE, 300.0, "no kernel"),
        "prints": ("print('no reply')", 300.0, "its reply cannot be read"),
    },
)
def test_failing_process_is_reported(cnn: Path, code: str, timeout: float, message: str) -> None:
    feeds = {"x": np.zeros((1, 3, 6, 6), np.float32)}
    with pytest.raises(EvaluationError, match=message):
        record_profile(cnn, ALL, feeds, 0.0, (sys.executable, "-c", code), timeout=timeout)


def test_failing_model_is_reported(cnn: Path) -> None:
    with pytest.raises(EvaluationError, match="x"):
        record_profile(cnn, ALL, {"x": np.zeros((1, 2, 6, 6), np.float32)}, 0.0)


def test_external_weights_are_not_written(tmp_path: Path) -> None:
    for name in ("mixer_external.onnx", "mixer_external.onnx.data"):
        (tmp_path / name).write_bytes((GOLDEN / name).read_bytes())
    with pytest.raises(ModelError, match="would overwrite"):
        profile(tmp_path / "mixer_external.onnx", min_time=0.01, trace=tmp_path / "mixer_external.onnx.data")
