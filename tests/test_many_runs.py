"""`passes run` on many models: lines, table, exit code, JSON, results that are kept, and processes that end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.app.cli.entry import app
from passwright.app.models.journal import FILE, FinishedJob, ResultJournal
from rewriting import load, op_types
from tiers import slow_unless
from typer.testing import CliRunner, Result

pytestmark = pytest.mark.usefixtures("_few_combined_inputs")
COMMAND = str(Path(sys.executable).with_name("passes"))
TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) b = Relu(a) c = Relu(b) y = Mul(c, w) }"
OK, BAD, USAGE, WRONG = range(4)
NO_MODEL = "bad.onnx: not an ONNX model: this is not a protobuf message"
PATIENCE = 300.0  # seconds, used up by failures only

CRASH = '''
import os
from passwright.core import EXACT, rule

@rule(lambda g, x: g.Abs(x), contract=EXACT)
def crash(g, x):
    """Abs(x) => x"""
    os.abort()
'''
# A rule that never ends, and says where it is.
HANG = '''
import os, pathlib, time
from passwright.core import EXACT, rule

@rule(lambda g, x: g.Abs(x), contract=EXACT)
def hang(g, x):
    """Abs(x) => x"""
    pathlib.Path(os.environ["TOLD"]).write_text(str(os.getpid()))
    while True:
        time.sleep(0.05)
'''


def write(path: Path, weight: float = 2.0, text: str = TEXT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(load(text, weights={"w": np.full(4, weight, np.float32)}), path)
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: two models that change, one that does not, and one that is none."""
    write(tmp_path / "a.onnx", 1.5)
    write(tmp_path / "sub/b.onnx", 2.5)
    write(tmp_path / "c.onnx", text="g (float[N,4] x) => (float[N,4] y) { y = Mul(x, w) }")
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str | Path, code: int = OK) -> Result:
    result = CliRunner().invoke(app, ["run", *map(str, arguments)])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


ALL = ("a.onnx", "sub/b.onnx", "c.onnx", "bad.onnx")


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("width", [80, 40])
def test_lines_and_table(folder: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    result = run(*ALL, "--output-dir", "out/new", code=BAD)
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"a\.onnx: 4 -> 2 nodes \(-50\.0%\); \d+ bytes -> \d+ bytes \(-[\d.]+%\); verified.*", lines[0])
    assert lines[1].startswith("sub/b.onnx: 4 -> 2 nodes")
    assert re.fullmatch(r"c\.onnx: 1 node; \d+ bytes; unchanged, bit-identical; [\d.]+ m?s", lines[2])
    assert result.stderr == f"error: {NO_MODEL}\n"
    table = [line for line in lines if line[0] in "│├┃"]
    assert max(map(len, table)) <= width
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in table if "├" not in line and "┃" not in line]
    change, total = ("4 -> 2", "9 -> 5") if width == 80 else ("-50.0%", "-44.4%")
    assert [(c[0], c[1], c[-1]) for c in cells] == [
        ("a.onnx", change, "verified"),
        ("sub/b.onnx", change, "verified"),
        ("c.onnx", "1 -> 1" if width == 80 else "1", "unchanged"),
        ("bad.onnx", "", "failed"),
        ("all 4", total, ""),
    ]
    assert lines[-1] == "4 models: 2 verified, 1 unchanged, 1 failed; written to out/new"
    written = {p.relative_to(folder / "out/new").as_posix() for p in (folder / "out/new").rglob("*.onnx")}
    assert written == {"a.onnx", "sub/b.onnx", "c.onnx"}
    assert op_types(onnx.load("out/new/sub/b.onnx")) == ["Relu", "Mul"]


@pytest.mark.usefixtures("in_process")
def test_results_are_those_of_single_runs() -> None:
    run("a.onnx", "sub", "--output-dir", "out")
    for name in ("a.onnx", "sub/b.onnx"):
        run(name, "-o", "single.onnx")
        assert Path("single.onnx").read_bytes() == Path("out", name).read_bytes()


@pytest.mark.usefixtures("in_process")
def test_outcomes_of_many_models_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passwright.app.models.rows.MAX_ROWS", 3)
    lines = run(*ALL, "--output-dir", "out", code=BAD).stdout.splitlines()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")]
    assert [(r[0], r[1], r[-1]) for r in rows] == [
        ("verified", "8 -> 4", "2"), ("unchanged", "1 -> 1", "1"), ("failed", "", "1"), ("all 4", "9 -> 5", ""),
    ]  # fmt: skip


@pytest.mark.usefixtures("in_process")
def test_checks_and_dry_runs(folder: Path) -> None:
    before = {p: p.read_bytes() for p in folder.rglob("*.onnx")}
    result = run("a.onnx", "c.onnx", "--check", code=WRONG)
    assert "a.onnx: 4 -> 2 nodes" in result.stdout
    assert result.stdout.splitlines()[-1] == (
        "2 models: 1 would change, 1 unchanged; nothing written: this was a check"
    )
    run("c.onnx", "c.onnx", "--check")
    assert run("bad.onnx", "a.onnx", "--check", code=WRONG).stderr == f"error: {NO_MODEL}\n"
    run("bad.onnx", "c.onnx", "--check", code=BAD)
    result = run("a.onnx", "sub", "--dry-run")
    assert result.stdout.count("#0 ") == 2
    assert result.stdout.splitlines()[-1] == "2 models: 2 would change; nothing written: this was a dry run"
    run("a.onnx", "sub", "--dry-run", "--check", code=WRONG)
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


@pytest.mark.usefixtures("in_process")
def test_in_place(folder: Path) -> None:
    unchanged = (folder / "c.onnx").read_bytes()
    result = run("*.onnx", "sub", "--in-place", code=BAD)
    assert result.stdout.splitlines()[-1] == "4 models: 2 verified, 1 failed, 1 unchanged; written in place"
    assert op_types(onnx.load("a.onnx")) == op_types(onnx.load("sub/b.onnx")) == ["Relu", "Mul"]
    assert (folder / "c.onnx").read_bytes() == unchanged
    run("a.onnx", "sub", "--check")
    assert {p.name for p in folder.iterdir()} == {"a.onnx", "bad.onnx", "c.onnx", "sub"}


@pytest.mark.usefixtures("in_process")
def test_json_of_many_models(folder: Path) -> None:
    run(*ALL, "--output-dir", "out", "--json", "r.json", code=BAD)
    document = json.loads((folder / "r.json").read_text())
    assert document["exit_code"] == BAD
    assert set(document["versions"]) == {"passwright", "onnx", "onnxruntime"}
    found = {m["model"]: (m["outcome"], m["exit_code"], m["error"], m["output"]) for m in document["models"]}
    assert list(found) == list(ALL)
    assert found["sub/b.onnx"] == ("verified", OK, None, str(Path("out/sub/b.onnx")))
    assert found["bad.onnx"] == ("failed", BAD, NO_MODEL, None)
    assert document["models"][0]["report"]["after"]["nodes"] == 2
    assert document["models"][3]["report"] is None
    shown = run("a.onnx", "c.onnx", "--check", "--json", "-", code=WRONG).stdout
    assert [m["exit_code"] for m in json.loads(shown)["models"]] == [WRONG, OK]


@pytest.mark.usefixtures("in_process")
def test_quiet_and_verbose_runs() -> None:
    result = run(*ALL, "--output-dir", "out", "-q", code=BAD)
    assert result.stdout == ""
    assert result.stderr == f"error: {NO_MODEL}\n"
    result = run("a.onnx", "sub", "--check", "-v", code=WRONG)
    assert result.stdout.count("verified: ") == 2
    assert result.stdout.count("┃ op") == 2
    assert "declined at" in result.stderr


@pytest.mark.usefixtures("in_process")
def test_warnings_name_the_model(folder: Path) -> None:
    wrong = CRASH.replace("Abs", "Relu").replace("os.abort()", "return x")
    (folder / "wrong.py").write_text(wrong)
    result = run("a.onnx", "c.onnx", "--output-dir", "out", "--plugin", "wrong.py")
    assert "a.onnx: warning: left out wrong/crash" in result.stderr
    assert "c.onnx" not in result.stderr
    result = run("a.onnx", "c.onnx", "--output-dir", "strict", "--plugin", "wrong.py", "--strict", code=WRONG)
    assert "1 wrong" in result.stdout
    assert not (folder / "strict/a.onnx").exists()


@pytest.mark.usefixtures("in_process")
def test_mistakes_of_this_program_end_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from passwright.app.optimize import optimize

    real = optimize.optimize_model

    def fail(model: Any, *options: Any) -> Any:
        return real(model, *options) if "a.onnx" not in str(model) else 1 / 0

    monkeypatch.setattr(optimize, "optimize_model", fail)
    result = run("a.onnx", "c.onnx", "--check", code=BAD)
    assert "error: a.onnx: ZeroDivisionError: division by zero" in result.stderr
    assert "Traceback" in result.stderr
    assert "1 unchanged" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--map", "m.json"], "--map is for one model", id="map"),
        pytest.param(["--html", "p.html"], "--html is for one model", id="html"),
        pytest.param(["--repro", "r"], "--repro is for one model", id="repro"),
        pytest.param(["-o", "o.onnx"], "-o and --output-dir exclude each other", id="-o"),
        pytest.param(["--in-place"], "--output-dir and --in-place exclude each other", id="in place"),
        pytest.param(["--check-speed", "--jobs", "2"], "--check-speed runs one model at a time", id="race"),
        pytest.param(["--output-dir", "a.onnx/out"], "cannot write to a.onnx/out", id="no folder"),
        pytest.param(["--json", "a.onnx"], "a.onnx is a model or the place of a result", id="json"),
        pytest.param(["--json", "out/c.onnx"], "cannot write to out/c.onnx", id="json in a folder that is missing"),
    ],
)
def test_options_for_one_model(folder: Path, arguments: list[str], message: str) -> None:
    code = BAD if arguments[0] in {"--json", "--output-dir"} else USAGE
    result = run("a.onnx", "c.onnx", "--output-dir", "out", *arguments, code=code)
    assert result.stderr.startswith(f"error: {message}")
    assert result.stderr.count("\n") == 1
    assert not (folder / "out").exists()
    assert "--resume is for --output-dir" in run("a.onnx", "--check", "--resume", code=USAGE).stderr


def results(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.onnx")}


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("damage", "again"),
    [
        pytest.param((b"}]\n", b""), ["a.onnx", "b.onnx"], id="cut"),
        pytest.param((b'"row":', b'"raw":'), ["a.onnx", "b.onnx"], id="changed"),
        pytest.param((b'"a.onnx",', b'"\xff.onnx",'), ["a.onnx"], id="other bytes"),
        pytest.param((b"\n", b"\n" * 9), [], id="empty lines"),
    ],
)
def test_damaged_record(folder: Path, damage: tuple[bytes, bytes], again: list[str]) -> None:
    run("a.onnx", "sub", "--output-dir", "out", "--no-verify")
    record, expected = folder / "out" / FILE, results(folder / "out")
    record.write_bytes(record.read_bytes().replace(*damage))
    result = run("a.onnx", "sub", "--output-dir", "out", "--resume", "--no-verify")
    assert result.stderr.startswith(f"warning: {Path('out', FILE)} is damaged")
    names = [line.partition(":")[0] for line in result.stdout.splitlines() if "; not verified; " in line]
    assert [Path(name).name for name in names] == again
    assert results(folder / "out") == expected
    result = run("a.onnx", "sub", "--output-dir", "out", "--resume", "--no-verify")
    assert "2 done before" in result.stdout
    record.unlink()
    record.mkdir()
    assert "cannot be read: Is a directory" in run("a.onnx", "--output-dir", "out", code=BAD).stderr


def test_record_does_not_grow(folder: Path) -> None:
    finished = ResultJournal(folder)
    for number in range(10):
        finished.add(folder / "a.onnx", FinishedJob(str(number), "r", {}))
    lines = (folder / FILE).read_bytes().count(b"\n")
    found = ResultJournal(folder).get(folder / "a.onnx")
    assert (lines, found, (folder / FILE).read_bytes().count(b"\n")) == (10, FinishedJob("9", "r", {}), 1)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "80", **more}


def test_crash_of_one_run(folder: Path) -> None:
    """Real processes: the model that crashes one costs no other its result, and a pipe gets no control codes."""
    write(folder / "abs.onnx", text="g (float[4] x) => (float[4] y) { a = Abs(x) y = Add(a, w) }")
    (folder / "crash.py").write_text(CRASH)
    done = subprocess.run(
        [COMMAND, "run", "abs.onnx", "a.onnx", "sub/*.onnx", "--output-dir", "out", "--plugin", "crash.py", "--jobs=1"],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == BAD
    assert done.stderr == "error: abs.onnx: the process crashed (SIGABRT)\n"
    assert "3 models: 2 verified, 1 crashed; written to out" in done.stdout
    assert "\x1b" not in done.stdout
    assert sorted(p.name for p in (folder / "out").iterdir()) == [FILE, "a.onnx", "sub"]


RUN = """import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from passwright.app.cli.entry import main
sys.argv[0] = "passes"
main()"""


def wait_until(holds: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def group_members(group: int) -> list[int]:
    """The processes of a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, member = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        found += [int(stat.parent.name)] * (int(member) == group and state != "Z")
    return found


@pytest.mark.parametrize(
    "how", slow_unless({signal.SIGINT, signal.SIGKILL}, [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
)
def test_interrupted_runs_keep_what_is_done(folder: Path, how: signal.Signals) -> None:
    write(folder / "z.onnx", text="g (float[4] x) => (float[4] y) { a = Abs(x) y = Add(a, w) }")
    (folder / "hang.py").write_text(HANG)
    (folder / "temp").mkdir()
    arguments = ["run", "a.onnx", "z.onnx", "c.onnx", "--output-dir", "out", "--plugin", "hang.py", "--jobs=1"]
    arguments.append("--no-verify")
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments],
        env=environment(TOLD=str(folder / "told"), TMPDIR=str(folder / "temp")),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        wait_until((folder / "told").exists)
        wait_until((folder / "out" / FILE).exists)  # the command has read the reply about the first model
        process.send_signal(how)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode in {128 + how, -how}
        if how != signal.SIGKILL:
            assert errors == (
                "interrupted: 1 of 3 models are done, and their results are kept; --resume runs the others\n"
            )
            assert not [p for p in (folder / "temp").iterdir() if p.name != ".ses"]
        wait_until(lambda: not group_members(process.pid))
        assert sorted(p.name for p in (folder / "out").iterdir()) == [FILE, "a.onnx"]
    finally:
        if group_members(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
