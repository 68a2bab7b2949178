"""`passes run` and `passes batch` on many models: options, sources, rows, results that are kept, and kills."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import onnx
import pytest
from commands import invoke
from dask_cluster import DaskCluster, kill
from page_parser import decompress_json
from passwright.app.cli.entry import app
from passwright.app.commands.actions import ACTIONS
from passwright.app.models.exchange import JobReply
from passwright.app.models.journal import FILE, FinishedJob, ResultJournal
from passwright.app.models.pool import REPEATED, ProcessPool
from passwright.app.models.results import PAGE_NAME, TABLE_NAME
from passwright.app.models.tables import write_table
from passwright.app.report.result_row import COLUMNS
from passwright.app.verify.report import VerificationReport
from passwright.core.io.output_paths import OutputFile
from passwright.core.processes.worker_process import RequestFailed, WorkerError, WorkerExit
from passwright.core.verify.verdict import Mismatch, Verdict
from process_faults import PATIENCE, wait_until
from rewriting import cases, load, op_types
from sample_reports import comparison
from tiers import slow_unless
from typer.testing import CliRunner

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) b = Relu(a) c = Relu(b) y = Mul(c, w) }"
OK, BAD, USAGE, WRONG = range(4)
NO_MODEL = "bad.onnx: not an ONNX model: this is not a protobuf message"
ALL = ("zoo/a.onnx", "zoo/sub/b.onnx", "zoo/c.onnx", "zoo/bad.onnx")
GOLDEN = Path(__file__).parent.parent / "golden_models"

# A rule that removes a Relu, which is wrong.
WRONG_RULE = '''
from passwright.core import EXACT, rule

@rule(lambda g, x: g.Relu(x), contract=EXACT)
def drop(g, x):
    """Relu(x) => x"""
    return x
'''
# Rules of which one crashes at Abs, and one never ends at Sign until there is a file "go".
FAULTS = '''
import os, pathlib, time
from passwright.core import EXACT, require, rule

@rule(lambda g, x: g.Abs(x), contract=EXACT)
def crash(g, x):
    """Abs(x) => x"""
    os.abort()

@rule(lambda g, x: g.Sign(x), contract=EXACT)
def hang(g, x):
    """Sign(x) => x"""
    while not os.path.exists("go"):
        pathlib.Path("hangs").touch()
        time.sleep(0.05)
    require(False, "it hung")
'''


def write(path: Path, weight: float = 2.0, text: str = TEXT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(load(text, weights={"w": np.full(4, weight, np.float32)}), path)
    return path


def write_op(path: Path, op: str) -> Path:
    return write(path, text=f"g (float[4] x) => (float[4] y) {{ a = {op}(x) y = Add(a, w) }}")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: two models that change, one that does not, and one that is none."""
    write(tmp_path / "zoo/a.onnx", 1.5)
    write(tmp_path / "zoo/sub/b.onnx", 2.5)
    write(tmp_path / "zoo/c.onnx", text="g (float[N,4] x) => (float[N,4] y) { y = Mul(x, w) }")
    (tmp_path / "zoo/bad.onnx").write_bytes(b"no model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


run, batch = partial(invoke, "run"), partial(invoke, "batch")


def table(path: str | Path = f"out/{TABLE_NAME}") -> list[dict[str, str]]:
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def cells(name: str, path: str | Path = f"out/{TABLE_NAME}") -> dict[str, str]:
    """A column of a table by the name of the model."""
    return {Path(row["model"]).name: row[name] for row in table(path)}


def page_data(path: str | Path = f"out/{PAGE_NAME}") -> dict[str, Any]:
    match = re.search(r'id="data-models">([^<]+)<', Path(path).read_text(encoding="utf-8"))
    assert match is not None
    return decompress_json(match[1])


@pytest.mark.usefixtures("in_process")
def test_lines_table_and_page(folder: Path) -> None:
    result = batch("zoo", "--output-dir", "out", "--json", "r.json", code=BAD)
    lines = result.stdout.splitlines()
    line = r"zoo/a\.onnx: 4 -> 2 nodes \(-50\.0%\); .*; verified, bit-identical; [\d.]+ m?s"
    assert re.fullmatch(line, lines[0])
    assert re.fullmatch(r"zoo/c\.onnx: 1 nodes?; .*; unchanged, bit-identical; [\d.]+ m?s", lines[1])
    assert result.stderr == "error: zoo/bad.onnx: not an ONNX model: this is not a protobuf message\n"
    assert lines[-1] == "4 models: 2 verified, 1 failed, 1 unchanged; written to out"
    assert op_types(onnx.load("out/sub/b.onnx")) == ["Relu", "Mul"]
    assert list(table()[0]) == list(COLUMNS)
    names = ["zoo/a.onnx", "zoo/bad.onnx", "zoo/c.onnx", "zoo/sub/b.onnx"]
    assert [row["model"] for row in table()] == names
    row = next(row for row in table() if row["model"] == "zoo/sub/b.onnx")
    assert row["output"] == "out/sub/b.onnx"
    assert (row["nodes_before"], row["nodes_after"], row["rewrites"], row["do"]) == ("4", "2", "2", "run")
    assert int(row["bytes_after"]) == (folder / "out/sub/b.onnx").stat().st_size
    assert sum(json.loads(row["rules"]).values()) == 2
    assert cells("error")["bad.onnx"].endswith("this is not a protobuf message")
    data = page_data()
    assert sorted(r[data["columns"].index("model")] for r in data["rows"]) == names
    document = json.loads(Path("r.json").read_text())
    assert document["exit_code"] == BAD
    assert document["outcomes"] == {"verified": 2, "failed": 1, "unchanged": 1}
    assert [m["model"] for m in document["models"]] == ["zoo/a.onnx", "zoo/bad.onnx", "zoo/c.onnx", "zoo/sub/b.onnx"]


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("width", [80, 40])
def test_table_of_models_and_of_outcomes(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.chdir("zoo")
    monkeypatch.setenv("COLUMNS", str(width))
    models = ("a.onnx", "sub/b.onnx", "c.onnx", "bad.onnx")
    lines = run(*models, "--output-dir", "out/new", "--no-verify", code=BAD).stdout.splitlines()
    assert max(len(line) for line in lines if line[0] in "│├┃") <= width
    assert any("bytes" in line for line in lines if line.startswith("┃")) == (width == 80)
    assert cells_of_table(lines) == [
        ("a.onnx", "4 -> 2", "not verified"), ("sub/b.onnx", "4 -> 2", "not verified"),
        ("c.onnx", "1 -> 1", "unchanged"), ("bad.onnx", "", "failed"), ("all 4", "9 -> 5", ""),
    ]  # fmt: skip
    assert lines[-1] == "4 models: 2 not verified, 1 unchanged, 1 failed; written to out/new"
    lines = run("bad.onnx", "--output-dir", "none", code=BAD).stdout.splitlines()
    assert lines[-1] == "1 model: 1 failed; nothing written"
    monkeypatch.setattr("passwright.app.models.document.MAX_ROWS", 3)
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(*models, "--output-dir", "out/new", "--no-verify", "--resume", code=BAD).stdout.splitlines()
    assert cells_of_table(lines) == [
        ("done before", "9 -> 5", "3"), ("failed", "", "1"), ("all 4", "9 -> 5", ""),
    ]  # fmt: skip


def cells_of_table(lines: Sequence[str]) -> list[tuple[str, str, str]]:
    """The first two cells of each row, and the last one."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")]
    return [(row[0], row[1], row[-1]) for row in rows]


@pytest.mark.usefixtures("in_process")
def test_results_are_those_of_single_runs() -> None:
    run("zoo/a.onnx", "zoo/sub", "--output-dir", "out")
    for name in ("a.onnx", "sub/b.onnx"):
        run(f"zoo/{name}", "-o", "single.onnx")
        assert Path("single.onnx").read_bytes() == Path("out", name).read_bytes()


@pytest.mark.usefixtures("in_process")
def test_checks_and_dry_runs(folder: Path) -> None:
    before = {p: p.read_bytes() for p in folder.rglob("*.onnx")}
    a, c, bad = "zoo/a.onnx", "zoo/c.onnx", "zoo/bad.onnx"
    shown = run(a, c, "--check", "--json", "r.json", code=WRONG).stdout
    assert "zoo/a.onnx: 4 -> 2 nodes" in shown
    assert shown.splitlines()[-1] == "2 models: 1 would change, 1 unchanged; nothing written: this was a check"
    document = json.loads((folder / "r.json").read_text())
    assert [m["exit_code"] for m in document["models"]] == [WRONG, OK]
    (folder / "r.json").unlink()
    run(c, "zoo/../zoo/c.onnx", "--check", "--no-verify")
    assert run(bad, a, "--check", "--no-verify", code=WRONG).stderr == f"error: zoo/{NO_MODEL}\n"
    run(bad, c, "--check", "--no-verify", code=BAD)
    shown = run(a, "zoo/sub", "--dry-run", "--no-verify").stdout
    assert shown.count("#0 ") == 2
    assert shown.splitlines()[-1] == "2 models: 2 would change; nothing written: this was a dry run"
    run(a, "zoo/sub", "--dry-run", "--check", "--no-verify", code=WRONG)
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


@pytest.mark.usefixtures("in_process")
def test_in_place(folder: Path) -> None:
    unchanged = (folder / "zoo/c.onnx").read_bytes()
    result = run("zoo/*.onnx", "zoo/sub", "--in-place", "--no-verify", code=BAD)
    assert result.stdout.splitlines()[-1] == "4 models: 2 not verified, 1 failed, 1 unchanged; written in place"
    assert op_types(onnx.load("zoo/a.onnx")) == op_types(onnx.load("zoo/sub/b.onnx")) == ["Relu", "Mul"]
    assert (folder / "zoo/c.onnx").read_bytes() == unchanged
    assert {p.name for p in (folder / "zoo").iterdir()} == {"a.onnx", "bad.onnx", "c.onnx", "sub"}


@pytest.mark.usefixtures("in_process")
def test_quiet_and_verbose_runs() -> None:
    result = run(*ALL, "--output-dir", "out", "-q", "--no-verify", code=BAD)
    assert (result.stdout, result.stderr) == ("", f"error: zoo/{NO_MODEL}\n")
    result = run("zoo/a.onnx", "zoo/sub", "--check", "-v", "--no-verify", code=WRONG)
    assert result.stdout.count("┃ op") == 2
    assert "declined at" in result.stderr


@pytest.mark.usefixtures("in_process")
def test_mistakes_of_this_program_end_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from passwright.app.optimize import optimize

    real = optimize.optimize_model

    def fail(model: Any, *options: Any) -> Any:
        return real(model, *options) if "a.onnx" not in str(model) else 1 / 0

    monkeypatch.setattr(optimize, "optimize_model", fail)
    result = run("zoo/a.onnx", "zoo/c.onnx", "--check", "--no-verify", code=BAD)
    assert "error: zoo/a.onnx: ZeroDivisionError: division by zero" in result.stderr
    assert "Traceback" in result.stderr
    assert "1 unchanged" in result.stdout


@cases(
    ("arguments", "message"),
    {
        "map": ("--map m.json", "--map works on a single model"),
        "html": ("--html p.html", "--html works on a single model"),
        "repro": ("--repro r", "--repro works on a single model"),
        "-o": ("-o o.onnx", "-o and --output-dir are mutually exclusive"),
        "in place": ("--in-place", "--output-dir and --in-place are mutually exclusive"),
        "race": ("--check-speed --jobs 2", "--check-speed runs one model at a time"),
        "no folder": ("--output-dir zoo/a.onnx/out", "cannot write to zoo/a.onnx/out"),
        "json": ("--json zoo/a.onnx", "zoo/a.onnx is a model or the place of a result"),
        "json in a folder that is missing": ("--json out/c.onnx", "cannot write to out/c.onnx"),
    },
)
def test_refused_runs(folder: Path, arguments: str, message: str) -> None:
    code = BAD if arguments.startswith(("--json", "--output-dir")) else USAGE
    result = run("zoo/a.onnx", "zoo/c.onnx", "--output-dir", "out", *arguments.split(), code=code)
    assert result.stderr.startswith(f"error: {message}")
    assert result.stderr.count("\n") == 1
    assert not (folder / "out").exists()
    assert "--resume needs --output-dir" in run("zoo/a.onnx", "--check", "--resume", code=USAGE).stderr


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("command", ["run", "batch"])
def test_summary_of_a_folder(folder: Path, command: str) -> None:
    """The table and the page of a journal, of a batch or of `passes run`."""
    shown = invoke(command, "zoo", "--output-dir", "out", "--no-verify", code=BAD).stdout
    batch("--summarize", "out", "-q")
    before = {name: (folder / "out" / name).read_bytes() for name in (TABLE_NAME, PAGE_NAME)}
    assert cells("outcome") == {
        "a.onnx": "not verified", "b.onnx": "not verified", "bad.onnx": "failed", "c.onnx": "unchanged",
    }  # fmt: skip
    again = batch("--summarize", "out", "--table", "t.parquet", "--html", "p.html").stdout.splitlines()
    assert again[0].startswith("┏")
    assert again[-1].partition("; ")[0] == shown.splitlines()[-1].partition("; ")[0]
    parquet = pytest.importorskip("pyarrow.parquet").read_table("t.parquet").to_pylist()
    assert [row["nodes_after"] for row in parquet] == [2, None, 1, 2]
    assert list(parquet[0]) == list(COLUMNS)
    assert (folder / "p.html").read_bytes() == before[PAGE_NAME]
    with (folder / "out" / FILE).open("ab") as journal:
        journal.write(b"cut")
    batch("--summarize", "out", "-q")
    assert (folder / "out" / TABLE_NAME).read_bytes() == before[TABLE_NAME]


def test_tables_have_no_formulas(tmp_path: Path) -> None:
    """Numbers stay numbers, and texts that a spreadsheet would compute have an apostrophe before them."""
    shown = {
        "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(1)": "'@SUM(1)", " =1": "' =1", "\uff1d1": "'\uff1d1",
        "a;=1": "a;'=1", "a; -1": "a;' -1", "\t=1": r"\t=1", "\r=1": r"\r=1",
        '"=1': '"=1', "a=1": "a=1", "a-b;c": "a-b;c", "1-2": "1-2",
    }  # fmt: skip
    rows = [{"text": text, "number": -1.5, "count": -2} for text in shown]
    write_table(OutputFile.at(tmp_path / "t.csv"), rows, {"text": str, "number": float, "count": int})
    with (tmp_path / "t.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert {(row["number"], row["count"]) for row in found} == {("-1.5", "-2")}
    assert [row["text"] for row in found] == list(shown.values())


@pytest.mark.usefixtures("in_process")
def test_options_are_those_of_the_command(folder: Path) -> None:
    (folder / "wrong.py").write_text(WRONG_RULE)
    result = batch("zoo/a.onnx", "zoo/c.onnx", "--plugin", "wrong.py", "--output-dir=out", "--verify=quick")
    assert "zoo/a.onnx: warning: skipped wrong/drop #2 at" in result.stderr
    assert [left_out[0] for left_out in json.loads(cells("rejected")["a.onnx"])] == ["drop"]
    assert "drop at" in str(page_data()["rows"])
    assert '<td class="said">zoo/a.onnx at' in Path("out", PAGE_NAME).read_text()
    batch("zoo/a.onnx", "--output-dir", "strict", "--plugin", "wrong.py", "--strict", code=WRONG)
    assert cells("outcome", f"strict/{TABLE_NAME}") == {"a.onnx": "wrong"}
    batch("zoo/c.onnx", "--opset", "20", "--output-dir", "new")
    assert cells("opset_after", f"new/{TABLE_NAME}") == {"c.onnx": "20"}
    (folder / "passwright.toml").write_text("[run]\nopset = 21\n")
    batch("zoo/c.onnx", "--output-dir", "set")
    assert cells("opset_after", f"set/{TABLE_NAME}") == {"c.onnx": "21"}
    batch("zoo/c.onnx", "--output-dir", "unset", "--no-settings")
    assert cells("opset_after", f"unset/{TABLE_NAME}") != {"c.onnx": "21"}


def test_an_action_takes_options_of_its_class() -> None:
    """Another class lacks options that only the command has, on which models would then fail."""
    assert [a.name for a in ACTIONS.values() if get_type_hints(a.function)["options"] is not a.options] == []


@pytest.mark.slow  # the test above needs no tools
@pytest.mark.usefixtures("in_process", "_commands_measure_briefly")
def test_tools_are_compared(folder: Path) -> None:
    batch("zoo/a.onnx", "--do", "compare", "--min-time=0.01", "--output-dir=out")
    assert cells("outcome") == {"a.onnx": "compared"}


@pytest.mark.usefixtures("in_process")
def test_pairs_are_compared(folder: Path) -> None:
    batch("zoo/a.onnx", "zoo/c.onnx", "zoo/sub", "--output-dir", "out", "--no-verify")
    write(folder / "out/c.onnx", 3.0, "g (float[N,4] x) => (float[N,4] y) { y = Mul(x, w) }")
    (folder / "out/sub/b.onnx").unlink()
    result = batch(
        "zoo/a.onnx", "zoo/c.onnx", "zoo/sub", "--do", "verify", "--other=out", "--output-dir=checked", code=WRONG
    )
    path = f"checked/{TABLE_NAME}"
    assert cells("outcome", path) == {"a.onnx": "verified", "c.onnx": "wrong", "b.onnx": "failed"}
    assert cells("verdict", path) == {"a.onnx": "no difference seen", "c.onnx": "", "b.onnx": ""}
    assert cells("error", path)["c.onnx"].startswith("y: ")
    assert "error: zoo/c.onnx: y: " in result.stderr
    assert not list(folder.glob("checked/**/*.onnx"))
    again = ("--do", "verify", "--other=out", "--output-dir=checked", "--resume", "-q")
    result = batch("zoo/a.onnx", "zoo/c.onnx", *again, code=WRONG)
    assert result.stderr == ""
    write(folder / "out/c.onnx", 2.0, "g (float[N,4] x) => (float[N,4] y) { y = Mul(x, w) }")
    batch("zoo/a.onnx", "zoo/c.onnx", *again)


@pytest.mark.usefixtures("in_process")
def test_an_engine_runs_each_model(folder: Path) -> None:
    write(folder / "zoo/relu.onnx", 1.0, "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    engine = f"--engine={Path(__file__).parent / 'planted_engine.py'}"
    batch("zoo/c.onnx", "zoo/relu.onnx", "--do", "verify", engine, "--output-dir=checked", code=WRONG)
    assert cells("outcome", f"checked/{TABLE_NAME}") == {"c.onnx": "verified", "relu.onnx": "wrong"}


@pytest.mark.usefixtures("in_process")
def test_settings_are_searched_for_each_model(folder: Path) -> None:
    """Several pipelines are options of one command."""
    briefly = ("--pipeline", "basic,ort", "--trials", "1", "--time", "3", "--threads", "1")
    batch("zoo/a.onnx", "zoo/c.onnx", "--do", "tune", *briefly, "--output-dir=tuned")
    assert set(cells("outcome", f"tuned/{TABLE_NAME}")) == {"a.onnx", "c.onnx"}
    assert (folder / "tuned/a.onnx").is_file()
    assert (folder / "tuned/c_settings.json").is_file()


def test_rows_of_a_comparison_say_on_which_inputs_it_fails() -> None:
    verdict = Verdict("onnxruntime", True, (), {}, failure=Mismatch("", "there is no kernel", None, None))
    assert VerificationReport("a", "b", [], verdict).columns["error"] == "it does not load: there is no kernel"


@pytest.mark.usefixtures("in_process")
def test_options_of_each_row(folder: Path) -> None:
    """Paths are seen from the folder of the table, and a model may be there more than once."""
    rows = ["model,opset,skip,exact,output", 'a.onnx,20,"[""merge-constants"", ""lift-constants""]",true,']
    rows += ["a.onnx,,,no,other/a.onnx", "sub/b.onnx,,lift-constants,,"]
    (folder / "zoo/t.csv").write_text("\n".join(["# two models", "# and one", *rows]))
    batch("zoo/t.csv", "zoo/c.onnx", "--no-verify", "--output-dir", "out")
    assert {row["output"]: row["options"] for row in table()} == {
        "out/a.onnx": "'--opset=20 --skip=merge-constants --skip=lift-constants --exact",
        "out/c.onnx": "",
        "out/other/a.onnx": "",
        "out/sub/b.onnx": "'--skip=lift-constants",  # no formula of a spreadsheet
    }
    assert onnx.load("out/a.onnx").opset_import[0].version == 20
    assert op_types(onnx.load("out/other/a.onnx")) == ["Relu", "Mul"]


OPTION = {name: f"model,{name}\nzoo/a.onnx,abc\n" for name in ("opset", "opsit", "quiet", "plugin", "exact")}


@pytest.mark.usefixtures("in_process")
@cases(
    ("arguments", "message"),
    {
        "nothing": ("", "name models, folders or tables, or give --summarize DIR"),
        "both": ("zoo --summarize zoo", "--summarize takes no models"),
        "no journal": ("--summarize zoo", "zoo has no journal of results"),
        "no folder": ("--summarize none", "none is not a folder"),
        "no place": ("zoo/a.onnx", "give --output-dir DIR"),
        "no command": ("zoo --do nothing", "--do nothing: choose from run, quantize, "),
        "no other": ("zoo --do verify", "zoo/a.onnx: nothing to compare with: give --other"),
        "other of run": ("zoo --other x", "--other is for --do verify"),
        "table": ("zoo --table t.xls", "t.xls: the name of a table must end in .csv or .parquet"),
        "same files": ("zoo --table r.csv --html r.csv", "r.csv cannot hold both"),
        "html": ("zoo --html zoo/a.onnx", "zoo/a.onnx is a model or the place of"),
        "cluster": ("zoo --jobs 2 --on tcp://x:1", "--jobs is for this machine"),
        "option of the command": ("zoo/c.onnx --verify x", "--verify x: choose from"),
        "no table": ("none.csv", "none.csv does not exist"),
        "no folder of models": ("zoo models", "models does not exist"),
    },
)
def test_refused_batches(folder: Path, arguments: str, message: str) -> None:
    place = [] if arguments in {"", "zoo/a.onnx"} or "--summarize" in arguments else ["--output-dir=out"]
    require_refused(folder, [*arguments.split(), *place], message)


@pytest.mark.usefixtures("in_process")
@cases(
    ("text", "message"),
    {
        "value": (OPTION["opset"], "t.csv, row 1: Invalid value for '--opset'"),
        "column": (OPTION["opsit"], "the column opsit is not an option"),
        "not own": (OPTION["quiet"], "the column quiet is not an option"),
        "code": (OPTION["plugin"], "row 1: plugin may run code"),
        "flag": (OPTION["exact"], "row 1: exact must be true or false"),
        "up": ("model,output\nzoo/a.onnx,../x\n", "is not below"),
        "twice": ("model\nzoo/a.onnx\nzoo/a.onnx\n", "is in t.csv, row 1, too"),
        "journal": (f"model,output\nzoo/a.onnx,{FILE}\n", "is the journal of the folder"),
        "folder": ("model\nzoo\n", "t.csv, row 1: zoo is not a single model"),
        "no model": ("name\nx\n", "t.csv, row 1: no model"),
        "two columns": ("model,model\na,b\n", "two columns are named model"),
        "no name": ("model,\na,b\n", "a column has no name"),
        "cells": ("model\na,b\n", "row 1: more cells than columns"),
        "quote": ('model\n"a\n', "t.csv is not a table in CSV"),
        "empty": ("model\n", "t.csv has no rows"),
        "null": ("model\na\0b\n", "row 1: model has a null character"),
    },
)
def test_refused_tables(folder: Path, text: str, message: str) -> None:
    (folder / "t.csv").write_text(text)
    require_refused(folder, ["t.csv", "--output-dir=out"], message)


def require_refused(folder: Path, arguments: Sequence[str], message: str) -> None:
    result = CliRunner().invoke(app, ["batch", *arguments])
    assert result.exit_code in {BAD, USAGE}
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not list(folder.glob("out/**/*.onnx"))


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("option", ["--map=x", "--dry-run", "--in-place", "--format=text", "--repro=x", "--none"])
def test_options_for_one_model_are_none_of_a_batch(option: str) -> None:
    assert f"no such option: {option.partition('=')[0]}" in batch("zoo", "--output-dir=out", option, code=USAGE).stderr


def test_help_has_the_options_of_the_command() -> None:
    assert "Options of passes" not in batch("--help").stdout
    text = batch("--do", "quantize", "--help").stdout
    assert "Options of passes quantize:" in text
    assert "--budget LOSS" in text
    assert "--journal" not in text


def test_results_are_kept(folder: Path, in_process: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of change does the models again that it concerns, and no others; failures are done again."""
    external = {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0}
    onnx.save(load(TEXT.replace("4]", "512]"), weights={"w": np.ones(512, np.float32)}), "zoo/a.onnx", **external)

    def done(*options: str, code: int = BAD) -> list[str]:
        in_process.clear()
        batch("zoo", "--output-dir", "out", "--resume", "--no-verify", *options, code=code)
        return sorted(in_process)

    everything = ["a.onnx", "b.onnx", "c.onnx"]  # the digest of the other one cannot be computed
    assert done() == everything
    expected = table()
    assert done() == []
    assert table() == expected
    write(folder / "zoo/sub/b.onnx", 3.5)
    assert done() == ["b.onnx"]
    with (folder / "zoo/w.bin").open("r+b") as data:
        data.write(np.float32(7).tobytes())
    assert done() == ["a.onnx"]
    (folder / "out/c.onnx").unlink()
    assert done() == ["c.onnx"]
    (folder / "out/c.onnx").write_bytes(b"")
    assert done() == ["c.onnx"]
    assert done("--exact") == everything
    (folder / "p.py").write_text(WRONG_RULE)
    assert done("--skip", "drop", "--plugin", "p.py") == everything
    assert done("--skip", "drop", "--plugin", "p.py", "--trust-settings", "--json", "r.json") == []
    assert json.loads((folder / "r.json").read_text())["models"][0]["report"] is None
    (folder / "p.py").write_text(f"{WRONG_RULE}\n")
    assert done("--skip", "drop", "--plugin", "p.py") == everything
    write(folder / "zoo/bad.onnx")
    assert done("--skip", "drop", "--plugin", "p.py", code=OK) == ["bad.onnx"]
    monkeypatch.setattr("passwright.app.models.conditions.versions", lambda: {"onnx": "2"})
    assert done("--skip", "drop", "--plugin", "p.py", code=OK) == ["a.onnx", "b.onnx", "bad.onnx", "c.onnx"]
    in_process.clear()
    batch("zoo", "--output-dir", "out", "--no-verify")
    assert len(in_process) == 4


@pytest.mark.usefixtures("in_process")
def test_results_in_another_place(folder: Path) -> None:
    batch("zoo/a.onnx", "--output-dir", "out", "--store", "stored/here", "--no-verify", "--json", "r.json")
    assert [p.name for p in (folder / "stored/here").iterdir()] == ["a.onnx"]
    assert json.loads((folder / "r.json").read_text())["models"][0]["report"]["after"]["nodes"] == 2
    assert sorted(p.name for p in (folder / "out").iterdir()) == [FILE, TABLE_NAME, PAGE_NAME]
    assert cells("output") == {"a.onnx": "stored/here/a.onnx"}
    (folder / "stored/here/a.onnx").write_bytes(b"")
    batch("zoo/a.onnx", "--output-dir", "out", "--store", "stored/here", "--no-verify", "--resume")
    assert op_types(onnx.load("stored/here/a.onnx")) == ["Relu", "Mul"]


def test_columns_of_comparisons() -> None:
    report = comparison()
    columns = report.columns
    assert columns["outcome"] == "compared"
    assert set(columns) <= set(COLUMNS)
    ours = report.row_of("passwright", online=True)
    assert ours is not None
    assert columns.get("latency_ratio") == next((r.ratio for r in ours.ratios.values()), None)


def results(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.onnx")}


@pytest.mark.usefixtures("in_process")
@cases(
    ("damage", "again"),
    {
        "cut": ((b"}]\n", b""), ["a.onnx", "b.onnx"]),
        "changed": ((b'"row":', b'"raw":'), ["a.onnx", "b.onnx"]),
        "other bytes": ((b'"a.onnx",', b'"\xff.onnx",'), ["a.onnx"]),
        "empty lines": ((b"\n", b"\n" * 9), []),
    },
)
def test_damaged_journal(folder: Path, in_process: list[str], damage: tuple[bytes, bytes], again: list[str]) -> None:
    arguments = ("zoo/a.onnx", "zoo/sub", "--output-dir", "out", "--no-verify", "--resume")
    run(*arguments)
    journal, expected = folder / "out" / FILE, results(folder / "out")
    journal.write_bytes(journal.read_bytes().replace(*damage))
    in_process.clear()
    assert run(*arguments).stderr.startswith(f"warning: {Path('out', FILE)} is damaged")
    assert in_process == again
    assert results(folder / "out") == expected
    assert "2 done before" in run(*arguments).stdout
    journal.unlink()
    journal.mkdir()
    assert "cannot be read: Is a directory" in run("zoo/a.onnx", "--output-dir", "out", code=BAD).stderr


def test_journals_have_names_that_are_not_utf8(folder: Path) -> None:
    row = {"model": "\udcff.onnx", "outcome": "failed", "latency_ratio": float("nan")}
    ResultJournal(folder).add(folder / "\udcff.onnx", FinishedJob("c", "", row))
    finished = ResultJournal(folder)
    assert finished.damaged == 0
    assert finished.get(folder / "\udcff.onnx") == FinishedJob(
        "c", "", {"model": "\\udcff.onnx", "outcome": "failed", "latency_ratio": None}
    )


def test_journal_does_not_grow(folder: Path) -> None:
    finished = ResultJournal(folder)
    for number in range(10):
        finished.add(folder / "a.onnx", FinishedJob(str(number), "r", {}))
    lines = (folder / FILE).read_bytes().count(b"\n")
    found = ResultJournal(folder).get(folder / "a.onnx")
    assert (lines, found, (folder / FILE).read_bytes().count(b"\n")) == (10, FinishedJob("9", "r", {}), 1)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "80", **more}


RUN = """import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from passwright.app.cli.entry import main
sys.argv[0] = "passes"
main()"""


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


def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, "batch", *arguments],
        env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def test_crash_costs_one_model(folder: Path) -> None:
    """Real workers; the models of others are done."""
    (folder / "faults.py").write_text(FAULTS)
    for op in ("Abs", "Ceil"):
        write_op(folder / f"crash/{op}.onnx", op)
    result = batch("crash", "--output-dir=out", "--plugin=faults.py", "--no-verify", "--jobs=1", code=BAD)
    assert result.stderr == "error: crash/Abs.onnx: the process crashed (SIGABRT)\n"
    assert cells("outcome") == {"Abs.onnx": "crashed", "Ceil.onnx": "unchanged"}
    assert {p.name for p in (folder / "out").iterdir()} == {"Ceil.onnx", FILE, TABLE_NAME, PAGE_NAME}


def test_ends_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows about models whose workers ended, all that a pool may reply."""
    ends: list[WorkerError | dict[str, Any]] = [
        WorkerExit(-signal.SIGABRT, 9.0, ""),
        WorkerExit(None, 9.0, ""),
        RequestFailed("no"),
        JobReply({"outcome": "unchanged"}).message() | {REPEATED: "the process crashed (SIGABRT)"},
    ]
    monkeypatch.setattr(ProcessPool, "replies", lambda *_: (end for end in enumerate(ends)))
    result = batch("zoo", "--output-dir=out", code=BAD)
    assert sorted(result.stderr.splitlines()) == [
        "error: zoo/a.onnx: the process crashed (SIGABRT)",
        "error: zoo/bad.onnx: the process did not end within 9 s",
        "error: zoo/c.onnx: no",
    ]
    names = ("a.onnx", "bad.onnx", "c.onnx", "b.onnx")
    outcomes = ("crashed", "timed out", "crashed", "unchanged")
    assert cells("outcome") == dict(zip(names, outcomes, strict=True))
    assert cells("repeated") == dict.fromkeys(names, "") | {"b.onnx": "the process crashed (SIGABRT)"}


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]


@pytest.mark.parametrize("how", slow_unless({signal.SIGINT, signal.SIGKILL}, SIGNALS))
def test_killed_batches_go_on(folder: Path, how: signal.Signals) -> None:
    (folder / "faults.py").write_text(FAULTS)
    (folder / "temp").mkdir()
    for name in ("a", "c"):
        write(folder / f"many/{name}.onnx")
    write_op(folder / "many/b.onnx", "Sign")
    arguments = ("many", "--output-dir=out", "--plugin=faults.py", "--jobs=1", "--no-verify", "--resume")
    process = start(*arguments, TMPDIR=str(folder / "temp"))
    try:
        wait_until((folder / "hangs").exists)
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
        first = (folder / "out/a.onnx").stat()
        batch("--summarize", "out")
        assert cells("outcome") == {"a.onnx": "not verified"}
        if how == signal.SIGINT:
            (folder / "go").touch()
            process = start(*arguments)
            shown, errors = process.communicate(timeout=PATIENCE)
            assert (process.returncode, errors) == (OK, "")
            assert shown.splitlines()[-1] == "3 models: 1 done before, 1 unchanged, 1 not verified; written to out"
            assert "\x1b" not in shown
            assert (folder / "out/a.onnx").stat() == first
    finally:
        if group_members(process.pid):
            os.killpg(process.pid, signal.SIGKILL)


def require_results_of_single_runs(models: Sequence[Path]) -> None:
    Path("single").mkdir()
    for model in models:
        single = Path("single", model.name)
        invoke("run", model, "-o", single, "--verify", "quick")
        assert single.read_bytes() == Path("out", model.name).read_bytes(), model
    data = [
        {p.name: p.read_bytes() for p in Path(folder).iterdir() if "data" in p.name} for folder in ("single", "out")
    ]
    assert data[0] == data[1]


@pytest.mark.slow
def test_results_of_a_cluster_are_those_of_single_runs(folder: Path) -> None:
    """Of two Dask workers, one is killed after the first result."""
    models = [GOLDEN / f"{name}.onnx" for name in ("cnn_half", "cnn_qdq", "cond_dynamo", "crnn")]
    (folder / "dask").mkdir()
    with DaskCluster(folder / "dask", workers=2) as cluster:
        process = start(*map(str, models), "--output-dir=out", "--verify=quick", f"--on={cluster.address}")
        assert process.stdout is not None
        process.stdout.readline()
        kill(cluster.workers[0])
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == OK, errors
    require_results_of_single_runs(models)
    assert sorted(cells("outcome")) == [model.name for model in models]


@pytest.mark.slow
def test_results_of_golden_models_are_those_of_single_runs() -> None:
    models = sorted(GOLDEN.glob("*.onnx"))
    process = start(*map(str, models), "--output-dir=out", "--verify=quick")
    _, errors = process.communicate(timeout=PATIENCE * 10)
    assert process.returncode == OK, errors
    require_results_of_single_runs(models)
