"""Models and results at URLs: copies, external data, the order of writes, listings and errors."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import onnx
import pytest
from passwright.app.commands.actions import ACTIONS
from passwright.app.models import remote_files
from passwright.app.models.exchange import JobReply, job_request
from passwright.app.models.journal import FinishedJob
from passwright.app.models.model_files import ModelJob
from passwright.app.models.pool import Message
from passwright.app.models.remote_files import fetch, is_remote, job_files, place_of, remote_models
from passwright.app.models.worker import reply_to
from passwright.app.optimize.content_digests import model_digest
from passwright.app.optimize.run_options import RunOptions
from passwright.core.errors import ModelError, PassesError
from rewriting import each, load

TEXT = "g (float[4] x) => (float[4] y) { a = Identity(x) b = Relu(a) y = Add(b, w) }"


@pytest.fixture
def memory() -> Iterator[Any]:
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    yield fs
    fs.store.clear()


def external_model(fs: Any, folder: Path, name: str = "memory://zoo/sub/a.onnx", size: int = 4096) -> bytes:
    """Write a model with external data to a URL; return its weights."""
    model = load(TEXT.replace("4]", f"{size}]"), weights={"w": np.arange(size, dtype=np.float32)})
    (folder / "data").mkdir()
    onnx.save(model, folder / "a.onnx", save_as_external_data=True, location="data/w.bin", size_threshold=0)
    place = name.rpartition("/")[0]
    fs.put_file(str(folder / "a.onnx"), name)
    fs.put_file(str(folder / "data/w.bin"), f"{place}/data/w.bin")
    return (folder / "data/w.bin").read_bytes()


@each(
    ("given", "place", "remote"),
    [
        ("a.onnx", "a.onnx", False),
        ("/data/a:b.onnx", "/data/a:b.onnx", False),
        ("C:/data/a.onnx", "C:/data/a.onnx", False),
        ("s3://bucket/a b/x.onnx", "s3://bucket/a b/x.onnx", True),
        ("memory:///a.onnx", "memory://a.onnx", True),
        ("local:///data/a.onnx", "local:///data/a.onnx", True),
        ("file:///data/a%20b.onnx", "/data/a%20b.onnx", False),
        ("https://host:80/a.onnx?v=1", "https://host:80/a.onnx?v=1", True),
    ],
)
def test_places(given: str, place: str, remote: bool) -> None:
    for form in (given, Path(given), place):
        assert place_of(form) == place
        assert is_remote(form) == remote


def test_local_files_are_used_themselves(tmp_path: Path) -> None:
    with job_files(Path(f"file://{tmp_path}/a.onnx"), tmp_path / "b.onnx") as files:
        assert (files.model, files.output, files.result()) == (
            tmp_path / "a.onnx", tmp_path / "b.onnx", tmp_path / "b.onnx",
        )  # fmt: skip
        files.publish()


def test_external_data_are_fetched(memory: Any, tmp_path: Path) -> None:
    weights = external_model(memory, tmp_path)
    model = fetch("memory://zoo/sub/a.onnx", tmp_path / "copy")
    assert model == tmp_path / "copy/a.onnx"
    assert (tmp_path / "copy/data/w.bin").read_bytes() == weights
    assert onnx.load(model).graph.initializer[0].raw_data == weights


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "a.onnx", "", "x/../../w.bin"])
def test_nothing_is_fetched_to_another_folder(memory: Any, tmp_path: Path, location: str) -> None:
    external_model(memory, tmp_path)
    model = onnx.load(tmp_path / "a.onnx", load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = location
    memory.pipe_file("memory://zoo/sub/a.onnx", model.SerializeToString())
    memory.pipe_file("memory://zoo/w.bin", b"secret")
    (tmp_path / "copy").mkdir()
    fetch("memory://zoo/sub/a.onnx", tmp_path / "copy/in")
    assert [p.name for p in (tmp_path / "copy").rglob("*")] == ["in", "a.onnx"]


def message(model: str | Path, output: str | None, finished: FinishedJob | None = None, **options: Any) -> Message:
    """The reply of a worker."""
    job = ModelJob(Path(model), None if output is None else Path(output))
    chosen = RunOptions(verify=False, **options)
    return reply_to(job_request(job, "run", chosen, is_kept=True, finished=finished), ACTIONS)


def reply(model: str | Path, output: str | None, finished: FinishedJob | None = None, **options: Any) -> JobReply:
    return JobReply.of(message(model, output, finished, **options))


def test_result_is_that_of_a_local_run(memory: Any, tmp_path: Path) -> None:
    external_model(memory, tmp_path)
    for target in ("memory://out/sub/a.onnx", f"local://{tmp_path}/remote/a.onnx", str(tmp_path / "here/a.onnx")):
        done = reply("memory://zoo/sub/a.onnx", target, external_data="always")
        assert done.failure == ""
        assert done.result
    assert (
        done.result == reply(str(tmp_path / "a.onnx"), str(tmp_path / "direct/a.onnx"), external_data="always").result
    )
    expected = {p.name: p.read_bytes() for p in (tmp_path / "direct").iterdir()}
    assert len(expected) == 2
    for folder in ("remote", "here"):
        assert {p.name: p.read_bytes() for p in (tmp_path / folder).iterdir()} == expected
    assert {p.rpartition("/")[2]: memory.cat_file(p) for p in memory.find("memory://out")} == expected


def test_model_appears_after_its_data(memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    external_model(memory, tmp_path)
    written = list[str]()
    real = type(memory).put_file
    monkeypatch.setattr(type(memory), "put_file", lambda fs, f, t, **k: (written.append(t), real(fs, f, t, **k)))
    assert reply("memory://zoo/sub/a.onnx", "memory://out/a.onnx", external_data="always").failure == ""
    assert len(written) == 2
    assert written[-1] == "/out/a.onnx"


def test_data_are_named_by_their_content(memory: Any, tmp_path: Path) -> None:
    """Nobody compares them with data of that name that are there."""
    contents = set[bytes]()
    for size in (4096, 8192):
        (folder := tmp_path / str(size)).mkdir()
        external_model(memory, folder, size=size)
        done = reply("memory://zoo/sub/a.onnx", "memory://out/a.onnx", external_data="always")
        assert done.failure == ""
        assert done.result == model_digest(fetch("memory://out/a.onnx", folder / "fetched") or Path())
        contents.add(memory.cat_file("memory://out/a.onnx"))
    assert len(contents) == 2
    assert len(memory.find("memory://out")) == 3


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is a shortage of this machine, and no part of a file stays."""
    onnx.save(load(TEXT, weights={"w": np.ones(4, np.float32)}), tmp_path / "a.onnx")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a.onnx").write_bytes(b"old")
    url = f"local://{tmp_path}/out/a.onnx"

    def fail(fs: Any, source: str, target: str, **_: Any) -> None:
        Path(target).write_bytes(b"part")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(type(fsspec.filesystem("local")), "put_file", fail)
    full = message(tmp_path / "a.onnx", url)
    failure = JobReply.of(full).failure
    assert failure == f"{url} cannot be written: OSError: [Errno 28] No space left on device"
    assert full["shortage"] == failure
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == {"a.onnx": b"old"}


def test_finished_results_are_recognized(memory: Any, tmp_path: Path) -> None:
    external_model(memory, tmp_path)

    def is_known(finished: FinishedJob | None) -> bool:
        done = reply("memory://zoo/sub/a.onnx", "memory://out/a.onnx", finished, external_data="always")
        assert not done.failure
        return done.columns is None

    first = reply("memory://zoo/sub/a.onnx", "memory://out/a.onnx", external_data="always")
    known = FinishedJob(first.conditions, first.result or "", {})
    assert is_known(known)
    data = next(p for p in memory.find("memory://out") if not p.endswith(".onnx"))
    memory.pipe_file(data, b"x" * 4096 * 4)
    assert not is_known(known)
    assert is_known(known)
    memory.rm("memory://out/a.onnx")
    assert not is_known(known)


def test_messages_name_urls(memory: Any, tmp_path: Path) -> None:
    memory.pipe_file("memory://zoo/bad.onnx", b"\x01\x02")
    memory.pipe_file("memory://zoo/empty.onnx", b"")
    assert reply("memory://zoo/bad.onnx", None).failure == (
        "memory://zoo/bad.onnx: the protobuf message is truncated or damaged"
    )
    assert reply("memory://zoo/empty.onnx", None).failure == "memory://zoo/empty.onnx is empty"
    assert reply("memory://zoo/none.onnx", None).failure == "memory://zoo/none.onnx does not exist"
    assert "Protocol not known: bogus" in reply("bogus://zoo/a.onnx", None).failure
    missing = reply("s3://zoo/a.onnx", None).failure  # s3fs is no dependency
    assert missing == "s3://zoo/a.onnx cannot be read: ImportError: Install s3fs to access S3"
    external_model(memory, tmp_path)
    memory.rm("memory://zoo/sub/data/w.bin")
    lost = reply("memory://zoo/sub/a.onnx", None).failure
    assert lost.startswith("memory://zoo/sub/a.onnx: w: ")
    assert "data/w.bin is missing" in lost


def test_model_that_changes_meanwhile(memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    external_model(memory, tmp_path)
    real = remote_files._external_locations

    def change(model: Path) -> list[str]:
        memory.pipe_file("memory://zoo/sub/a.onnx", b"other")
        return real(model)

    monkeypatch.setattr(remote_files, "_external_locations", change)
    with pytest.raises(ModelError, match=r"memory://zoo/sub/a\.onnx was changed while it was read"):
        fetch("memory://zoo/sub/a.onnx", tmp_path / "copy")


def test_listings(memory: Any, tmp_path: Path) -> None:
    names = ["zoo/b.onnx", "zoo/sub/a.ONNX", "zoo/.hidden/c.onnx", "zoo/w.bin", "zoo/sub/.d.onnx"]
    for name in names:
        memory.pipe_file(f"memory://{name}", b"x")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    found = ["memory://zoo/b.onnx", "memory://zoo/sub/a.ONNX"]
    assert list(remote_models("memory://zoo", ".onnx")) == found
    assert list(remote_models("memory://zoo/*.onnx", ".onnx")) == found[:1]
    assert list(remote_models("memory://zoo/none.onnx", ".onnx")) == ["memory://zoo/none.onnx"]
    assert list(remote_models("memory://zoo/*.pt", ".onnx")) == []
    local = f"local://{tmp_path}/zoo"
    assert list(remote_models(local, ".onnx")) == [f"{local}/b.onnx", f"{local}/sub/a.ONNX"]


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(PassesError, match=r"memory://a needs fsspec.core: pip install 'passwright\[cluster\]'"):
        list(remote_models("memory://a", ".onnx"))
