"""Models that arguments name, and the places of their results."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from passwright.app.models.model_files import ModelJob, model_jobs, single_job
from passwright.core.errors import PassesError

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


@pytest.mark.parametrize(
    ("arguments", "output", "job"),
    [
        pytest.param("a.onnx", None, "a.onnx > None", id="model"),
        pytest.param("a.onnx", "b.onnx", "a.onnx > b.onnx", id="-o"),
        pytest.param("a.onnx new.onnx", None, "a.onnx > new.onnx", id="second"),
        pytest.param("missing.onnx new.onnx", None, "missing.onnx > new.onnx", id="missing model"),
        pytest.param("- -", None, "- > -", id="streams"),
        pytest.param("a.onnx -", None, "a.onnx > -", id="to standard output"),
        pytest.param("- new.onnx", None, "- > new.onnx", id="from standard input"),
        pytest.param(f"a.onnx {os.devnull}", None, f"a.onnx > {os.devnull}", id="null device"),
        pytest.param("zoo/c*.onnx new.onnx", None, "zoo/c.onnx > new.onnx", id="pattern of one"),
        pytest.param("[1].onnx", None, "[1].onnx > None", id="name like a pattern"),
    ],
)
def test_one_model(arguments: str, output: str | None, job: str) -> None:
    found = single_job([*map(Path, arguments.split())], None if output is None else Path(output))
    assert pairs([found]) == [job]


@pytest.mark.parametrize(
    ("arguments", "output", "message"),
    [
        pytest.param("a.onnx b.onnx", None, "b.onnx exists: to replace it, give -o b.onnx", id="existing"),
        pytest.param("a.onnx b.onnx zoo/c.onnx", None, "3 models, and no place for their results", id="three"),
        pytest.param("[ab].onnx", None, "2 models, and no place for their results", id="pattern of two"),
        pytest.param("a.onnx zoo/*.onnx", None, "2 models, and no place for their results", id="pattern as second"),
        pytest.param("a.onnx b.onnx", "new.onnx", "-o is for one model, and there are 2", id="-o for two"),
        pytest.param("a.onnx zoo", None, "zoo is a folder: give --output-dir zoo", id="folder as second"),
        pytest.param("zoo", None, "zoo is a folder, not a model; for the models in it", id="folder"),
        pytest.param("no*.onnx", None, "no file matches no*.onnx", id="pattern of none"),
    ],
)
def test_more_than_one_model(arguments: str, output: str | None, message: str) -> None:
    with pytest.raises(PassesError) as e:
        single_job([*map(Path, arguments.split())], None if output is None else Path(output))
    assert str(e.value).startswith(message)


@pytest.mark.parametrize(
    ("arguments", "jobs"),
    [
        pytest.param("a.onnx b.onnx", "a.onnx > new/a.onnx, b.onnx > new/b.onnx", id="files"),
        pytest.param("a.onnx ./a.onnx zoo/../a.onnx", "a.onnx > new/a.onnx", id="repeated"),
        pytest.param("a.onnx other/a.onnx", "a.onnx > new/a.onnx, other/a.onnx > new/other/a.onnx", id="same names"),
        pytest.param(
            "other/a.onnx zoo/c.onnx", "other/a.onnx > new/other/a.onnx, zoo/c.onnx > new/zoo/c.onnx", id="two folders"
        ),
        pytest.param("zoo", "zoo/c.onnx > new/c.onnx, zoo/deep/d.ONNX > new/deep/d.ONNX", id="folder"),
        pytest.param("zoo/*/d.*", "zoo/deep/d.ONNX > new/deep/d.ONNX", id="pattern keeps what it matches"),
        pytest.param("**/c.onnx", "zoo/c.onnx > new/zoo/c.onnx", id="recursive pattern"),
        pytest.param("zoo/deep/d.ONNX", "zoo/deep/d.ONNX > new/d.ONNX", id="file alone"),
        pytest.param("missing.onnx a.onnx", "missing.onnx > new/missing.onnx, a.onnx > new/a.onnx", id="missing"),
        pytest.param("zoo/*/../../b.onnx", "zoo/deep/../../b.onnx > new/b.onnx", id="pattern that leads out"),
    ],
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


@pytest.mark.parametrize(
    ("arguments", "output_dir", "message"),
    [
        pytest.param("a.onnx", ".", "a.onnx would replace a model that is read", id="model itself"),
        pytest.param("a.onnx out/a.onnx", "out", "out/a.onnx would replace a model that is read", id="other model"),
        pytest.param("zoo", "zoo", "zoo/c.onnx would replace a model that is read", id="folder itself"),
        pytest.param("empty", "new", "empty has no models", id="empty folder"),
        pytest.param("out", "empty/../out/new/..", "empty/../out/new/../a.onnx would replace", id="in other words"),
        pytest.param("no*.onnx", "new", "no file matches no*.onnx", id="pattern of none"),
        pytest.param("a.onnx -", "new", "- is standard input", id="standard input"),
    ],
)
def test_refused_places(arguments: str, output_dir: str, message: str) -> None:
    with pytest.raises(PassesError) as e:
        model_jobs([*map(Path, arguments.split())], Path(output_dir))
    assert str(e.value).startswith(message)


def test_folder_with_results_alone(folder: Path) -> None:
    for name in FILES:
        (folder / name).unlink()
    (folder / "[1].onnx").unlink()
    with pytest.raises(PassesError, match="has no models but those in out"):
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
