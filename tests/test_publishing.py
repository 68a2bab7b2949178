"""Publication of output files: kills at any call, concurrent writers, special files, permissions, abandoned folders."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import stat
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Semaphore, Thread, current_thread
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from passwright.core.errors import ModelError
from passwright.core.io import publishing
from passwright.core.io.convert import from_onnx
from passwright.core.io.output_paths import OutputFile, OutputPaths
from passwright.core.io.publishing import Publication, publish_copy, publish_text, staging_folder
from passwright.core.support import folder_locks, scratch_folder
from passwright.core.support.folder_locks import locked
from passwright.core.support.scratch_folder import ScratchFolder, remove_abandoned
from process_faults import in_fork, kill_at, limited
from rewriting import cases, load
from tiers import slow_unless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from passwright.core import Model

SIZE = 512


def message(number: int) -> onnx.ModelProto:
    """A model with a weight that is full of a number."""
    text = f"g (float[{SIZE}] x) => (float[{SIZE}] y) {{ y = Add(x, w) }}"
    return load(text, weights={"w": np.full(SIZE, number, np.float32)})


def numbered(number: int) -> Model:
    return from_onnx(message(number))


def number_in(path: Path) -> int:
    """The number of the model in a file, whose weight has to be whole."""
    (w,) = onnx.load(path).graph.initializer
    (number,) = {*numpy_helper.to_array(w).tolist()}
    return int(number)


def publish_model(model: Model, path: Path, *, external: bool = False) -> None:
    with Publication(OutputFile.at(path)) as publication:
        publication.add_model(model, external=external)
        publication.publish()


def publish(folder: Path, number: int, *, external: bool = True, report: bool = True) -> None:
    """Publish a model, and a report that names its number."""
    with Publication(OutputFile.at(folder / "out.onnx")) as publication:
        publication.add_model(numbered(number), external=external)
        if report:
            publication.add_text(OutputFile.at(folder / "r.json"), lambda: json.dumps(number))
        publication.publish()


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def data_names(folder: Path) -> list[str]:
    return [name for name in names(folder) if name.endswith(".data")]


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """No flushing to disk, which takes milliseconds."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def killed_anywhere(
    tmp_path: Path, prepare: Callable[[Path], object], work: Callable[[Path], object]
) -> Iterator[Path]:
    """Folders where work was killed before each of its calls of the file system in turn, and one where it was not."""
    prepared = tmp_path / "prepared"
    prepared.mkdir()
    prepare(prepared)
    for count in range(1000):
        folder = tmp_path / str(count)
        shutil.copytree(prepared, folder)
        status = in_fork(lambda: (kill_at(count), work(folder)))  # noqa: B023 - runs at once
        yield folder
        if status == 0:
            return
        assert status == signal.SIGKILL


@pytest.mark.usefixtures("no_fsync")
@cases(
    ("old", "new"),
    {
        "nothing, then external data": pytest.param(None, True, marks=pytest.mark.slow),
        "external data twice": (True, True),
        "embedded, then external": pytest.param(False, True, marks=pytest.mark.slow),
        "external, then embedded": pytest.param(True, False, marks=pytest.mark.slow),
    },
)
def test_killed_anywhere(tmp_path: Path, old: bool | None, new: bool) -> None:
    """The next write in the folder, of the same model or another file, removes unused data and staging folders."""
    seen, first = set[object](), None if old is None else 1

    def prepare(folder: Path) -> None:
        if old is not None:
            publish(folder, 1, external=old)

    for folder in killed_anywhere(tmp_path, prepare, lambda folder: publish(folder, 2, external=new)):
        number = number_in(folder / "out.onnx") if (folder / "out.onnx").exists() else None
        report = json.loads((folder / "r.json").read_text()) if (folder / "r.json").exists() else None
        assert number in {first, 2}
        assert report in {first, number}
        seen.add((number, report))
        other = shutil.copytree(folder, tmp_path / f"{folder.name} beside")
        staging_folder(other).remove()
        assert not [name for name in names(other) if name.startswith(".")], folder
        if number is not None:
            assert number_in(other / "out.onnx") == number
            assert len(data_names(other)) == (new if number == 2 else bool(old)), folder
        publish(folder, 3, external=new)
        assert number_in(folder / "out.onnx") == 3
        assert [n for n in names(folder) if not n.endswith(".data")] == ["out.onnx", "r.json"], folder
        assert len(data_names(folder)) == new
    assert seen == {(first, first), (2, first), (2, 2)}


@pytest.mark.usefixtures("no_fsync")
def test_killed_while_a_model_with_foreign_data_is_replaced(tmp_path: Path) -> None:
    def prepare(folder: Path) -> None:
        onnx.save(message(1), folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)

    def replace(folder: Path) -> None:
        with Publication(OutputFile.at(folder / "m.onnx"), [folder / "w.bin"]) as publication:
            publication.add_model(numbered(2), external=True)
            publication.publish()

    folders = [*killed_anywhere(tmp_path, prepare, replace)]
    assert {number_in(folder / "m.onnx") for folder in folders} == {1, 2}
    assert [name for name in names(folders[-1]) if name != "m.onnx"] == data_names(folders[-1])


class Killed(BaseException):
    """The end of a writer."""


class Writers:
    """Writers in threads, of which one runs at a time, up to its next step that others can see; `killed` ends there.

    `steps` has the writer of each step so far, and the writers that could have made it.
    """

    def __init__(self, work: dict[str, Callable[[], object]], plan: list[str], killed: tuple[str, int] | None) -> None:
        self.plan, self.killed = plan, killed
        self.steps: list[tuple[str, list[str]]] = []
        self.turn = {name: Semaphore(0) for name in work}
        self.idle = Semaphore(0)
        self.waiting: dict[str, Callable[[], bool]] = {}
        self.dead = set[str]()
        self.counts = Counter[str]()
        self.threads = {name: Thread(target=self._run, args=(name, w), name=name) for name, w in work.items()}

    def run(self, check: Callable[[], object]) -> None:
        """Run all to their ends, and call `check` after each step."""
        for name, thread in self.threads.items():
            thread.start()
            self.idle.acquire()
            assert name in self.waiting or name in self.dead
        while self.waiting:
            able = [name for name, is_able in self.waiting.items() if is_able()]
            chosen = self.plan[len(self.steps)] if len(self.steps) < len(self.plan) else able[0]
            self.steps.append((chosen, able))
            del self.waiting[chosen]
            self.turn[chosen].release()
            self.idle.acquire()
            check()
        for thread in self.threads.values():
            thread.join()

    def _run(self, name: str, work: Callable[[], object]) -> None:
        with suppress(Killed):
            work()
        self.dead.add(name)
        self.idle.release()

    def step(self, is_able: Callable[[], bool] = lambda: True) -> None:
        """Wait for the turn of this thread. Raises Killed at its end, and at each step after it."""
        name = current_thread().name
        if name not in self.turn:
            return
        if name in self.dead:
            raise Killed
        self.waiting[name] = is_able
        self.idle.release()
        self.turn[name].acquire()
        self.counts[name] += 1
        if self.killed == (name, self.counts[name]):
            self.dead.add(name)
            raise Killed


def next_plan(steps: list[tuple[str, list[str]]]) -> list[str] | None:
    """The plan that differs in the last step that can be made by another writer; None after all."""
    for i in reversed(range(len(steps))):
        chosen, able = steps[i]
        if chosen != able[-1]:
            return [*(name for name, _ in steps[:i]), able[able.index(chosen) + 1]]
    return None


@pytest.fixture
def quiet_staging(no_fsync: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Publications without the steps that readers do not see."""
    monkeypatch.setattr(publishing, "_adopt_permissions", lambda *_: None)
    monkeypatch.setattr(scratch_folder, "remove_folder", lambda *_: None)
    monkeypatch.setattr(scratch_folder, "_remove_once", lambda *_: None)


def run_in_all_orders(
    tmp_path: Path, numbers: tuple[int, int], *, kills: Sequence[int] = range(1, 10), **locking: bool
) -> int:
    """Run two writers in all orders of their steps, the first killed at any of `kills` or at none; returns the runs."""
    runs = 0
    for kill_step in (None, *kills):
        plan: list[str] | None = []
        while plan is not None:
            folder = tmp_path / str(runs)
            folder.mkdir()
            with pytest.MonkeyPatch.context() as patches:
                plan = _run_writers(folder, numbers, plan, kill_step, patches, **locking)
            runs += 1
    return runs


PAIRS = {"two models": (2, 3), "one model": (2, 2), "the old model again": (1, 2)}


@pytest.mark.usefixtures("quiet_staging")
@cases("numbers", PAIRS)
def test_two_writers_in_any_order(tmp_path: Path, numbers: tuple[int, int]) -> None:
    assert run_in_all_orders(tmp_path, numbers) >= 20


@pytest.mark.usefixtures("quiet_staging")
@pytest.mark.parametrize("name", slow_unless({"two models, few kills"}, [*PAIRS, "two models, few kills"]))
def test_two_writers_without_locks(tmp_path: Path, name: str) -> None:
    """File systems without locks keep data, and the writers take their steps in any order."""
    pair, _, is_short = name.partition(", ")
    kills = (1, 3, 5) if is_short else range(1, 10)
    assert run_in_all_orders(tmp_path, PAIRS[pair], kills=kills, has_locks=False, excludes=False) > 50


def test_files_that_have_the_name_of_data(tmp_path: Path) -> None:
    """Links and pipes of such a name are replaced."""
    publish(tmp_path, 1)
    (name,) = data_names(tmp_path)
    (tmp_path / "w.bin").write_bytes(np.full(SIZE, 7, np.float32).tobytes())
    for make in (lambda path: path.symlink_to("w.bin"), os.mkfifo):  # type: ignore[no-untyped-call]
        (tmp_path / name).unlink()
        make(tmp_path / name)
        publish(tmp_path, 1)
        assert number_in(tmp_path / "out.onnx") == 1
        assert (tmp_path / name).is_file()
        assert not (tmp_path / name).is_symlink()


@pytest.mark.usefixtures("quiet_staging")
def test_a_lock_that_excludes_nobody_is_found(tmp_path: Path) -> None:
    with pytest.raises((AssertionError, FileNotFoundError, onnx.checker.ValidationError)):
        run_in_all_orders(tmp_path, (1, 2), excludes=False)


def _run_writers(
    folder: Path,
    numbers: tuple[int, int],
    plan: list[str],
    kill_step: int | None,
    patches: pytest.MonkeyPatch,
    *,
    has_locks: bool = True,
    excludes: bool = True,
) -> list[str] | None:
    """Publish both models as planned, and check what a reader finds after each step; returns the next plan."""
    out = folder / "out.onnx"
    publish(folder, 1, report=False)
    publications = {name: Publication(OutputFile.at(out)) for name in "ab"}
    for publication, number in zip(publications.values(), numbers, strict=True):
        publication.add_model(numbered(number), external=True)
    killed = None if kill_step is None else ("a", kill_step)
    writers = Writers({name: p.publish for name, p in publications.items()}, plan, killed)
    holder: list[str] = []

    @contextmanager
    def lock_of_writer(_: Path) -> Iterator[bool]:
        writers.step(lambda: not (holder and excludes))
        holder.append(current_thread().name)
        try:
            yield has_locks
        finally:
            holder.remove(current_thread().name)

    def stepping(call: Callable[..., None]) -> Callable[..., None]:
        def step_and_call(*args: Any, **options: bool) -> None:
            writers.step()
            call(*args, **options)

        return step_and_call

    patches.setattr(publishing, "locked", lock_of_writer)
    patches.setattr(Path, "replace", stepping(Path.replace))
    patches.setattr(Path, "unlink", stepping(Path.unlink))

    def check() -> None:
        assert number_in(out) in {1, *numbers}

    writers.run(check)
    if has_locks and killed is None:
        assert len(data_names(folder)) == 1
    return next_plan(writers.steps)


def test_outcome_names_no_scratch_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(publishing, "tell", lambda _, text: told.append(text))

    def publish_and_interrupt(path: Path) -> None:
        with Publication(OutputFile.at(path)) as publication:
            publication.add_model(numbered(1))
            publication.publish()
            raise KeyboardInterrupt

    with ScratchFolder(tmp_path) as folder:
        for path in (tmp_path / "o.onnx", folder / "scratch.onnx"):
            with pytest.raises(KeyboardInterrupt) as e:
                publish_and_interrupt(path)
            told += getattr(e.value, "__notes__", [])
    assert told == [f"{tmp_path / 'o.onnx'} {end}" for end in ("may be written", "was written", "was written")]


def test_data_of_other_models_stay(tmp_path: Path) -> None:
    """A copy of the old model refers to its data; a part of a name does not."""
    publish(tmp_path, 1)
    (old,) = data_names(tmp_path)
    (tmp_path / "copy.onnx").write_bytes((tmp_path / "out.onnx").read_bytes())
    (tmp_path / "pipe.onnx").touch()
    publish(tmp_path, 2)
    assert old in data_names(tmp_path)
    assert len(data_names(tmp_path)) == 2
    assert number_in(tmp_path / "copy.onnx") == 1
    assert number_in(tmp_path / "out.onnx") == 2
    (tmp_path / "copy.onnx").unlink()
    publish(tmp_path, 1)
    publish(tmp_path, 3)
    assert len(data_names(tmp_path)) == 1


def test_data_stay_beside_many_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "MAX_OTHER_MODELS", 1)
    for number, kept in ((1, 1), (2, 1), (3, 2)):
        publish(tmp_path, number)
        assert len(data_names(tmp_path)) == kept
        (tmp_path / f"{number}.onnx").touch()


def test_folder_that_may_not_be_listed(open_path: Path) -> None:
    """For another user than root; it has no lock, so that data stay."""
    (open_path / "folder").mkdir()
    (open_path / "folder").chmod(0o333)
    folder = Path("folder")
    assert in_fork(lambda: (become_another_user(open_path), publish(folder, 1), publish(folder, 2))) == 0
    assert number_in(open_path / "folder" / "out.onnx") == 2
    assert len(names(open_path / "folder")) == 4


@pytest.fixture
def open_path(tmp_path: Path) -> Path:
    """A folder that others can reach, which those of pytest are not."""
    for folder in (tmp_path, *(p for p in tmp_path.parents if "pytest-" in p.name or "pytest-" in p.parent.name)):
        folder.chmod(0o755)
    return tmp_path


def become_another_user(folder: Path) -> None:
    """Go to a folder as another user, if this one is root."""
    os.chdir(folder)
    if not os.geteuid():
        os.setgroups([])
        os.setuid(1234)


def test_files_of_others_stay(tmp_path: Path) -> None:
    """Only data to which the replaced model refers are removed, and only under names of their own."""
    stranger = "out.onnx.0123456789abcdef.data"
    for name in ("out.onnx.data", stranger, "w.bin"):
        (tmp_path / name).write_bytes(np.full(SIZE, 1, np.float32).tobytes())
    onnx.save(message(0), tmp_path / "out.onnx", save_as_external_data=True, location="v.bin", size_threshold=0)
    publish(tmp_path, 2)
    assert {"out.onnx.data", stranger, "w.bin", "v.bin"} < set(names(tmp_path))


def test_long_names_of_data(tmp_path: Path) -> None:
    for name in ("o" * 250 + ".onnx", "ö" * 125 + ".onnx"):
        for number in (1, 2):
            publish_model(numbered(number), tmp_path / name, external=True)
            assert number_in(tmp_path / name) == number
    assert len(names(tmp_path)) == 4
    assert len(os.fsencode(max(data_names(tmp_path), key=os.fsencode))) <= 255


def test_names_are_found_in_models(tmp_path: Path) -> None:
    """Not in the elements of initializers, which are skipped."""
    publish(tmp_path, 1)
    (data,) = data_names(tmp_path)
    big = onnx.load(tmp_path / "out.onnx", load_external_data=False)
    big.graph.initializer.append(numpy_helper.from_array(np.frombuffer(data.encode() * 9000, np.uint8), "names"))

    def names_in_saved() -> set[str]:
        (tmp_path / "big.onnx").write_bytes(big.SerializeToString())
        return publishing._names_in(tmp_path / "big.onnx", re.escape(data))

    assert names_in_saved() == {data}
    del big.graph.initializer[0]
    assert names_in_saved() == set()
    big.graph.doc_string = "-" * (3 << 20) + data
    assert names_in_saved() == {data}


@pytest.mark.usefixtures("no_fsync")
def test_anything_may_be_replaced(tmp_path: Path) -> None:
    for content in (b"", b"old", b"\x3a\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x0a" * 99, os.urandom(9999)):
        (tmp_path / "out.onnx").write_bytes(content)
        (tmp_path / "other.onnx").write_bytes(content)
        publish(tmp_path, 1)
        publish(tmp_path, 2)
        assert number_in(tmp_path / "out.onnx") == 2
        assert len(data_names(tmp_path)) == 1


def test_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    publish(tmp_path, 1)
    first = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    publish(tmp_path, 2)
    publish(tmp_path, 1)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == first


def make_special(path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(path))
    elif kind == "folder":
        path.mkdir()
    else:
        numbers = {"zero device": (1, 5), "block device": (7, 250), "null device": (1, 3)}[kind]
        try:
            os.mknod(path, 0o600 | (stat.S_IFBLK if kind == "block device" else stat.S_IFCHR), os.makedev(*numbers))
        except PermissionError:
            pytest.skip("only root makes devices")


@pytest.mark.parametrize("linked", [False, True], ids=["itself", "behind a link"])
@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "zero device", "block device"])
def test_special_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, linked: bool) -> None:
    monkeypatch.chdir(tmp_path)  # as a socket has a short name
    path = Path("s")
    make_special(path, kind)
    before = path.lstat()
    if linked:
        path = Path("link")
        path.symlink_to("s")
    with pytest.raises(
        ModelError, match=f"^{path} is a folder|cannot write to {path}: it is a {kind.rsplit(maxsplit=1)[-1]}, not"
    ):
        OutputFile.at(path)
    assert Path("s").lstat() == before


def test_null_device_discards(tmp_path: Path) -> None:
    null = tmp_path / "null"
    make_special(null, "null device")
    before = null.lstat()
    paths = OutputPaths.of(model=null, report=null, page=null)
    paths.require_distinct([])
    with Publication(paths.model) as publication:
        staged = publication.add_model(numbered(1), external=True)
        assert number_in(staged) == 1
        publication.add_text(paths.report, lambda: "{}")
        publication.publish()
    assert null.lstat() == before
    assert names(tmp_path) == ["null"]
    assert not staged.exists()


@pytest.mark.parametrize("exists", [True, False], ids=["file", "nothing"])
def test_links_are_followed(tmp_path: Path, exists: bool) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "links").mkdir()
    if exists:
        publish_model(numbered(1), tmp_path / "real" / "v1.onnx", external=True)
    (tmp_path / "links" / "a").symlink_to("../real/v1.onnx")
    (tmp_path / "links" / "b").symlink_to("a")
    publish_model(numbered(2), tmp_path / "links" / "b", external=True)
    assert number_in(tmp_path / "real" / "v1.onnx") == 2
    assert names(tmp_path / "links") == ["a", "b"]
    assert len(names(tmp_path / "real")) == 2


@cases(
    ("place", "message"),
    {
        "loop of links": ("loop", "Too many levels"),
        "no folder": ("nowhere/out", "No such file"),
        "no folder behind a link": ("dangling/out", "No such file"),
        "in a file": ("file/out", "Not a directory"),
        "long name": ("x" * 256, "name too long"),
        "long path of the staged file": ("/".join(["d" * 200] * 19) + "/" + "x" * 250, "name too long"),
        "null character": ("a\0b", "null"),
    },
)
def test_unusable_places_are_refused(tmp_path: Path, place: str, message: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match=message):
        OutputFile.at(tmp_path / place)


def test_deleted_file_has_no_name(tmp_path: Path) -> None:
    with (tmp_path / "f").open("w") as f:
        link = Path(f"/proc/self/fd/{f.fileno()}")
        if not link.exists():
            pytest.skip("no /proc")
        assert OutputFile.at(link).target == tmp_path / "f"
        (tmp_path / "f").unlink()
        with pytest.raises(ModelError, match="has no name"):
            OutputFile.at(link)


def test_file_replaced_by_another_writer_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path, 1)
    realpath = os.path.realpath

    def replacing(path: Any, **options: Any) -> Any:
        publish_text(other, lambda: "new")
        return realpath(path, **options)

    other = OutputFile.at(tmp_path / "out.onnx")
    monkeypatch.setattr(os.path, "realpath", replacing)
    assert OutputFile.at(tmp_path / "out.onnx").name == "out.onnx"


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.usefixtures("no_fsync")
def test_modes_are_kept(tmp_path: Path) -> None:
    publish(tmp_path, 1)
    for mode in (0o600, 0o640, 0o444, 0o777):
        for path in tmp_path.iterdir():
            path.chmod(mode)
        publish(tmp_path, 2)
        assert modes(tmp_path) == {mode}
        publish_model(numbered(3), tmp_path / "out.onnx")
        publish(tmp_path, 4)
        assert modes(tmp_path) == {mode}


def test_new_files_follow_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        publish(tmp_path, 1)
    finally:
        os.umask(old)
    assert modes(tmp_path) == {0o640}


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")


@needs_root
def test_owner_and_group_are_kept(tmp_path: Path) -> None:
    publish(tmp_path, 1)
    os.chown(tmp_path / "out.onnx", 1234, 2345)
    publish(tmp_path, 2)
    status = (tmp_path / "out.onnx").stat()
    assert (status.st_uid, status.st_gid) == (1234, 2345)


@needs_root
def test_group_that_cannot_be_kept_gets_no_more_than_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path, 1)
    os.chown(tmp_path / "out.onnx", -1, 2345)
    (tmp_path / "out.onnx").chmod(0o664)

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "chown", refused)
    publish(tmp_path, 2)
    assert stat.S_IMODE((tmp_path / "out.onnx").stat().st_mode) == 0o644


def test_unwritable_folder_and_file_are_refused(open_path: Path) -> None:
    """Before the work, for another user than root."""
    (open_path / "folder").mkdir(mode=0o555)
    (open_path / "open").mkdir()
    (open_path / "open").chmod(0o777)
    (open_path / "open" / "read-only").touch()
    (open_path / "open" / "read-only").chmod(0o444)

    def check() -> None:
        become_another_user(open_path)
        for place in ("folder/out", "open/read-only"):
            with pytest.raises(ModelError, match="Permission denied"):
                OutputFile.at(place)
        publish(Path("open"), 1)

    assert in_fork(check) == 0


def test_folder_replaced_during_a_run(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "victim").mkdir()
    publish(tmp_path / "victim", 1)
    before = names(tmp_path / "victim")
    with Publication(OutputFile.at(tmp_path / "out" / "out.onnx")) as publication:
        publication.add_model(numbered(2), external=True)
        (tmp_path / "out").rename(tmp_path / "moved")
        (tmp_path / "out").symlink_to("victim")
        with pytest.raises(ModelError, match="was replaced during the run"):
            publication.publish()
    assert names(tmp_path / "victim") == before
    assert number_in(tmp_path / "victim" / "out.onnx") == 1
    publishing.finish_publications(tmp_path / "moved")  # as the next run there does
    assert not names(tmp_path / "moved")


def abandon(make: Callable[[], ScratchFolder]) -> None:
    """Make a scratch folder with content in a process that is killed."""

    def work() -> None:
        folder = make()
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        (folder.path / "sub").mkdir()
        (folder.path / "sub" / "f").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_fork(work) == signal.SIGKILL


def test_abandoned_folders_are_removed(tmp_path: Path) -> None:
    """Those of killed processes; not those in use, nor others of such a name."""
    used = ScratchFolder(tmp_path)
    abandon(lambda: ScratchFolder(tmp_path))
    assert len(names(tmp_path)) == 2
    for name in ("passwright-1-abcdefgh", ".passwright-x-abcdefgh"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").touch()
    (tmp_path / ".passwright-1-abcdefgh").symlink_to("passwright-1-abcdefgh")
    remove_abandoned(tmp_path)
    kept = {used.path.name, "passwright-1-abcdefgh", ".passwright-x-abcdefgh", ".passwright-1-abcdefgh"}
    assert set(names(tmp_path)) == kept
    used.remove()
    assert used.path.name not in names(tmp_path)


def test_abandoned_stages_are_removed(tmp_path: Path) -> None:
    """By the next process that writes there, beside those in use."""
    for work in (lambda: staging_folder(tmp_path).remove(), lambda: publish(tmp_path, 1)):
        with ScratchFolder(tmp_path, is_hidden=True) as path:
            used = path
            abandon(lambda: ScratchFolder(tmp_path, is_hidden=True))
            assert len(names(tmp_path)) == 2
            assert in_fork(work) == 0
            assert [name for name in names(tmp_path) if name.startswith(".")] == [used.name]


def test_folder_of_results_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of a publication does not depend on the files beside it, except where unused data are removed."""
    listed: list[Path] = []

    def recording(path: Path, real: Callable[[Path], list[str]] = os.listdir) -> list[str]:
        listed.append(path)
        return real(path)

    monkeypatch.setattr(os, "listdir", recording)
    for external in (False, True):
        for _ in range(2):
            publish(tmp_path, 1, external=external)
            publish_model(numbered(2), tmp_path / "n.onnx", external=external)
    assert listed.count(tmp_path) == 1
    publish(tmp_path, 2)
    assert listed.count(tmp_path) == 2


def test_temporary_folders_of_killed_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first use of the folder for temporary files by a process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def use() -> None:
        with ScratchFolder() as folder:
            assert names(tmp_path) == [folder.name]

    abandon(ScratchFolder)
    assert len(names(tmp_path)) == 1
    assert in_fork(use) == 0


def test_folder_without_a_lock_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OSError, match="No space left"):
        ScratchFolder(tmp_path)
    assert not names(tmp_path)


def test_interruption_anywhere_leaves_no_scratch_folder(tmp_path: Path) -> None:
    """KeyboardInterrupt before each instruction of scratch_folder.py until a folder is made."""

    def is_interrupted_at(step: int) -> bool:
        count = 0

        def trace(frame: FrameType, event: str, _: object) -> object:
            nonlocal count
            if frame.f_code.co_filename != scratch_folder.__file__:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                count += 1
                if count == step:
                    raise KeyboardInterrupt
            return trace

        try:
            sys.settrace(trace)
            folder = ScratchFolder(tmp_path)
            sys.settrace(None)
            folder.remove()
        except KeyboardInterrupt:
            sys.settrace(None)
            return True
        return False

    step = 1
    while is_interrupted_at(step):
        assert names(tmp_path) == [], step
        step += 1
    assert step > 100


def test_folder_of_a_parent_survives_a_fork(tmp_path: Path) -> None:
    folder = ScratchFolder(tmp_path)
    assert in_fork(lambda: (folder.remove(), remove_abandoned(tmp_path))) == 0
    assert folder.path.is_dir()


def test_copy_with_foreign_data(tmp_path: Path) -> None:
    """A model of another tool has data of a fixed name."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    for number in (1, 2):
        path = tmp_path / "in" / "m.onnx"
        onnx.save(message(number), path, save_as_external_data=True, location="m.onnx.data", size_threshold=0)
        publish_copy(path, [tmp_path / "in" / "m.onnx.data"], tmp_path / "out")
        (tmp_path / "in" / "m.onnx.data").unlink()
        assert number_in(tmp_path / "out" / "m.onnx") == number
    assert names(tmp_path / "out") == ["m.onnx", "m.onnx.data"]


@pytest.mark.usefixtures("no_fsync")
@pytest.mark.parametrize(("size", "failed"), [(0, "out.onnx"), (1000, "out.onnx"), (3000, "r.json"), (5000, "")])
def test_full_disk(tmp_path: Path, size: int, failed: str) -> None:
    publish(tmp_path, 1)
    before = names(tmp_path)

    def work() -> None:
        with Publication(OutputFile.at(tmp_path / "out.onnx")) as publication:
            publication.add_model(numbered(2), external=True)
            publication.add_text(OutputFile.at(tmp_path / "r.json"), lambda: "2" + " " * 4000)
            publication.publish()

    message = f"cannot write {tmp_path}/{failed}: File too large; the model was not written" if failed else ""
    assert limited(size, work) == message
    number = 1 if failed else 2
    assert number_in(tmp_path / "out.onnx") == number
    assert json.loads((tmp_path / "r.json").read_text()) == number
    assert len(names(tmp_path)) == len(before)


def test_failed_move_of_a_report_says_that_the_model_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = Path.replace

    def failing(path: Path, target: Path) -> Path:
        if target.name == "r.json":
            raise OSError(28, "No space left on device")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(ModelError, match=r"r\.json: No space left on device; the model was written$"):
        publish(tmp_path, 1)
    assert number_in(tmp_path / "out.onnx") == 1


def test_text_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    publish_text(OutputFile.at(path), lambda: "<p>größer\udcff</p>")
    assert path.read_text(encoding="utf-8") == "<p>größer\\udcff</p>\n"
    assert names(tmp_path) == ["report.html"]


def test_lock_of_a_folder_held_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `flock FOLDER passes run ...` does: data stay, and the run goes on."""
    monkeypatch.setattr(folder_locks, "LOCK_WAIT", 0.05)
    publish(tmp_path, 1)
    with locked(tmp_path) as is_locked:
        assert is_locked
        publish(tmp_path, 2)
    assert number_in(tmp_path / "out.onnx") == 2
    assert len(data_names(tmp_path)) == 2


def test_interruption_before_files_are_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As while they are flushed to a slow disk."""

    def interrupted_flush(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted_flush)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        publish(tmp_path, 1)
    assert interrupted.value.__notes__ == ["nothing was written"]
    assert not names(tmp_path)
