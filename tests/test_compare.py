"""`passes compare`: rows, verdicts and failures for the model of each optimizer."""

import json
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import sample_reports as samples
from commands import invoke
from msgspec import structs
from passwright.app.bisect.ort_bisect import bisect_ort
from passwright.app.compare import tool_runs
from passwright.app.compare.comparison_report import ComparisonVerdict, OnlineOptimization, Row
from passwright.app.compare.document import describe, failure_lines, headline, operator_lines, verdict_word
from passwright.app.compare.rows import RowVerifier, online_optimizations
from passwright.app.compare.tool_runs import OptimizerOutput, Tool, run_tool, select_tools
from passwright.app.measure.metrics import Latency, ModelMetrics, RatioInterval
from passwright.app.measure.model_stats import ModelStats
from passwright.app.registry import adapter_names
from passwright.app.report.terminal import Terminal
from passwright.core.errors import ModelError, UsageError
from passwright.core.io.model_source import model_source
from passwright.core.ort.remote_backend import RemoteBackend
from passwright.core.ort.sessions import SessionConfig
from passwright.core.verify.oracle_process import OracleProcess
from passwright.core.verify.verification_spec import VerificationSpec
from rewriting import cases, load
from simulated_races import SimulatedMachine

from passwright import ComparisonReport, compare

GOLDEN = Path(__file__).parent.parent / "golden_models"
QUICK: dict[str, Any] = {"threads": 1, "batch": (1,)}
FAKE = Tool("onnxsim", "onnxsim", "0")
pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
WRITTEN, ONLINE = SessionConfig(), SessionConfig("ENABLE_ALL", prepack_weights=True)

PAD = """g (float[N,1,4,4] x, uint8[N,1,4,4] u) => (float[N,1,5,5] y, uint8[N,1,5,5] z)
    <int64[8] pads = {0,0,1,1,0,0,1,1}> {
    p = Pad(x, pads) y = MaxPool <kernel_shape = [2,2]> (p)
    i = Identity(u) q = Pad(i, pads) z = MaxPool <kernel_shape = [2,2]> (q) }"""
BAD_AT_0 = """g (float[N,4] x) => (float[M,4] y) <int64[1] one = {1}, int64[3] none = {0, 0, 0}> {
    e = Einsum<equation="ij->ij">(x) s = Shape<end=1>(e) few = Min(s, one) missing = Sub(one, few)
    pads = Concat<axis=0>(missing, none) r = Relu(e) y = Pad(r, pads) }"""
CLIP = """g (double[2,3] x) => (double[2,3] y) <double lo = {-1.0}, double hi = {2.0}> {
    r = Relu(x) y = Clip(r, lo, hi) }"""
SMALL = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) y = Relu(a) }"
OPAQUE = """<ir_version: 9, opset_import: ["": 18, "com.nobody": 1]>
    g (float[N,4] x) => (float[N,4] y) { a = Identity(x) y = com.nobody.Opaque(a) }"""


def written(text: str, folder: Path) -> Path:
    onnx.save(load(text, 18), folder / "m.onnx")
    return folder / "m.onnx"


def fake(body: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace onnxsim by a module with this body."""
    (folder / "onnxsim.py").write_text(f"import onnx, os, sys, time\ndef simplify(path):\n    {body}\n")
    monkeypatch.syspath_prepend(folder)


@pytest.fixture(autouse=True)
def _without_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated times, also of our own optimizer."""
    SimulatedMachine(lambda _: 1e-3).replace_real_one(monkeypatch)
    real = tool_runs.run_timed

    def run_timed(tool: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        return {"seconds": 0.1} if tool.endswith(":own_optimizer") else real(tool, *arguments, **options)

    monkeypatch.setattr(tool_runs, "run_timed", run_timed)


def rows_of(
    remote: RemoteBackend, folder: Path, original: str, other: str | None = None, level: str = "", kept: str = ""
) -> list[Row]:
    """The rows of a file in place of the optimized model: of another model, or of the original itself."""
    model = written(original, folder)
    file = model if other is None else folder / "other.onnx"
    if other:
        onnx.save(load(other, 18), file)
    source = model_source(model, inline=False)
    loaded, kept_to = source.load(), folder / kept if kept else None
    with OracleProcess(source.loadable(), VerificationSpec.of(loaded)) as oracle:
        verifier = RowVerifier(remote, loaded, oracle, WRITTEN, ONLINE, folder, model, [], kept_to)
        return verifier.rows(OptimizerOutput(Row("other", "1", online=False), file, level))


@pytest.fixture(scope="module")
def found(_verifies_in_process: None, tmp_path_factory: pytest.TempPathFactory) -> ComparisonReport:
    folder = tmp_path_factory.mktemp("pad")
    model = written(PAD, folder)
    before = model.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        SimulatedMachine(lambda _: 1e-3).replace_real_one(patch)
        found = compare(model, tools=["ort"], keep=folder / "kept", json=folder / "out.json", **QUICK)
    assert model.read_bytes() == before
    assert json.loads((folder / "out.json").read_text())["rows"][1]["online"] is True
    return found


def test_rows_in_order(found: ComparisonReport) -> None:
    assert [(r.made_by, r.online) for r in found.rows] == [
        ("original", False), ("original", True), ("passwright", False), ("passwright", True),
        ("ORT basic", False), ("ORT extended", False), ("ORT all", False),
    ]  # fmt: skip
    assert found.rows[found.baseline].label == "original + ORT ALL"
    assert found.skipped_tools == {}


def test_every_column_of_every_row_is_filled(found: ComparisonReport) -> None:
    for row in found.rows:
        assert row.failure == ""
        assert row.seconds is not None
        assert row.stats is not None
        assert row.stats.nodes > 0 < row.stats.bytes
        assert row.verdict is not None
        assert row.verdict.error is not None
        assert (row.online_stats is not None) is row.online
        assert row.measured is not None
        assert row.measured.creation_seconds > 0 < row.measured.resident_bytes
        assert row.measured.latencies[1].median > 0
        assert row is found.rows[found.baseline] or row.ratios[1].ratio > 0
    assert [left.made_by for left in found.online_optimizations] == ["original", "passwright"]
    assert (found.threads, found.batches, found.is_verified) == (1, [1], True)
    assert found.machine
    assert found.seconds["verifying"] > 0


def test_wrong_onnxruntime_rows_advise_bisection(found: ComparisonReport) -> None:
    by_label = {row.label: row for row in found.rows}
    for label, level in {"original + ORT ALL": "all", "ORT basic": "basic", "ORT extended": "extended"}.items():
        row = by_label[label]
        assert row.verdict is not None
        assert row.verdict.wrong.startswith("y: off by up to ")
        assert row.advice == f"passes bisect {found.source} --ort {level}"
    assert not by_label["original"].is_unusable
    assert not by_label["passwright"].is_unusable
    assert headline(found).endswith("; ORT ALL computes original and passwright incorrectly, so times are not compared")
    blame = bisect_ort(found.source, "basic").blame
    assert blame is not None
    assert blame.optimizers == ("Pad_Fusion",)


def test_kept_files_match_rows(found: ComparisonReport) -> None:
    kept = Path(found.models_folder)
    assert {p.name for p in kept.iterdir()} == {
        "passwright.onnx", "ort-basic.onnx", "ort-extended.onnx", "ort-all.onnx"
    }  # fmt: skip
    for row in found.rows[4:]:
        assert row.stats is not None
        assert len(onnx.load(kept / f"{row.made_by.lower().replace(' ', '-')}.onnx").graph.node) == row.stats.nodes


def test_json_contains_all_rows(found: ComparisonReport) -> None:
    data = json.loads(found.to_json())
    assert len(data["rows"]) == len(found.rows)
    assert data["rows"][1]["verdict"]["wrong"] == found.rows[1].verdict.wrong
    assert data["rows"][0]["measured"]["latencies"]["1"]["median"] > 0


@cases(
    ("body", "message"),
    {
        "aborts": ("os.abort()", "it crashed (SIGABRT)"),
        "exits": ("os._exit(3)", "it ended with exit code 3"),
        "SystemExit": ("sys.exit('done with')", "SystemExit: done with"),
        "raises": ("raise ValueError('no\\nsuch op')", "ValueError: no such op"),
        "no-model": ("return 'a model', True", "TypeError: it returned 'a model', not a model"),
        "no file": ("return None, True", "FileNotFoundError: it returned no model"),
        "hangs": ("time.sleep(600)", "it did not end within 2 s"),
    },
)
def test_failing_tool_is_one_line(body: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(body, tmp_path, monkeypatch)
    limit = 2 if "sleep" in body else 60
    assert run_tool(FAKE, written(SMALL, tmp_path), tmp_path, limit).row.failure == message


def test_working_tool_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake("print('noise'); time.sleep(0.02); return onnx.load(path), True", tmp_path, monkeypatch)
    made = run_tool(FAKE, written(SMALL, tmp_path), tmp_path)
    assert made.row.failure == ""
    assert made.row.seconds is not None
    assert made.row.seconds >= 0.02
    assert len(onnx.load(made.file).graph.node) == 2


DOUBLE = SMALL.replace("float[N,4] x", "double[N,4] x").replace("Identity(x)", "Cast<to=1>(x)")
DOUBLE_INPUT = "interface differs: input x is a tensor of double, not a tensor of float"
NOT_EQUIVALENT = {
    "wrong": (SMALL, SMALL.replace("Relu", "Abs"), "y: off by up to "),
    "output": (SMALL, SMALL.replace("y", "z"), "interface differs: output y is missing"),
    "input": (SMALL, SMALL.replace("x", "b"), "interface differs: input b is new; input x is missing"),
    "type": (SMALL, DOUBLE, f"{DOUBLE_INPUT}; the values agree"),
    "type and values": (SMALL, DOUBLE.replace("Relu", "Abs"), f"{DOUBLE_INPUT}; y: off by up to "),
    "unused input": (
        SMALL.replace("x)", "x, float[N,4] u)", 1),
        SMALL,
        "interface differs: input u is missing; the values agree",
    ),
    "order": (
        SMALL,
        "g (float[N,4] x) => (float[N,4] z, float[N,4] y) { y = Relu(x) z = Neg(x) }",
        "interface differs: the outputs are in a different order: z, y; the values agree",
    ),
}


@cases(("original", "text", "message"), NOT_EQUIVALENT)
def test_non_equivalent_model_is_reported_wrong(
    original: str, text: str, message: str, shared_remote: RemoteBackend, tmp_path: Path
) -> None:
    for row in rows_of(shared_remote, tmp_path, original, text):
        assert row.verdict is not None
        assert row.verdict.wrong.startswith(message)
        assert (row.failure, row.advice, verdict_word(row)) == ("", "", "wrong")


def test_unreadable_result_is_reported(shared_remote: RemoteBackend, tmp_path: Path) -> None:
    (tmp_path / "other.onnx").write_bytes(b"\xff" * 40)
    rows = rows_of(shared_remote, tmp_path, SMALL, "")
    assert [row.failure.startswith("its result cannot be read: ") for row in rows] == [True, True]


def test_load_failure_by_optimization_advises_bisection(shared_remote: RemoteBackend, tmp_path: Path) -> None:
    as_written, online = rows_of(shared_remote, tmp_path, CLIP, kept="kept")
    assert not as_written.is_unusable
    assert online.failure.startswith("onnxruntime cannot load it: ")
    assert online.advice == f"passes bisect {tmp_path / 'kept' / 'm.onnx'} --ort all"
    model = tmp_path / "m.onnx"
    assert bisect_ort(model, "all").blame is not None
    (offline,) = rows_of(shared_remote, tmp_path, CLIP, "", level="basic")  # there is no such file
    assert offline.advice == f"passes bisect {model} --ort basic"


def test_wrong_saved_file_has_no_bisection_advice(shared_remote: RemoteBackend, tmp_path: Path) -> None:
    (row,) = rows_of(shared_remote, tmp_path, SMALL, SMALL.replace("Relu", "Abs"), level="all")
    assert row.advice.startswith("only the saved file is wrong")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["onnxsimm"], "--tools onnxsimm: no optimizer has that name; did you mean onnxsim"),
        (["tvm"], "no optimizer has that name (there are ort, "),
        (["onnxslim"], "--tools onnxslim: it is not installed (pip install onnxslim)"),
    ],
)
def test_unavailable_tools_are_refused(names: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter_names, "find_spec", lambda name: None if name == "onnxslim" else object())
    with pytest.raises(UsageError) as raised:
        select_tools(names)
    assert message in str(raised.value)


def test_installed_tools_are_selected_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter_names, "find_spec", lambda name: object() if name == "onnxruntime" else None)
    chosen, left_out = select_tools(None)
    assert [t.label for t in chosen] == ["ORT basic", "ORT extended", "ORT all"]
    assert left_out["onnxsim"] == "not installed (pip install onnxsim)"
    assert set(left_out) == {"onnxsim", "onnxslim", "onnxoptimizer", "onnxscript"}


def timed_row(made_by: str, *, online: bool, median: float, creation: float, found: ComparisonReport) -> Row:
    latency = Latency(1, 9, median, median, median, median, median, ((median,) * 9,))
    measured = ModelMetrics(creation_seconds=creation, creations=(creation, creation), latencies={1: latency})
    return structs.replace(found.rows[1], made_by=made_by, online=online, measured=measured, failure="")


def test_online_optimization_is_difference_of_rows(found: ComparisonReport) -> None:
    rows = [
        timed_row("a", online=False, median=2e-3, creation=0.1, found=found),
        timed_row("a", online=True, median=1e-3, creation=0.3, found=found),
        timed_row("only offline", online=False, median=1e-3, creation=0.1, found=found),
    ]
    (left,) = online_optimizations(rows)
    assert left.extra_creation_seconds == pytest.approx(0.2)
    assert left.extra_creation_interval == pytest.approx((0.2, 0.2))
    assert left.latency_ratio is not None
    assert left.latency_ratio.ratio == pytest.approx(0.5)
    assert left.nodes - left.nodes_after == rows[1].stats.nodes - rows[1].online_stats.nodes


def with_ops(found: ComparisonReport, **ops: dict[str, int]) -> ComparisonReport:
    """The comparison with these ops in the files and under ORT ALL."""
    stats = {name: ModelStats(counts, 0, 0) for name, counts in ops.items()}
    rows = [
        structs.replace(r, stats=stats[r.made_by], online_stats=stats.get(f"{r.made_by}_online") if r.online else None)
        for r in found.rows
        if r.made_by in stats
    ]
    return replace(found, rows=rows)


def test_operators_under_ort_all(found: ComparisonReport) -> None:
    report = with_ops(
        found,
        original={"Add": 24, "Conv": 53, "Erf": 12, "MatMul": 12, "Relu": 3},
        original_online={"com.microsoft.nchwc.Conv": 53, "com.microsoft.BiasGelu": 12, "Add": 12, "MatMul": 12,
                         "Relu": 3, "com.ms.internal.nhwc.MaxPool": 1, "com.microsoft.Gelu": 1},
        passwright={"Add": 24, "Conv": 53, "Gelu": 12, "MatMul": 12, "com.microsoft.Gelu": 1, "Relu": 3},
        passwright_online={"com.microsoft.nchwc.Conv": 53, "Add": 24, "Gelu": 12, "MatMul": 12, "Relu": 3,
                           "com.microsoft.Gelu": 1},
    )  # fmt: skip
    assert list(operator_lines(report)) == [
        (
            "fused or inserted by onnxruntime, original -> passwright: NCHWc Conv 53 -> 53, BiasGelu 12 -> 0, "
            "com.microsoft.Gelu 1 -> 0, NHWC MaxPool 1 -> 0"
        ),
        "other operators that run under ORT ALL, original -> passwright: Add 12 -> 24, Gelu 0 -> 12",
    ]
    data = {entry["op"]: entry for entry in json.loads(report.to_json())["online_operators"]}
    assert data["com.microsoft.Gelu"] == {
        "op": "com.microsoft.Gelu", "original": 1, "result": 1, "made_from_original": 1, "made_from_result": 0
    }  # fmt: skip
    assert {"MatMul", "Relu", "Erf", "Conv"}.isdisjoint(data)
    page = samples.compare_page(report, samples.report(), None)
    assert page.count("NCHWc Conv") == 1
    assert "BiasGelu" in page


def test_no_operators_where_what_runs_is_unknown(found: ComparisonReport) -> None:
    report = with_ops(found, original={"Relu": 1}, original_online={"Relu": 1}, passwright={"Relu": 1})
    assert report.online_operators == []
    assert list(operator_lines(report)) == []
    assert "Operators under ORT ALL" not in samples.compare_page(report, samples.report(), None)


def test_operators_of_a_real_comparison(tmp_path: Path) -> None:
    """Both have the NCHWc convolution; a Gelu and its bias are fused by onnxruntime, or by us and then by it."""
    text = """g (float[1,16,8,8] x, float[N,8] u) => (float[1,16,8,8] y, float[N,8] z)
        <float[8] b = {1,2,3,4,5,6,7,8}, float root = {1.4142135}, float one = {1}, float half = {0.5}> {
        c = Conv<pads=[1,1,1,1]>(x, w) y = Relu(c)
        a = Add(u, b) d = Div(a, root) e = Erf(d) f = Add(e, one) h = Mul(a, f) z = Mul(h, half) }"""
    model = load(text, 18)
    weight = np.random.default_rng(0).normal(size=(16, 16, 3, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(model, tmp_path / "m.onnx")
    counts = {c.name: c for c in compare(tmp_path / "m.onnx", tools=[], **QUICK).online_operators}
    convolutions = [c for name, c in counts.items() if name.endswith("Conv")]
    assert [(c.made_from_original, c.made_from_result) for c in convolutions] == [(1, 1)]
    assert counts["BiasGelu"].made_from_original == 1
    assert counts["BiasGelu"].made_from_result == 1


@pytest.mark.parametrize(
    ("ratio", "message"),
    [
        (RatioInterval(0.9, 0.85, 0.95), "with ORT ALL 0.90 (0.85-0.95) of the original's time"),
        (RatioInterval(0.99, 0.95, 1.03), "with ORT ALL no difference (0.95-1.03) compared with the original's time"),
    ],
)
def test_headline(ratio: RatioInterval, message: str, found: ComparisonReport) -> None:
    rows = [structs.replace(r, ratios={1: ratio}, verdict=ComparisonVerdict(error=0.0)) for r in found.rows]
    line = headline(replace(found, rows=rows))
    assert line == f"passwright: 5 -> 3 nodes, bit-identical; {message}"


def test_rows_with_same_failure_share_a_line(found: ComparisonReport) -> None:
    lines = list(failure_lines(found.rows))
    assert sum("wrong: y: off by" in line for line in lines) == 1
    assert any("original + ORT ALL" in line and "ORT basic" in line for line in lines)
    assert sum("--ort all" in line for line in lines) == 1


def test_unrunnable_model_is_counted_with_exit_code_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake("return onnx.load(path), True", tmp_path, monkeypatch)
    onnx.save(onnx.parser.parse_model(OPAQUE), tmp_path / "m.onnx")
    result = invoke("compare", tmp_path / "m.onnx", "--tools", "onnxsim", "--json", "-", code=4)
    data = json.loads(result.stdout)
    assert data["is_verified"] is False
    assert data["verification"].startswith("nothing was verified: ")
    assert result.stderr == f"error: {data['verification']}\n"
    assert data["notes"][0].startswith("passwright could not verify its result: ")
    assert [row["stats"]["nodes"] for row in data["rows"]] == [2, 2, 1, 1, 2, 2]
    assert all("there is no kernel for " in row["failure"] for row in data["rows"])


@pytest.mark.slow  # docs/compare.md runs the same command on another model
def test_command_on_golden_model(tmp_path: Path) -> None:
    arguments = ["--tools", "ort", "--threads", "1", "--min-time", "0.05", "--json", str(tmp_path / "out.json")]
    result = invoke("compare", GOLDEN / "cnn_training.onnx", *arguments)
    lines = result.stdout.splitlines()
    assert lines[1].startswith("passwright: 12 -> ")
    assert max(len(line) for line in lines if line.startswith(("┃", "│"))) <= 80
    headings = [line.strip("┃ ") for line in lines if line.startswith("┃")]
    for title in ("Right?", "Size", "Speed,", "Loading", "Left for ORT"):
        assert any(heading.startswith(title) for heading in headings), title
    assert "1 thread;" in result.stdout
    assert json.loads((tmp_path / "out.json").read_text())["threads"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--tools", "nothing"], 2, "no optimizer has that name"),
        (["--dim", "rows=2"], 1, "the model has no such symbol"),
        (["--shape", "x:2"], 1, "1 dims given, the input has 2"),
        (["--json", "m.onnx"], 1, "would overwrite"),
        (["--html", "m.onnx"], 1, "would overwrite"),
        (["--json", "a", "--html", "a"], 1, "cannot hold both"),
        (["--keep", "m.onnx"], 1, "is not a folder"),
        (["--pipeline", "nonsense"], 2, "nonsense"),
    ],
)
def test_usage_errors_are_one_line(
    arguments: list[str], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(SMALL, tmp_path)
    monkeypatch.chdir(tmp_path)
    result = invoke("compare", "m.onnx", *arguments, code=code)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_kept_file_does_not_overwrite_model(tmp_path: Path) -> None:
    model = written(SMALL, tmp_path).rename(tmp_path / "passwright.onnx")
    with pytest.raises(ModelError, match="would overwrite"):
        compare(model, tools=[], keep=tmp_path)


def test_verification_uses_given_inputs(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.ones((2, 4), np.float32))
    found = compare(written(SMALL, tmp_path), tools=[], inputs=tmp_path / "in.npz", **QUICK)
    assert "on 1 given sample" in found.verification
    assert len(found.rows) == 4


LOST = Row("onnxsim", "0", online=False, failure="the process died of SIGSEGV " * 9)


def with_long_values(found: ComparisonReport) -> ComparisonReport:
    """A comparison with a long value in every cell."""
    big = ModelStats(
        {f"Op{i}": 1235 for i in range(100)}, 12_345_678_901, 10_700_000_000, ("com.nobody.Opaque",), "odd"
    )
    wide = [
        RatioInterval(0.5, 1e-5, 1e5),
        RatioInterval(0.123456, 0.0123456, 0.2),
        RatioInterval(1234.5, 1000.1, 9999.9),
    ]
    verdicts = [
        ComparisonVerdict(error=24.0, allowed=24.0001, relative=1.9e-05),
        ComparisonVerdict("y: off by up to 2", 2e30, 1.0, "past_sequence_length_of_the_decoder=0", 1e30),
        ComparisonVerdict("y: off by up to 2", 2e30, 1.0, "batch=0", 1e30),
    ]
    latency = Latency(1, 9, 123.456, 123.0, 124.0, 456.789, 899.9, tails=(456.789, 899.9))
    fast = Latency(32, 9, 1e-7, 1e-7, 1e-7, 12.3, 12.3)
    measured = ModelMetrics("", 45.678, 10_700_000_000, 99_900_000_000, 1, {"CPUExecutionProvider": 1}, {1: latency})
    tools = ("original", "passwright", "ORT extended", "onnxoptimizer", "onnxscript")
    rows = [
        Row(name, "1", online, "", 123.4, big, big, verdicts[i % 3],
            replace(measured, latencies={1: latency, 32: fast}), {1: wide[i % 3], 32: wide[(i + 1) % 3]})
        for i, name in enumerate(tools) for online in (False, True)
    ]  # fmt: skip
    bounds = [(120.1, 126.7), (-126.7, -120.1)]
    left = [
        OnlineOptimization(name, 123_456, 100_000, 123.4, wide[i % 3], bounds[i % 2]) for i, name in enumerate(tools)
    ]
    return replace(
        found, rows=[*rows, LOST, structs.replace(LOST, online=True)], online_optimizations=left, batches=[1, 32, 10240]
    )


def test_tables_fit_into_80_columns(
    found: ComparisonReport, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    report = with_long_values(found)
    Terminal().show(describe(report))
    shown = capsys.readouterr().out
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    tables = list(takewhile(lambda line: not line.startswith("errors:"), shown.splitlines()[2:]))
    assert max(map(len, tables)) <= 80
    for cell in (
        "123456    23456", "wrong at batch=0", "wrong at a size of 0", "within tolerance", "1.9e-05 (100%)",
        "1e+03 (1e+03-1e+04)",
        "inconclusive (1e-05-1e+05)", "0.12 (0.012-0.20)", "12,345,678,901", "10.7 GB", "457-900 s", "0.0081",
        "320 M", "within noise", "as written:", "120-127 s", "fails",
        "inconclusive means that the interval is wide and", LOST.failure,
    ):  # fmt: skip
        assert cell in shown, cell


def test_excused_elements_are_not_bit_identical(found: ComparisonReport) -> None:
    assert verdict_word(structs.replace(found.rows[0], verdict=ComparisonVerdict(error=0.0))) == "bit-identical"
    assert (
        verdict_word(structs.replace(found.rows[0], verdict=ComparisonVerdict(error=0.0, excused=2)))
        == "within tolerance"
    )


def test_errors_are_relative_to_magnitude(shared_remote: RemoteBackend, tmp_path: Path) -> None:
    text = "g (float[N,4] x) => (float[N,4] y) <float k = {1e6}> { y = Mul(x, k) }"
    for row in rows_of(shared_remote, tmp_path, text, text.replace("1e6", "1000000.2")):
        verdict = row.verdict
        assert verdict is not None
        assert not verdict.wrong
        assert verdict.error is not None
        assert verdict.relative is not None
        assert verdict.share is not None
        assert verdict.error > 1e-2
        assert verdict.relative < 1e-6
        assert 0 < verdict.share <= 1


RELU = "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"


def test_saved_file_is_verified_at_size_0(shared_remote: RemoteBackend, tmp_path: Path) -> None:
    """A file is verified at the sizes of the original, whatever operators it contains."""
    for row in rows_of(shared_remote, tmp_path, RELU, BAD_AT_0):
        assert row.verdict is not None
        assert (verdict_word(row), row.failure) == ("wrong at N=0", "")


def test_saved_file_that_does_not_run_at_size_0(shared_remote: RemoteBackend, tmp_path: Path) -> None:
    body = "<int64[2] shape = {0, -1}> { r = Reshape(x, shape) y = Relu(r) }"
    for row in rows_of(shared_remote, tmp_path, RELU, f"g (float[N,4] x) => (float[N,4] y) {body}"):
        assert (verdict_word(row), row.failure, row.is_unusable) == ("fails at N=0", "", True)
        assert next(failure_lines([row])).partition(": ")[2].startswith("it fails on ")
