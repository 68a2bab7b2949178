"""`passes batch`: options, sources, rows, table and page, results that are kept, crashes, hangs and kills."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dask_cluster import DaskCluster, kill
from passwright.app.cli.entry import app
from passwright.app.models.journal import FILE
from passwright.app.models.many_models import PAGE_NAME, TABLE_NAME
from passwright.app.report.rendering import decompress_json
from passwright.app.report.result_row import COLUMNS
from rewriting import load, op_types
from sample_reports import comparison
from test_many_runs import RUN, environment, group_members, wait_until
from tiers import slow_unless
from typer.testing import CliRunner, Result

TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) b = Relu(a) c = Relu(b) y = Mul(c, w) }"
OK, BAD, USAGE, WRONG = range(4)
PATIENCE = 300.0  # seconds, used up by failures only
GOLDEN = Path(__file__).parent.parent / "golden_models"

# A rule that removes a Relu, which is wrong.
WRONG_RULE = '''
from passwright.core import EXACT, rule

@rule(lambda g, x: g.Relu(x), contract=EXACT)
def drop(g, x):
    """Relu(x) => x"""
    return x
'''
# A rule that crashes at Abs, once at Ceil, and never ends at Sign until there is a file "go".
FAULTS = '''
import os, pathlib, time
from passwright.core import EXACT, rule

@rule(lambda g, x: g.Abs(x), contract=EXACT)
def crash(g, x):
    """Abs(x) => x"""
    os.abort()

@rule(lambda g, x: g.Ceil(x), contract=EXACT)
def crash_once(g, x):
    """Ceil(x) => x"""
    if not os.path.exists("crashed"):
        pathlib.Path("crashed").touch()
        os.abort()

@rule(lambda g, x: g.Sign(x), contract=EXACT)
def hang(g, x):
    """Sign(x) => x"""
    while not os.path.exists("go"):
        pathlib.Path("hangs").touch()
        time.sleep(0.05)
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


def batch(*arguments: str | Path, code: int = OK) -> Result:
    result = CliRunner().invoke(app, ["batch", *map(str, arguments)])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


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
def test_summary_of_a_folder(folder: Path) -> None:
    """The table and the page of a record are those of the batch, and of `passes run` on many models."""
    batch("zoo", "--output-dir", "out", "--no-verify", code=BAD)
    before = {name: (folder / "out" / name).read_bytes() for name in (TABLE_NAME, PAGE_NAME)}
    for name in before:
        (folder / "out" / name).unlink()
    shown = batch("--summarize", "out").stdout
    assert shown.splitlines()[-1].startswith("4 models: 2 not verified, 1 failed, 1 unchanged")
    assert {name: (folder / "out" / name).read_bytes() for name in before} == before
    batch("--summarize", "out", "--table", "t.parquet", "--html", "p.html", "-q")
    parquet = pytest.importorskip("pyarrow.parquet").read_table("t.parquet").to_pylist()
    assert [row["nodes_after"] for row in parquet] == [2, None, 1, 2]
    assert list(parquet[0]) == list(COLUMNS)
    assert (folder / "p.html").read_bytes() == before[PAGE_NAME]
    with (folder / "out" / FILE).open("ab") as record:
        record.write(b"cut")
    batch("--summarize", "out", "-q")
    assert (folder / "out" / TABLE_NAME).read_bytes() == before[TABLE_NAME]


@pytest.mark.usefixtures("in_process")
def test_summary_of_runs() -> None:
    result = CliRunner().invoke(app, ["run", "zoo/a.onnx", "zoo/c.onnx", "--output-dir", "out", "--no-verify"])
    assert result.exit_code == OK
    batch("--summarize", "out")
    assert cells("outcome") == {"a.onnx": "not verified", "c.onnx": "unchanged"}
    assert cells("nodes_after") == {"a.onnx": "2", "c.onnx": "1"}


@pytest.mark.usefixtures("in_process")
def test_options_are_those_of_the_command(folder: Path) -> None:
    (folder / "wrong.py").write_text(WRONG_RULE)
    result = batch("zoo/a.onnx", "zoo/c.onnx", "--plugin", "wrong.py", "--output-dir=out", "--verify=quick")
    assert "zoo/a.onnx: warning: left out wrong/drop #2 at" in result.stderr
    assert [left_out[0] for left_out in json.loads(cells("rejected")["a.onnx"])] == ["drop"]
    assert "drop at" in str(page_data()["rows"])
    assert '<td class="said"><span class="name">zoo/a.onnx</span> at' in Path("out", PAGE_NAME).read_text()
    batch("zoo/a.onnx", "--output-dir", "strict", "--plugin", "wrong.py", "--strict", code=WRONG)
    assert cells("outcome", f"strict/{TABLE_NAME}") == {"a.onnx": "wrong"}
    batch("zoo/c.onnx", "--opset", "20", "--output-dir", "new")
    assert cells("opset_after", f"new/{TABLE_NAME}") == {"c.onnx": "20"}
    (folder / "passwright.toml").write_text("[run]\nopset = 21\n")
    batch("zoo/c.onnx", "--output-dir", "set")
    assert cells("opset_after", f"set/{TABLE_NAME}") == {"c.onnx": "21"}
    batch("zoo/c.onnx", "--output-dir", "unset", "--no-settings")
    assert cells("opset_after", f"unset/{TABLE_NAME}") != {"c.onnx": "21"}


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
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_options_of_each_row(folder: Path, suffix: str) -> None:
    """Paths are seen from the folder of the table, and a model may be there more than once."""
    rows = [
        {"model": "a.onnx", "opset": 20, "skip": '["merge-constants", "lift-constants"]', "exact": "true"},
        {"model": "a.onnx", "opset": None, "output": "other/a.onnx", "exact": "no"},
        {"model": "sub/b.onnx", "opset": None, "skip": "lift-constants"},
    ]
    names = ["model", "opset", "skip", "exact", "output"]
    path = folder / f"zoo/t{suffix}"
    if suffix == ".csv":
        with path.open("w", newline="") as file:
            file.write("# two models\n# and one\n")
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
    else:
        pa = pytest.importorskip("pyarrow")
        full = [{name: row.get(name) for name in names} for row in rows]
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(full), path)
    batch("zoo/t" + suffix, "zoo/c.onnx", "--no-verify", "--output-dir", "out")
    found = {row["output"]: row["options"] for row in table()}
    assert found == {
        "out/a.onnx": "--opset=20 --skip=merge-constants --skip=lift-constants --exact",
        "out/c.onnx": "",
        "out/other/a.onnx": "",
        "out/sub/b.onnx": "--skip=lift-constants",
    }
    assert onnx.load("out/a.onnx").opset_import[0].version == 20
    assert op_types(onnx.load("out/other/a.onnx")) == ["Relu", "Mul"]


def changed(column: str, value: str = "abc") -> str:
    """A table with a column of options."""
    return f"model,{column}\nzoo/a.onnx,{value}\n"


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("arguments", "files", "message"),
    [
        pytest.param([], {}, "name models, folders or tables, or give --summarize DIR", id="nothing"),
        pytest.param(["zoo", "--summarize", "zoo"], {}, "--summarize takes no models", id="both"),
        pytest.param(["--summarize", "zoo"], {}, "zoo has no journal of results", id="no record"),
        pytest.param(["--summarize", "none"], {}, "none is not a folder", id="no folder"),
        pytest.param(["zoo/a.onnx"], {}, "--output-dir DIR has to say", id="no place"),
        pytest.param(["zoo", "--do", "nothing"], {}, "--do nothing: choose from run, quantize, ", id="no command"),
        pytest.param(["zoo", "--do", "verify"], {}, "zoo/a.onnx: nothing to compare with: give --other", id="no other"),
        pytest.param(["zoo", "--other", "x"], {}, "--other is for --do verify", id="other of run"),
        pytest.param(["zoo", "--table", "t.xls"], {}, "t.xls: a table ends in .csv or .parquet", id="table"),
        pytest.param(["zoo", "--table", "r.csv", "--html", "r.csv"], {}, "r.csv cannot hold both", id="same files"),
        pytest.param(["zoo", "--html", "zoo/a.onnx"], {}, "zoo/a.onnx is a model or the place of", id="html"),
        pytest.param(["zoo", "--jobs", "2", "--on", "tcp://x:1"], {}, "--jobs is for this machine", id="cluster"),
        pytest.param(["zoo/a.onnx", "--verify", "x"], {}, "--verify x: choose from", id="option of the command"),
        pytest.param(["t.csv"], {"t.csv": changed("opset")}, "t.csv, row 1: Invalid value for '--opset'", id="value"),
        pytest.param(["t.csv"], {"t.csv": changed("opsit")}, "the column opsit is no option", id="column"),
        pytest.param(["t.csv"], {"t.csv": changed("quiet")}, "the column quiet is no option", id="not own"),
        pytest.param(["t.csv"], {"t.csv": changed("plugin")}, "row 1: plugin may run code", id="code"),
        pytest.param(["t.csv"], {"t.csv": changed("exact")}, "row 1: exact is true or false", id="flag"),
        pytest.param(["t.csv"], {"t.csv": changed("output", "../x")}, "is not below", id="up"),
        pytest.param(["t.csv"], {"t.csv": "model\nzoo/a.onnx\nzoo/a.onnx\n"}, "is in t.csv, row 1, too", id="twice"),
        pytest.param(["t.csv"], {"t.csv": changed("output", FILE)}, "is the journal of the folder", id="record"),
        pytest.param(["t.csv"], {"t.csv": "model\nzoo\n"}, "t.csv, row 1: zoo is not one model", id="folder"),
        pytest.param(["t.csv"], {"t.csv": "name\nx\n"}, "t.csv, row 1: no model", id="no model"),
        pytest.param(["t.csv"], {"t.csv": "model,model\na,b\n"}, "two columns are named model", id="two columns"),
        pytest.param(["t.csv"], {"t.csv": "model,\na,b\n"}, "a column has no name", id="no name"),
        pytest.param(["t.csv"], {"t.csv": "model\na,b\n"}, "row 1: more cells than columns", id="cells"),
        pytest.param(["t.csv"], {"t.csv": 'model\n"a\n'}, "t.csv is not a table in CSV", id="quote"),
        pytest.param(["t.csv"], {"t.csv": "model\n"}, "t.csv has no rows", id="empty"),
        pytest.param(["t.parquet"], {"t.parquet": "PAR1"}, "t.parquet is not a table in Parquet", id="no parquet"),
        pytest.param(["t.csv"], {"t.csv": "model\na\0b\n"}, "row 1: model has a null character", id="null"),
        pytest.param(["none.csv"], {}, "none.csv does not exist", id="no table"),
    ],
)  # fmt: skip
def test_refused(folder: Path, arguments: list[str], files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)
    has_place = arguments not in ([], ["zoo/a.onnx"]) and "--summarize" not in arguments
    result = CliRunner().invoke(app, ["batch", *arguments, *["--output-dir=out"] * has_place])
    assert result.exit_code in {BAD, USAGE}
    assert re.match(r"error: ", result.stderr)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not list(folder.glob("out/**/*.onnx"))


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("option", ["--map=x", "--dry-run", "--in-place", "--format=text", "--repro=x", "--none"])
def test_options_for_one_model_are_none_of_a_batch(option: str) -> None:
    assert f"No such option: {option.partition('=')[0]}" in batch("zoo", "--output-dir=out", option, code=USAGE).stderr


def test_help_has_the_options_of_the_command() -> None:
    assert "Options of passes" not in batch("--help").stdout
    text = batch("--do", "quantize", "--help").stdout
    assert "Options of passes quantize:" in text
    assert "--budget LOSS" in text
    assert "--journal" not in text


def test_results_are_kept(
    folder: Path,
    in_process: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, "batch", *arguments],
        env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def test_crashes_and_hangs_cost_one_model(folder: Path) -> None:
    """Real processes: a crash, another that is not repeated, and a hang; each is tried twice."""
    (folder / "faults.py").write_text(FAULTS)
    for op in ("Abs", "Ceil"):
        write_op(folder / f"crash/{op}.onnx", op)
    write_op(folder / "hang/Sign.onnx", "Sign")
    options = ("--output-dir=out", "--plugin=faults.py", "--no-verify", "--jobs=1")
    for models, more, error in (
        ("crash", "-q", "crash/Abs.onnx: the process crashed (SIGABRT)"),
        ("hang", "--timeout=1", "hang/Sign.onnx: the process did not end within 1 s"),
    ):
        process = start(models, *options, more)
        _, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (BAD, f"error: {error}\n")
    assert cells("outcome") == {"Abs.onnx": "crashed", "Ceil.onnx": "unchanged", "Sign.onnx": "timed out"}
    assert cells("repeated")["Ceil.onnx"] == "the process crashed (SIGABRT)"
    names = {p.name for p in (folder / "out").iterdir()}
    assert names == {"Ceil.onnx", FILE, TABLE_NAME, PAGE_NAME}


@pytest.mark.parametrize("how", slow_unless({signal.SIGINT}, [signal.SIGINT, signal.SIGKILL]))
def test_killed_batches_go_on(folder: Path, how: signal.Signals) -> None:
    (folder / "faults.py").write_text(FAULTS)
    for name in ("a", "c"):
        write(folder / f"many/{name}.onnx")
    write_op(folder / "many/b.onnx", "Sign")
    arguments = ("many", "--output-dir=out", "--plugin=faults.py", "--jobs=1", "--no-verify", "--resume")
    process = start(*arguments)
    try:
        wait_until((folder / "hangs").exists)
        process.send_signal(how)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode in {128 + how, -how}
        if how == signal.SIGINT:
            assert errors == (
                "interrupted: 1 of 3 models are done, and their results are kept; --resume runs the others\n"
            )
        wait_until(lambda: not group_members(process.pid))
        assert sorted(p.name for p in (folder / "out").iterdir()) == [FILE, "a.onnx"]
        first = (folder / "out/a.onnx").stat()
        batch("--summarize", "out")
        assert cells("outcome") == {"a.onnx": "not verified"}
        (folder / "go").touch()
        process = start(*arguments)
        shown, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (OK, "")
        assert shown.splitlines()[-1] == "3 models: 1 done before, 1 unchanged, 1 not verified; written to out"
        assert (folder / "out/a.onnx").stat() == first
    finally:
        if group_members(process.pid):
            os.killpg(process.pid, signal.SIGKILL)


def golden_results(models: Sequence[Path], *options: str) -> None:
    """Results of a batch by the pool are those of single runs, byte for byte."""
    process = start(*map(str, models), "--output-dir=out", "--verify=quick", *options)
    _, errors = process.communicate(timeout=PATIENCE * 10)
    assert process.returncode == OK, errors
    require_results_of_single_runs(models)


def require_results_of_single_runs(models: Sequence[Path]) -> None:
    Path("single").mkdir()
    for model in models:
        single = Path("single", model.name)
        result = CliRunner().invoke(app, ["run", str(model), "-o", str(single), "--verify", "quick"])
        assert result.exit_code == OK
        assert single.read_bytes() == Path("out", model.name).read_bytes(), model
    data = [
        {p.name: p.read_bytes() for p in Path(folder).iterdir() if "data" in p.name} for folder in ("single", "out")
    ]
    assert data[0] == data[1]


def test_results_are_those_of_single_runs() -> None:
    golden_results([GOLDEN / "crnn.onnx", GOLDEN / "cnn_qdq.onnx"])


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
def test_results_of_all_golden_models_are_those_of_single_runs() -> None:
    golden_results(sorted(GOLDEN.glob("*.onnx")))
