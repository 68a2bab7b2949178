"""Results in a cache: their conditions, what is kept and what is not, damage, size, and several processes at once."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.app.cli import app
from passwright.app.jobs import byte_count
from passwright.app.jobs.content_digests import bytes_digest, regular_file_digest
from passwright.app.jobs.result_cache import MAGIC, DamagedEntry, NotKept, ResultCache
from passwright.app.run import cached_runs, optimize, run_conditions
from passwright.app.run.cached_runs import CachedRun
from passwright.app.run.run_exchange import options_text
from passwright.app.run.run_options import RunOptions
from passwright.core.errors import FailureKind, ModelError, UsageError
from passwright.core.run.quarantine import RejectedChange
from passwright.core.run.report import Report
from passwright.core.support.folders import OpenFolder
from passwright.core.support.watchdog import TimedNote
from process_faults import in_fork, kill_at, limited, start_fork, status_of
from rewriting import load, op_types
from sample_reports import report as sample_report
from typer.testing import CliRunner, Result

import passwright

pytestmark = pytest.mark.usefixtures("_few_combined_inputs")
TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) b = Relu(a) c = Relu(b) y = Mul(c, w) }"
OK, BAD, USAGE, WRONG = range(4)
KEY = "0123456789abcdef" * 2
FROM_CACHE = "from the cache: an earlier run"
PLUGIN = '''
from helper import AMOUNT
from passwright.core import EXACT, rule

@rule(lambda g, x: g.Abs(x), contract=EXACT)
def keep_abs(g, x):
    """Abs(x) => nothing"""
    return None
'''


def write_models(folder: Path) -> None:
    """A model whose weights are in it, and one with external data."""
    onnx.save(load(TEXT, weights={"w": np.full(4, 2, np.float32)}), folder / "m.onnx")
    large = load(TEXT.replace("4]", "512]"), weights={"w": np.arange(512, dtype=np.float32)})
    onnx.save(large, folder / "e.onnx", save_as_external_data=True, location="e.bin", size_threshold=100)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with two models."""
    write_models(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The entries of both models, by the names of these."""
    folder = tmp_path_factory.mktemp("kept")
    write_models(folder)
    found: dict[str, Path] = {}
    for name in ("m.onnx", "e.onnx"):
        passwright.optimize(folder / name, cache=folder / name[0])
        (found[name],) = (folder / name[0]).iterdir()
    return found


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that were run, not taken from a cache."""
    found: list[str] = []
    real = optimize.run_pipeline

    def run_pipeline(model: Any, *options: Any) -> Any:
        found.append(getattr(model, "name", None) or str(model))
        return real(model, *options)

    monkeypatch.setattr(optimize, "run_pipeline", run_pipeline)
    return found


def run(*arguments: str | Path, code: int = OK) -> Result:
    result = CliRunner().invoke(app, ["run", *map(str, arguments)])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def report_of(file: str) -> dict[str, Any]:
    """The report in a file, without what differs between a run and its result from a cache."""
    return {k: v for k, v in json.loads(Path(file).read_text()).items() if k not in {"cache", "written_to"}}


def test_second_run(ran: list[str]) -> None:
    first = run("m.onnx", "-o", "1.onnx", "--cache", "c", "--json", "1.json", "--map", "1.map")
    second = run("m.onnx", "-o", "2.onnx", "--cache", "c", "--json", "2.json", "--map", "2.map")
    assert ran == ["m.onnx"]
    assert Path("1.onnx").read_bytes() == Path("2.onnx").read_bytes()
    assert Path("1.map").read_text() == Path("2.map").read_text()
    assert op_types(onnx.load("2.onnx")) == ["Relu", "Mul"]
    assert report_of("1.json") == report_of("2.json")
    assert json.loads(Path("1.json").read_text())["cache"] == {"is_found": False, "is_kept": True, "notes": []}
    assert json.loads(Path("2.json").read_text())["cache"] == {"is_found": True, "is_kept": False, "notes": []}
    one, two = first.stdout.splitlines(), second.stdout.splitlines()
    assert two.pop(2).startswith(FROM_CACHE)
    assert [line.replace("2.onnx", "1.onnx") for line in two] == one
    assert Path("1.onnx").stat().st_mode == Path("2.onnx").stat().st_mode
    (entry,) = Path("c").iterdir()
    assert (Path("c").stat().st_mode & 0o777, entry.stat().st_mode & 0o777) == (0o700, 0o600)


def test_other_ways_to_write(ran: list[str], folder: Path) -> None:
    run("m.onnx", "--cache", "c")
    assert FROM_CACHE in run("m.onnx", "--cache", "c", "--check", code=WRONG).stdout
    result = CliRunner().invoke(app, ["run", "m.onnx", "-o", "-", "--cache", "c"])
    assert result.exit_code == OK
    assert op_types(onnx.load_from_string(result.stdout_bytes)) == ["Relu", "Mul"]
    stream = CliRunner().invoke(app, ["run", "-", "-o", "s.onnx", "--cache", "c"], input=Path("m.onnx").read_bytes())
    assert "standard input: 4 -> 2 nodes" in stream.stdout
    assert Path("s.onnx").read_bytes() == result.stdout_bytes
    (folder / "copy.onnx").write_bytes(Path("m.onnx").read_bytes())
    assert "copy.onnx: 4 -> 2 nodes" in run("copy.onnx", "--in-place", "--cache", "c").stdout
    assert Path("copy.onnx").read_bytes() == result.stdout_bytes
    assert ran == ["m.onnx"]
    run("m.onnx", "--dry-run", "--cache", "c")
    assert "Identity" in run("m.onnx", "--dry-run", "--cache", "c").stdout
    assert ran == ["m.onnx"] * 2
    run("m.onnx", "--map", "m.map", "--cache", "c")  # the first run made none
    assert ran == ["m.onnx"] * 3
    assert "the model would overwrite m.onnx" in run("m.onnx", "-o", "m.onnx", "--cache", "c", code=BAD).stderr


def test_external_data(ran: list[str], folder: Path) -> None:
    """The names of external data follow from that of the model; they are replaced with it, and never overwritten."""
    run("e.onnx", "-o", "1.onnx", "--cache", "c")
    run("e.onnx", "-o", "22.onnx", "--cache", "c")
    assert ran == ["e.onnx"]
    run("e.onnx", "-o", "22-run.onnx")
    (data,) = folder.glob("22.onnx.*.data")
    assert data.read_bytes() == next(folder.glob("1.onnx.*.data")).read_bytes()
    expected = onnx.load("22-run.onnx").SerializeToString(deterministic=True)
    assert onnx.load("22.onnx").SerializeToString(deterministic=True) == expected
    ran.clear()
    weights = Path("e.bin").read_bytes()
    Path("e.bin").write_bytes(weights[4:] + weights[:4])
    assert FROM_CACHE not in run("e.onnx", "-o", "1.onnx", "--cache", "c").stdout
    assert ran == ["e.onnx"]
    assert FROM_CACHE in run("e.onnx", "--in-place", "--cache", "c").stdout
    assert op_types(onnx.load("e.onnx")) == ["Relu", "Mul"]
    assert not Path("e.bin").exists() or onnx.load("e.onnx")


def test_many_models(monkeypatch: pytest.MonkeyPatch, ran: list[str], folder: Path) -> None:
    from passwright.app.jobs import job_pool
    from passwright.app.run import run_worker

    def replies(_: object, requests: list[dict[str, Any]]) -> Any:
        for number, request in enumerate(requests):
            (reply,) = run_worker.TASK.reply_to(request)
            yield number, reply

    monkeypatch.setattr(job_pool.JobPool, "replies", replies)
    run("m.onnx", "e.onnx", "--output-dir", "1", "--cache", "c")
    result = run("m.onnx", "e.onnx", "--output-dir", "2", "--cache", "c", "--json", "r.json")
    assert ran == ["m.onnx", "e.onnx"]
    assert result.stdout.count("; verified, bit-identical, from the cache\n") == 2
    models = json.loads(Path("r.json").read_text())["models"]
    assert [m["report"]["cache"]["is_found"] for m in models] == [True, True]
    names = [sorted(p.name for p in (folder / number).iterdir() if p.suffix != ".jsonl") for number in "12"]
    assert names[0] == names[1]
    assert Path("1/m.onnx").read_bytes() == Path("2/m.onnx").read_bytes()


def test_library(ran: list[str]) -> None:
    model = onnx.load("m.onnx")
    x = {"x": np.ones((2, 4), np.float32)}
    first = passwright.optimize(model, cache="c", inputs=x)
    second = passwright.optimize(model, cache="c", inputs={"x": x["x"].copy()})
    assert len(ran) == 1
    assert second.report.cache is not None
    assert second.report.cache.is_found
    assert first.model.SerializeToString(deterministic=True) == second.model.SerializeToString(deterministic=True)
    first.save("1.onnx")
    second.save("2.onnx")
    assert Path("1.onnx").read_bytes() == Path("2.onnx").read_bytes()
    assert "from the cache" in second._repr_html_()
    passwright.optimize(model, cache="c", inputs={"x": x["x"] * 2})
    assert len(ran) == 2
    run("e.onnx", "--cache", "c")
    external = passwright.optimize("e.onnx", cache="c")
    assert external.report.cache is not None
    assert external.report.cache.is_found  # as the command has the same options
    again = passwright.optimize("e.onnx", cache="c")
    assert external.model.SerializeToString() == again.model.SerializeToString()
    with pytest.raises(ModelError, match="overwrite"):
        again.save("e.bin")
    with pytest.raises(UsageError, match="0 bytes"):
        passwright.optimize(model, cache="c", cache_size=0)


@pytest.mark.parametrize("place", [["-o", "o.onnx"], ["--output-dir", "o"]], ids=["one", "many"])
def test_nothing_is_imported_to_answer(place: list[str]) -> None:
    """Neither onnxruntime nor the passes, by a command or a worker, which starts no other process."""
    run("m.onnx", "--cache", "c")
    code = (
        "import sys, subprocess; from passwright.app.cli import app\n"
        "def refuse(*_, **__): raise AssertionError\n"
        "subprocess.Popen.__init__ = refuse\n"
        "from passwright.app.jobs.job_pool import JobPool; from passwright.app.run.run_worker import TASK\n"
        "JobPool.replies = lambda _, requests: ((n, *TASK.reply_to(r)) for n, r in enumerate(requests))\n"
        f"try: app(['run', 'm.onnx', *{place}, '--cache', 'c'])\n"
        "finally: print([m for m in ('onnxruntime', 'passwright.passes.pipelines') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "from the cache" in result.stdout, result.stderr
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("model", ["m.onnx", "e.onnx"])
def test_conditions_without_passes(model: str) -> None:
    """The record of a folder has the same digest for a result from the cache as for one of a run."""
    run(model, "--cache", "c")
    options = RunOptions(cache="c")
    cached = CachedRun.of(model, options)
    assert cached is not None
    known, text = cached.dependencies(), options_text(options)
    assert known is not None
    expected = run_conditions.run_conditions(Path(model), text)
    assert run_conditions.run_conditions(Path(model), text, known) == expected
    Path("e.bin").write_bytes(bytes(2048))
    assert (cached.dependencies() is None) == (model == "e.onnx")


def conditions(**options: Any) -> str:
    return run_conditions.options_digest(RunOptions(**options))


@pytest.mark.parametrize(
    "options",
    [
        {"pipeline": "ort"}, {"exact": True}, {"seed": 1}, {"only": ["fold-constants"]}, {"skip": ["fold-constants"]},
        {"verify": "quick"}, {"dims": {"N": 2}}, {"shapes": {"x": (2, 4)}}, {"opset": 20}, {"enable": ["debloat"]},
        {"outputs": ["b"]}, {"cut_inputs": ["b"]}, {"drop_unused_inputs": True}, {"freeze_initializers": True},
        {"keep_functions": True}, {"strict": True}, {"plan": True}, {"value_info": "keep"}, {"external_data": 100},
        {"memory": 1 << 30}, {"time_limit": 9.0}, {"inputs": "x.npz"}, {"inputs": [{"x": np.ones(2)}]},
        {"plugins": ["p.py"]},
    ],
    ids=lambda options: next(iter(options)),
)  # fmt: skip
def test_options_count(options: dict[str, Any]) -> None:
    assert conditions(**options) != conditions()


def test_places_do_not_count() -> None:
    others = {
        "output": "o.onnx",
        "report_to": "r.json",
        "map_to": "m",
        "cache": "c",
        "cache_size": 3,
        "progress": False,
    }
    assert conditions(**others, in_place=True) == conditions()


def test_files_and_versions_count(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"inputs": ["x.npz"], "plugins": ["p.py"]}
    seen = [conditions(**options)]
    for name in ("x.npz", "p.py", "pipelines.toml"):
        for content in ("a", "b"):
            Path(name).write_text(content)
            seen.append(conditions(**options))
    assert conditions(**options) == seen[-1]
    for name, value in (("versions", dict), ("_machine", lambda: ["another processor"])):
        with monkeypatch.context() as patch:
            patch.setattr(run_conditions, name, value)
            seen.append(conditions(**options))
    assert len(set(seen)) == len(seen)


def test_modules_of_plugins_count(monkeypatch: pytest.MonkeyPatch, ran: list[str], folder: Path) -> None:
    """A file beside a plugin that it imports; while this process has an older one in memory, nothing is kept."""
    monkeypatch.syspath_prepend(str(folder))
    Path("p.py").write_text(PLUGIN)
    Path("helper.py").write_text("AMOUNT = 1\n")
    arguments = ("m.onnx", "--plugin", "p.py", "--cache", "c")
    assert "note: not kept in the cache: helper.py was changed after the start\n" in run(*arguments).stderr
    monkeypatch.setattr(cached_runs, "START", (folder / "helper.py").stat().st_ctime_ns)
    run(*arguments)
    assert FROM_CACHE in run(*arguments).stdout
    assert len(ran) == 2
    Path("helper.py").write_text("AMOUNT = 2\n")
    assert FROM_CACHE not in run(*arguments).stdout
    sys.modules.pop("helper")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param(["--no-verify"], "it is not verified", id="unverified"),
        pytest.param(["--html", "p.html"], "pictures and repros are made during a run", id="page"),
        pytest.param(["--inputs", "f.py:samples"], "samples of Python code", id="samples of code"),
        pytest.param(["--cache-size", "99"], "bytes, and the cache at most 99", id="too large"),
    ],
)
def test_not_kept(options: list[str], reason: str) -> None:
    Path("f.py").write_text("import numpy as np\ndef samples(): return [{'x': np.ones((2, 4), np.float32)}]\n")
    result = run("m.onnx", "--cache", "c", *options)
    assert "note: not kept in the cache: " in result.stderr
    assert reason in result.stderr
    assert list(Path("c").iterdir()) == []


def test_failures_are_not_kept() -> None:
    Path("bad.onnx").write_bytes(b"no model")
    for name in ("bad.onnx", "missing.onnx"):
        first, second = (run(name, "--cache", "c", code=BAD).stderr for _ in range(2))
        assert first == second
    assert list(Path("c").iterdir()) == []


def quarantined(report: Report, kind: FailureKind) -> None:
    report.quarantined.append(RejectedChange("p", "p", "", kind, "it did not end"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(lambda r: setattr(r, "verification", None), "it is not verified", id="unverified"),
        pytest.param(lambda r: r.notes.append("Pow_1 is not folded: 20 s"), "Pow_1 is not folded", id="not folded"),
        pytest.param(lambda r: quarantined(r, FailureKind.ENDLESS), "did not end in time", id="endless"),
        pytest.param(lambda r: quarantined(r, FailureKind.WRONG), "", id="wrong"),
    ],
)
def test_results_that_depend_on_time(change: Callable[[Report], object], reason: str) -> None:
    report = sample_report()
    change(report)
    with pytest.raises(NotKept, match=reason) if reason else nullcontext():
        cached_runs._require_timeless(report, RunOptions())


def test_time_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verification that a time limit cut is not kept; one that has the time it needs is."""
    real = cached_runs._require_timeless

    def cut(report: Report, options: RunOptions) -> None:
        assert report.verification is not None
        notes = (*report.verification.notes, TimedNote("3 of 4 input sets were left out"))
        real(replace(report, verification=replace(report.verification, notes=notes)), options)

    with monkeypatch.context() as patch:
        patch.setattr(cached_runs, "_require_timeless", cut)
        assert "to keep the time limit" in run("m.onnx", "--cache", "c", "--time-limit", "500").stderr
    run("m.onnx", "--cache", "c", "--time-limit", "500")
    assert FROM_CACHE in run("m.onnx", "--cache", "c", "--time-limit", "500").stdout


def test_model_that_changes_during_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    real = CachedRun.keep

    def keep(*arguments: Any) -> Any:
        os.utime("m.onnx", ns=(0, Path("m.onnx").stat().st_mtime_ns))
        return real(*arguments)

    monkeypatch.setattr(CachedRun, "keep", keep)
    assert "m.onnx was changed after the start" in run("m.onnx", "--cache", "c").stderr
    assert list(Path("c").iterdir()) == []


def entry_file() -> Path:
    (entry,) = Path("c").iterdir()
    return entry


def answer(
    entry: Path,
    model: str,
    change: Callable[[dict[str, Any]], object],
) -> tuple[Report | None, list[str]]:
    """The report of a run with an entry whose header, and digest, were changed, and its notes; nothing is written."""
    cache = Path("forged")
    cache.mkdir(mode=0o700)
    first, header, rest = entry.read_bytes().split(b"\n", 2)
    data = json.loads(header)
    change(data)
    header = json.dumps(data).encode() + b"\n"
    assert first.startswith(MAGIC)
    (cache / entry.name).write_bytes(MAGIC + bytes_digest(header).encode() + b"\n" + header + rest)
    run = CachedRun.of(model, RunOptions(cache=cache, output="o.onnx"))
    assert run is not None
    before = sorted(Path().rglob("*"))
    report = run.answer()
    assert sorted(Path().rglob("*")) == before
    return report, run.notes


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda d: d.clear(), id="nothing"),
        pytest.param(lambda d: d.update(content=[]), id="no content"),
        pytest.param(lambda d: d.update(parts=3), id="no parts"),
        pytest.param(lambda d: d["parts"].clear(), id="no model"),
        pytest.param(lambda d: d["parts"].update(model=[-1, ""]), id="negative size"),
        pytest.param(lambda d: d["parts"].update(model=[1 << 80, ""]), id="huge size"),
        pytest.param(lambda d: d["parts"].update(model=[d["parts"]["model"][0], "0" * 32]), id="other model"),
        pytest.param(lambda d: d["content"].pop("report"), id="no report"),
        pytest.param(lambda d: d["content"]["report"].update(before=3), id="wrong type"),
        pytest.param(lambda d: d["content"]["report"]["before"].update(nodes="many"), id="wrong type inside"),
        pytest.param(lambda d: d["content"]["report"].update(other=3), id="unknown field"),
        pytest.param(lambda d: d["content"]["report"].pop("verification"), id="missing field"),
        pytest.param(lambda d: d["content"].update(dependencies=[]), id="no dependencies"),
        pytest.param(lambda d: d["content"]["dependencies"].update(sources={"x": 3}), id="digest of a wrong type"),
    ],
)
def test_forged_headers(kept: dict[str, Path], change: Callable[[dict[str, Any]], object]) -> None:
    report, (note,) = answer(kept["m.onnx"], "m.onnx", change)
    assert report is None
    assert note.startswith("an entry of the cache was ignored: ")


@pytest.mark.parametrize("name", ["/etc/passwd", "../m.onnx", "\0", "x" * 5000])
def test_forged_names_of_files(kept: dict[str, Path], name: str) -> None:
    """A name in an entry is no place to write to, and what is beyond the folder of the model is not read for it."""
    report, (note,) = answer(kept["e.onnx"], "e.onnx", lambda d: d["content"].update(data_name=name))
    assert report is None
    assert note.startswith("an entry of the cache was ignored: ")
    digest = regular_file_digest(Path(name))
    assert run_conditions.Dependencies({name: digest}, {}, {}).as_now(Path()).data == {name: ""}


def test_damage_anywhere() -> None:
    cache = ResultCache.at(Path("c"), 1 << 20)
    Path("part").write_bytes(b"elements of a model")
    cache.add(KEY, {"a": 1}, {"model": Path("part")})
    good = entry_file().read_bytes()

    def content() -> bytes:
        entry = cache.find(KEY)
        assert entry is not None
        with Path("copy").open("wb") as file:
            entry.copy("model", file)
        return Path("copy").read_bytes()

    assert content() == b"elements of a model"
    for n in range(len(good)):
        for damaged in (good[:n], good[:n] + bytes([good[n] ^ 1]) + good[n + 1 :]):
            entry_file().write_bytes(damaged)
            with pytest.raises(DamagedEntry, match=f"{KEY}.result is damaged"):
                content()
    entry_file().write_bytes(good + b"\0")
    with pytest.raises(DamagedEntry):
        content()


def test_foreign_entries(folder: Path) -> None:
    cache = ResultCache.at(folder / "c", 1 << 20)
    Path("part").write_bytes(b"model")
    cache.add(KEY, {}, {"model": Path("part")})
    entry = entry_file()
    entry.chmod(0o666)
    with pytest.raises(DamagedEntry, match="not a file of this user alone"):
        cache.find(KEY)
    entry.chmod(0o600)
    entry.rename(folder / "elsewhere")
    entry.symlink_to(folder / "elsewhere")
    with pytest.raises(DamagedEntry, match="cannot be read"):
        cache.find(KEY)
    entry.unlink()
    os.mkfifo(entry, 0o600)
    with pytest.raises(DamagedEntry, match="not a file of this user alone"):
        cache.find(KEY)
    cache.add(KEY, {}, {"model": Path("part")})  # in its place
    assert cache.find(KEY) is not None


def test_folders_that_cannot_be_used(folder: Path) -> None:
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    assert "others may write to it" in run("m.onnx", "--cache", "open", code=BAD).stderr
    assert "File exists" in run("m.onnx", "--cache", "m.onnx", code=BAD).stderr
    assert "0: not of the form" in run("m.onnx", "--cache", "c", "--cache-size", "0", code=USAGE).stderr
    assert "--cache-size is for --cache" in run("m.onnx", "--cache-size", "1GB", code=USAGE).stderr


def test_size(folder: Path) -> None:
    """The least recently used entries are removed; files of others stay."""
    cache = ResultCache.at(folder / "c", 3500)
    Path("part").write_bytes(bytes(1000))
    (folder / "c" / "notes.txt").write_bytes(bytes(9000))
    keys = [f"{n:032x}" for n in range(4)]
    for n, key in enumerate(keys[:3]):
        cache.add(key, {}, {"model": Path("part")})
        os.utime(folder / "c" / f"{key}.result", (n, n))
    assert cache.find(keys[0]) is not None  # used now
    cache.add(keys[3], {}, {"model": Path("part")})
    assert [cache.find(key) is not None for key in keys] == [True, False, True, True]
    assert (folder / "c" / "notes.txt").exists()
    with pytest.raises(NotKept, match="the cache at most 500"):
        ResultCache.at(folder / "c", 500).add(keys[0], {}, {"model": Path("part")})


def test_one_of_many_entries_is_added_without_a_look_at_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound holds nevertheless, also with a count that is damaged, foreign or old."""
    looks, real = list[str](), OpenFolder.stat

    def stat(self: OpenFolder, name: str, **options: Any) -> os.stat_result:
        if name.endswith(".result"):
            looks.append(name)
        return real(self, name, **options)

    def add(number: int) -> int:
        """The entries that were looked at."""
        looks.clear()
        cache.add(f"{number:032x}", {}, {"model": Path("part")})
        assert cache.find(f"{number:032x}") is not None
        seen = len(looks)
        assert sum(file.stat().st_size for file in os.scandir(cache.folder.path)) <= cache.max_bytes
        return seen

    monkeypatch.setattr(OpenFolder, "stat", stat)
    monkeypatch.setattr(byte_count, "MAX_ADDED", 50)
    Path("part").write_bytes(bytes(1000))
    cache = ResultCache.at(folder / "c", 1 << 20)
    for number in range(300):
        (folder / "c" / f"{number:032x}.result").write_bytes(bytes(3000))
    assert add(300) == 301
    assert add(301) == add(302) == 0
    count = folder / "c" / byte_count.FILE
    for damage in (b"", b"123", bytes(8 * byte_count.MAX_ADDED + 8)):
        count.write_bytes(damage)
        assert add(303) >= 304
        assert add(303) == 0
    count.unlink()
    os.mkfifo(count)
    assert (add(303) >= 304, add(303)) == (True, 0)
    seen = [add(number) for number in range(400, 600)]
    assert 4 <= sum(n > 0 for n in seen) <= 10  # once in MAX_ADDED, and where the oldest make room
    assert len(list((folder / "c").iterdir())) > 300


def test_several_at_once(folder: Path) -> None:
    """Each reader finds a whole entry or none, whatever others write and remove meanwhile."""
    caches = [ResultCache.at(folder / "c", 9000) for _ in range(4)]
    parts = [folder / f"part{n}" for n in range(4)]
    for n, part in enumerate(parts):
        part.write_bytes(bytes([n]) * 2000)
    keys = [f"{n:032x}" for n in range(6)]

    def work(n: int) -> int:
        found = 0
        for turn in range(40):
            key = keys[(turn * (n + 1)) % 6]
            caches[n].add(key, {"n": n}, {"model": parts[n]})
            if (entry := caches[n].find(key)) is not None:
                copy = folder / f"copy{n}"
                with copy.open("wb") as file:
                    entry.copy("model", file)
                assert copy.read_bytes() == bytes([entry.content["n"]]) * 2000
                found += 1
        return found

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(work, range(4))) > 0
    assert sum(p.stat().st_size for p in (folder / "c").iterdir()) <= 9000


def fill(cache: ResultCache, numbers: Iterable[int], content: int, part: Path) -> None:
    """Add entries of the numbers, each of which is about a third of the cache."""
    for n in numbers:
        cache.add(f"{n:032x}", {"n": content}, {"model": part})


def assert_whole(cache: ResultCache, numbers: Iterable[int], copy: Path) -> dict[int, int]:
    """The content of each entry that there is, whose parts have to be those of the content."""
    found = dict[int, int]()
    for n in numbers:
        entry = cache.find(f"{n:032x}")
        if entry is not None:
            with copy.open("wb") as file:
                entry.copy("model", file)
            assert copy.read_bytes() == bytes([entry.content["n"]]) * 1000
            found[n] = entry.content["n"]
    return found


@pytest.fixture
def parts(folder: Path) -> list[Path]:
    """Files of 1000 bytes, each with its number in all of them."""
    made = [folder / f"part{n}" for n in range(4)]
    for n, part in enumerate(made):
        part.write_bytes(bytes([n]) * 1000)
    return made


def test_killed_anywhere(folder: Path, parts: list[Path]) -> None:
    """A process that is killed while it adds an entry, and removes others, leaves whole ones; the next cleans up."""
    seen = set[int | None]()
    for count in range(1000):
        cache = ResultCache.at(folder / str(count), 3600)
        fill(cache, range(3), 1, parts[1])
        status = in_fork(lambda: (kill_at(count), fill(cache, (0, 3), 2, parts[2])))  # noqa: B023 - runs at once
        found = assert_whole(cache, range(4), folder / "copy")
        seen.add(found.get(0))
        assert found.get(3, 2) == 2
        if status == 0:
            break
        assert status == signal.SIGKILL
        fill(cache, [4], 3, parts[3])
        assert {p.suffix for p in cache.folder.path.iterdir()} == {".result"}
        assert sum(p.stat().st_size for p in cache.folder.path.iterdir()) <= 3600
    assert {1, 2} <= seen


def test_processes_that_are_killed_meanwhile(folder: Path, parts: list[Path]) -> None:
    """Processes read, add and remove entries of the same keys, and others are killed while they do."""
    cache = ResultCache.at(folder / "c", 3600)

    def work(n: int) -> None:
        for turn in range(30):
            fill(cache, [(turn * (n + 1)) % 6], n, parts[n])
            assert_whole(cache, range(6), folder / f"copy{n}")

    def victim(n: int) -> None:
        kill_at(n)
        work(3)

    workers = [start_fork(partial(work, n)) for n in range(3)]
    assert {in_fork(partial(victim, 3 * n)) for n in range(20)} == {signal.SIGKILL}
    assert [status_of(worker) for worker in workers] == [0, 0, 0]
    fill(cache, [6], 1, parts[1])
    assert {p.suffix for p in (folder / "c").iterdir()} == {".result"}
    assert sum(p.stat().st_size for p in (folder / "c").iterdir()) <= 3600


@pytest.mark.parametrize("size", [0, 500, 1100])
def test_full_disk(folder: Path, parts: list[Path], size: int) -> None:
    """Nothing of an entry without room is left, and the earlier one stays."""
    cache = ResultCache.at(folder / "c", 3600)
    fill(cache, range(2), 1, parts[1])
    before = {p.name: p.read_bytes() for p in (folder / "c").iterdir()}
    message = limited(size, lambda: fill(cache, [0], 2, parts[2]))
    assert message == f"{folder / 'c'} cannot be written: File too large"
    assert {p.name: p.read_bytes() for p in (folder / "c").iterdir()} == before


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "place",
    [
        pytest.param((ResultCache, "add"), id="cache"),
        pytest.param((OpenFolder, "mkdir"), id="folder of the cache"),
        pytest.param((cached_runs, "ScratchFolder"), id="temporary files"),
    ],
)
def test_results_are_written_though_the_cache_is_full(monkeypatch: pytest.MonkeyPatch, place: tuple[Any, str]) -> None:
    def keep(*arguments: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(*place, full)
            return real(*arguments)

    real = CachedRun.keep
    monkeypatch.setattr(CachedRun, "keep", keep)
    result = run("m.onnx", "-o", "1.onnx", "--cache", "c")
    assert "note: not kept in the cache: " in result.stderr
    assert "No space left on device" in result.stderr
    assert op_types(onnx.load("1.onnx")) == ["Relu", "Mul"]
    assert list(Path("c").iterdir()) == []


def test_no_room_for_temporary_files_of_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    run("e.onnx", "-o", "1.onnx", "--cache", "c")
    monkeypatch.setattr(cached_runs, "_write_part", full)
    errors = run("e.onnx", "-o", "2.onnx", "--cache", "c", code=BAD).stderr
    assert errors == "error: cannot write a temporary file: No space left on device; TMPDIR names another folder\n"
    assert not Path("2.onnx").exists()


def test_settings() -> None:
    """A folder that a project names is trusted only where the project is."""
    Path("passwright.toml").write_text('cache = "c"\ncache-size = "1MB"\n')
    refusal = run("m.onnx", code=USAGE).stderr
    assert refusal.startswith("error: passwright.toml: cache takes results as verified: add --trust-settings")
    run("m.onnx", "--trust-settings")
    assert FROM_CACHE in run("m.onnx", "--trust-settings").stdout
    assert FROM_CACHE not in run("m.onnx", "--no-settings").stdout
    assert FROM_CACHE not in run("m.onnx", "--cache", "other").stdout
