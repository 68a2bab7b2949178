"""Models that arguments name, and the places of their results."""

import os
from pathlib import Path

import pytest
from passwright.app.models.model_files import ModelJob, model_jobs, single_job
from passwright.core.errors import PassesError
from rewriting import cases

FILES = ("a.onnx", "b.onnx", "other/a.onnx", "zoo/c.onnx", "zoo/deep/d.ONNX", "zoo/.hidden/e.onnx", "zoo/notes.txt")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with `FILES`, an empty folder, and results of an earlier run."""
    for name in (*FILES, "out/a.onnx", "[1].onnx"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"model")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pairs(jobs: list[ModelJob]) -> list[str]:
    return [f"{job.model} > {job.output}" for job in jobs]


@cases(
    ("arguments", "output", "job"),
    {
        "model": ("a.onnx", None, "a.onnx > None"),
        "-o": ("a.onnx", "b.onnx", "a.onnx > b.onnx"),
        "second": ("a.onnx new.onnx", None, "a.onnx > new.onnx"),
        "missing model": ("missing.onnx new.onnx", None, "missing.onnx > new.onnx"),
        "streams": ("- -", None, "- > -"),
        "to standard output": ("a.onnx -", None, "a.onnx > -"),
        "from standard input": ("- new.onnx", None, "- > new.onnx"),
        "null device": (f"a.onnx {os.devnull}", None, f"a.onnx > {os.devnull}"),
        "pattern of one": ("zoo/c*.onnx new.onnx", None, "zoo/c.onnx > new.onnx"),
        "name like a pattern": ("[1].onnx", None, "[1].onnx > None"),
    },
)
def test_one_model(arguments: str, output: str | None, job: str) -> None:
    found = single_job([*map(Path, arguments.split())], None if output is None else Path(output))
    assert pairs([found]) == [job]


@cases(
    ("arguments", "output", "message"),
    {
        "existing": ("a.onnx b.onnx", None, "b.onnx exists: to replace it, give -o b.onnx"),
        "three": ("a.onnx b.onnx zoo/c.onnx", None, "3 models, and no place for their results"),
        "pattern of two": ("[ab].onnx", None, "2 models, and no place for their results"),
        "pattern as second": ("a.onnx zoo/*.onnx", None, "2 models, and no place for their results"),
        "-o for two": ("a.onnx b.onnx", "new.onnx", "-o takes one model, not 2"),
        "folder as second": ("a.onnx zoo", None, "zoo is a folder: give --output-dir zoo"),
        "folder": ("zoo", None, "zoo is a folder, not a model; for the models in it"),
        "pattern of none": ("no*.onnx", None, "no file matches no*.onnx"),
    },
)
def test_more_than_one_model(arguments: str, output: str | None, message: str) -> None:
    with pytest.raises(PassesError) as e:
        single_job([*map(Path, arguments.split())], None if output is None else Path(output))
    assert str(e.value).startswith(message)


@cases(
    ("arguments", "jobs"),
    {
        "files": ("a.onnx b.onnx", "a.onnx > new/a.onnx, b.onnx > new/b.onnx"),
        "repeated": ("a.onnx ./a.onnx zoo/../a.onnx", "a.onnx > new/a.onnx"),
        "same names": ("a.onnx other/a.onnx", "a.onnx > new/a.onnx, other/a.onnx > new/other/a.onnx"),
        "two folders": ("other/a.onnx zoo/c.onnx", "other/a.onnx > new/other/a.onnx, zoo/c.onnx > new/zoo/c.onnx"),
        "folder": ("zoo", "zoo/c.onnx > new/c.onnx, zoo/deep/d.ONNX > new/deep/d.ONNX"),
        "pattern keeps what it matches": ("zoo/*/d.*", "zoo/deep/d.ONNX > new/deep/d.ONNX"),
        "recursive pattern": ("**/c.onnx", "zoo/c.onnx > new/zoo/c.onnx"),
        "file alone": ("zoo/deep/d.ONNX", "zoo/deep/d.ONNX > new/d.ONNX"),
        "missing": ("missing.onnx a.onnx", "missing.onnx > new/missing.onnx, a.onnx > new/a.onnx"),
        "pattern that leads out": ("zoo/*/../../b.onnx", "zoo/deep/../../b.onnx > new/b.onnx"),
    },
)
def test_results_keep_their_places(arguments: str, jobs: str) -> None:
    assert pairs(model_jobs([*map(Path, arguments.split())], Path("new"))) == jobs.split(", ")


def test_earlier_results_are_no_models(folder: Path) -> None:
    names = [*FILES[:2], "[1].onnx", "other/a.onnx", "zoo/c.onnx"]
    found = model_jobs([Path("**/*.onnx")], Path("out"))
    assert sorted(pairs(found)) == sorted(f"{name} > out/{name}" for name in names)
    found = model_jobs([Path()], Path("out"))
    assert sorted(pairs(found)) == sorted(f"{name} > out/{name}" for name in (*names, "zoo/deep/d.ONNX"))
    assert pairs(model_jobs([Path("zoo")], Path())) == ["zoo/c.onnx > c.onnx", "zoo/deep/d.ONNX > deep/d.ONNX"]


@cases(
    ("arguments", "output_dir", "message"),
    {
        "model itself": ("a.onnx", ".", "a.onnx would replace an input model"),
        "other model": ("a.onnx out/a.onnx", "out", "out/a.onnx would replace an input model"),
        "folder itself": ("zoo", "zoo", "zoo/c.onnx would replace an input model"),
        "empty folder": ("empty", "new", "empty contains no models"),
        "in other words": ("out", "empty/../out/new/..", "empty/../out/new/../a.onnx would replace"),
        "pattern of none": ("no*.onnx", "new", "no file matches no*.onnx"),
        "standard input": ("a.onnx -", "new", "- (standard input) must be"),
    },
)
def test_refused_places(arguments: str, output_dir: str, message: str) -> None:
    with pytest.raises(PassesError) as e:
        model_jobs([*map(Path, arguments.split())], Path(output_dir))
    assert str(e.value).startswith(message)


def test_folder_with_results_alone(folder: Path) -> None:
    for name in FILES:
        (folder / name).unlink()
    (folder / "[1].onnx").unlink()
    with pytest.raises(PassesError, match="contains no models except those in out"):
        model_jobs([Path()], Path("out"))


def test_linked_results_are_distinct(folder: Path) -> None:
    (folder / "out/a.onnx").unlink()
    (folder / "out/a.onnx").symlink_to("b.onnx")
    with pytest.raises(PassesError, match="cannot hold the results of both"):
        model_jobs([Path("a.onnx"), Path("b.onnx")], Path("out"))


def test_models_are_replaced_once(folder: Path) -> None:
    (folder / "link.onnx").symlink_to("a.onnx")
    found = model_jobs([Path("a.onnx"), Path("link.onnx"), Path("zoo")], in_place=True)
    assert pairs(found) == [f"{name} > {name}" for name in ("a.onnx", "zoo/c.onnx", "zoo/deep/d.ONNX")]
    assert len(model_jobs([Path("a.onnx"), Path("link.onnx")], Path("new"))) == 2
