"""Output files, staged beside their places, and published together.

The move of a staged model to its place is the only step that changes what readers find there. Its external data are
there before, under a name that only files of the same content have; data to which only the replaced model referred go
last. A process that is killed leaves the old model or the new one, whole, and a staging
folder, which the next run that writes to the same folder removes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from stat import S_IMODE, S_ISREG
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self

from ..errors import ModelError
from ..ir.tensor import SMALL_TENSOR_BYTES
from ..ir.wire_format import FIXED32, FIXED64, LEN, VARINT
from ..serialization.exporter import INITIALIZER, MODEL_GRAPH
from ..support.folders import OpenFolder
from ..support.scratch_folder import ScratchFolder, remove_abandoned_stages
from .files import (
    MAX_NAME_BYTES,
    FileVersion,
    ReportBytes,
    begin_to_flush,
    data_name_pattern,
    file_version,
    have_same_bytes,
    is_named_by_content,
    name_by_content,
    write_model,
)
from .model import Model, SerializedModel
from .output_paths import OutputFile

if TYPE_CHECKING:
    from concurrent.futures import Future

RECORD = ".publication"
"""The file in a staging folder that names a model, and the external data that its publication may leave unused."""
ACCESS_LIST = "system.posix_acl_access"
MAX_OTHER_MODELS = 1000  # in a folder from which external data are removed
MAX_SEARCHED_BYTES = 1 << 20  # of a model that is searched as a whole for names of files
MAX_TEXT_BYTES = 1 << 16  # of a field of an initializer; longer ones are elements
PIECE_BYTES = 1 << 20  # of a longer field that is searched at a time


class Publication:
    """The output files of a run, none of which is published before all are staged; the model is published first.

    `replaced_data`: the external data of the model that is in its place now, whatever their names are. Use it as a
    context manager, which removes staged files at the end. Errors say what became of the model; so does a note of a
    KeyboardInterrupt. `report` is called as the model is written.
    """

    def __init__(
        self,
        model: OutputFile | None = None,
        replaced_data: Collection[Path] = (),
        report: ReportBytes = lambda _written, _total: None,
    ) -> None:
        self.model, self._replaced_data, self._report = model, replaced_data, report
        self._is_publishing = False
        self._staged: list[_StagedFile] = []
        self._is_model_written = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for staged in self._staged:
            staged.stage.remove()
        self._staged.clear()
        if isinstance(error, KeyboardInterrupt):
            error.add_note(self._outcome())

    def _outcome(self) -> str:
        """The state of the output files after an interruption."""
        if self.model is None:
            return "some files may be written" if self._is_publishing else "nothing was written"
        path = self.model.path
        if self._is_publishing:
            return f"{path} {'was' if self._is_model_written else 'may be'} written"
        return f"nothing was written{f', {path} is unchanged' if path.exists() else ''}"

    def add_model(
        self, model: Model | SerializedModel, *, external: bool = False, external_above: int = SMALL_TENSOR_BYTES
    ) -> Path:
        """Stage the model, see `write_model`; returns its file. Without a place, it is in the temporary folder.

        Raises ModelError.
        """

        def write(path: Path) -> Path | None:
            return write_model(model, path, external=external, external_above=external_above, report=self._report)

        return self._add(self.model, "model.onnx", write).path

    def add_written(self, write: Callable[[Path], object]) -> Path:
        """Stage the model, without external data, that `write` makes. Raises ModelError, and the errors of `write`."""
        return self._add(self.model, "model.onnx", _without_data(write)).path

    def discard_model(self) -> None:
        """Remove the staged model."""
        model = self._staged.pop(0)
        model.stage.remove()

    def add_text(self, file: OutputFile | None, text: Callable[[], str]) -> None:
        """Make and stage a text, if there is a place for it. Raises ModelError."""
        self.add_bytes(file, lambda: f"{text()}\n".encode(errors="backslashreplace"))

    def add_bytes(self, file: OutputFile | None, content: Callable[[], bytes]) -> None:
        """Make and stage a file, if there is a place for it. Raises ModelError."""
        if file is not None:
            made = content()
            self._add(file, file.name, _without_data(lambda path: path.write_bytes(made)))

    def publish(self) -> None:
        """Move all files to their places, when they are on the disk. Raises ModelError at the first that cannot be."""
        for staged in self._staged:
            with self._naming_errors(staged.file):
                if staged.flushing is not None:
                    staged.flushing.result()
        for staged in self._staged:
            self._is_publishing = True
            with self._naming_errors(staged.file):
                staged.publish()
            self._is_model_written = self.model is not None

    def _add(self, file: OutputFile | None, name: str, write: Callable[[Path], Path | None]) -> _StagedFile:
        """A file that `write` makes, which returns its external data, in a staging folder beside its place.

        A thread begins to flush it to disk, unless it has no place.
        """
        parent = None if file is None else file.folder
        with self._naming_errors(file):
            stage = ScratchFolder() if parent is None else _new_stage(parent)
            try:
                path = stage.path / (name if file is None else file.name)
                data = write(path)
                written = [path] if data is None else [data, path]
                flushing = None if parent is None else begin_to_flush(written)
                staged = _StagedFile(path, file, stage, data, self._replaced_names(file), flushing)
            except BaseException:
                stage.remove()
                raise
        self._staged.append(staged)
        return staged

    def _replaced_names(self, file: OutputFile | None) -> tuple[str, ...]:
        """The names of external data beside `file`, if it is the model: links and other folders are left alone."""
        if file is None or file is not self.model:
            return ()
        folder = file.target.parent
        return tuple(p.name for p in self._replaced_data if p.parent.resolve() == folder and not p.is_symlink())

    @contextmanager
    def _naming_errors(self, file: OutputFile | None) -> Generator[None]:
        """Raise errors of the system as ModelError that names a file."""
        try:
            yield
        except OSError as e:
            where = "a temporary file" if file is None else str(file.path)
            outcome = ""
            if self.model is not None:
                outcome = f"; the model was {'' if self._is_model_written else 'not '}written"
            raise ModelError(f"cannot write {where}: {e.strerror}{outcome}") from e


def publish_model(model: Model | SerializedModel, path: str | Path, *, external: bool = False) -> None:
    """Write a model, whole or not at all; see `write_model`. Raises ModelError."""
    with Publication(OutputFile.at(path)) as publication:
        publication.add_model(model, external=external)
        publication.publish()


def publish_copy(model: Path, data: Collection[Path], folder: Path) -> None:
    """Copy a model and its external data, whatever their names are, to a folder. Raises ModelError.

    A model of that name is removed first, as it may have other data of these names; a kill may leave none.
    """
    file = OutputFile.at(folder / model.name)
    if (place := file.folder) is None:
        return
    try:
        with _new_stage(place) as stage:
            for part in (*data, model):
                shutil.copyfile(part, stage / part.name)
            with place.locked() as is_locked:
                old = _data_of(place, file.name) if is_locked else []
                if data:
                    with suppress(FileNotFoundError):
                        place.unlink(file.name)
                for part in (*data, model):
                    place.take(OpenFolder(stage), part.name, file.name if part == model else part.name)
                _remove_unreferenced(place, file.name, old)
    except OSError as e:
        raise ModelError(f"cannot write {file.path}: {e.strerror}") from e


def publish_text(file: OutputFile | None, text: Callable[[], str]) -> None:
    """Make and write a text, whole or not at all, if there is a place for it. Raises ModelError."""
    with Publication() as publication:
        publication.add_text(file, text)
        publication.publish()


@dataclass(frozen=True, slots=True)
class _StagedFile:
    """A file in a staging folder, and its external `data` there, if it is a model that has some.

    `replaced`: the names of data that only the model which it replaces may need, beside those of its own names.
    `flushing` ends when both are on the disk.
    """

    path: Path
    file: OutputFile | None
    stage: ScratchFolder
    data: Path | None = None
    replaced: tuple[str, ...] = ()
    flushing: Future[None] | None = None

    def publish(self) -> None:
        """Move the file to its place, if it has one. Raises OSError, or ModelError if its folder was replaced."""
        if self.file is None or self.file.folder is None:
            return
        folder = self.file.folder
        if not folder.is_at(folder.path):
            raise ModelError(f"cannot write {self.file.path}: {folder.path} was replaced during the run")
        same = self._equal_data(folder)
        with folder.locked() as is_locked:
            data = self.data
            if data is not None and not (is_locked and _data_version(folder, data.name) == same):
                data = name_by_content(self.path, data)  # without a lock, another one may come at any time
            self._publish_in(folder, data, is_locked=is_locked)

    def _equal_data(self, folder: OpenFolder) -> FileVersion | None:
        """The version of the file of the same name and content as the data in a folder; None if there is none.

        Data whose name tells all of their content are not compared. Raises OSError.
        """
        if (
            self.data is None
            or is_named_by_content(self.data)
            or (version := _data_version(folder, self.data.name)) is None
        ):
            return None
        with (
            suppress(PermissionError),
            FileIO(folder.open(self.data.name, os.O_RDONLY | os.O_NONBLOCK)) as old,
            FileIO(self.data) as new,
        ):
            if file_version(os.fstat(old.fileno())) == version and have_same_bytes(new, old):
                return version
        return None

    def _publish_in(self, folder: OpenFolder, data: Path | None, *, is_locked: bool) -> None:
        """Move the file to a folder, and its `data`, whose name no other content has there. Raises OSError."""
        assert self.file is not None
        name = self.file.name
        old = list(dict.fromkeys((*_data_of(folder, name), *self.replaced))) if is_locked else []
        _adopt_permissions(self.path, folder, name)
        if data is not None:
            _adopt_permissions(data, folder, next(iter(old), name))
        self._move(folder, data, old, is_locked=is_locked)

    def _move(self, folder: OpenFolder, data: Path | None, old: Collection[str], *, is_locked: bool) -> None:
        """Move the file, after its own data. Remove those to which no model refers, if the folder is locked.

        What is to be removed is recorded, so that this can be done after a kill.
        """
        assert self.file is not None
        name, unused = self.file.name, list(old) if data is None else [data.name, *old]
        if unused:
            with (self.stage.path / RECORD).open("wb") as record:
                record.write(json.dumps([name, *unused]).encode())
                record.flush()
                os.fsync(record.fileno())
        try:
            if data is not None:
                folder.take(self.stage.folder, data.name, data.name)
                folder.flush_to_disk()
            folder.take(self.stage.folder, self.path.name, name)
            try:
                folder.flush_to_disk()
            except OSError as e:
                raise ModelError(f"{folder.path / name} was written, but may be lost: {e.strerror}") from e
        finally:
            if is_locked:
                _remove_unreferenced(folder, name, unused)


def _without_data(write: Callable[[Path], object]) -> Callable[[Path], None]:
    """The function that writes a file to which no external data belong."""

    def write_alone(path: Path) -> None:
        write(path)

    return write_alone


def _data_version(folder: OpenFolder, name: str) -> FileVersion | None:
    """The version of a regular file in a folder; None where there is none. Raises OSError."""
    with suppress(FileNotFoundError):
        return file_version(folder.stat(name))
    return None


def _adopt_permissions(path: Path, folder: OpenFolder, name: str) -> None:
    """Give a staged file the owner, group, mode and access list of the file that it replaces, as far as allowed.

    If the group cannot be kept, the group gets no more than all others. Raises OSError.
    """
    try:
        old = folder.stat(name)
    except FileNotFoundError:
        return
    mode, new = S_IMODE(old.st_mode) & 0o777, path.stat()
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(OSError):
            os.chown(path, -1, old.st_gid)
        with suppress(OSError):
            os.chown(path, old.st_uid, -1)
        if path.stat().st_gid != old.st_gid:
            mode &= ~0o070 | (mode & 0o007) << 3
    path.chmod(mode)
    with suppress(OSError, AttributeError):
        os.setxattr(path, ACCESS_LIST, os.getxattr(folder.path / name, ACCESS_LIST))


def _new_stage(folder: OpenFolder) -> ScratchFolder:
    finish_publications(folder)
    return ScratchFolder(folder, is_stage=True)


def finish_publications(folder: OpenFolder) -> None:
    """Remove the staging folders of killed processes in a folder, and external data that these left unused."""
    remove_abandoned_stages(folder, lambda stage: _finish_publication(folder, stage))


def _finish_publication(parent: OpenFolder, stage: OpenFolder) -> None:
    """Remove the external data that a killed publication left unused. Raises BlockingIOError if that has to wait."""
    try:
        name, *data = json.loads((stage.path / RECORD).read_bytes())
        own = [d for d in data if re.fullmatch(data_name_pattern(name), d)]
    except (OSError, ValueError, TypeError):
        return
    with parent.locked() as is_locked:
        if not is_locked:
            raise BlockingIOError
        _remove_unreferenced(parent, name, own)


def _data_of(folder: OpenFolder, name: str) -> list[str]:
    """The external data that a model has under names of its own."""
    pattern = data_name_pattern(name)
    with suppress(OSError):
        if folder.stat(name).st_size > MAX_SEARCHED_BYTES:  # is searched faster for names than for a pattern
            pattern = _any_of(n for n in folder.names() if re.fullmatch(pattern, n))
        return sorted(found for found in _names_in(folder, name, pattern) if folder.has(found))
    return []


def _remove_unreferenced(folder: OpenFolder, name: str, data: Collection[str]) -> None:
    """Remove those of the `data` of a model that neither it nor another model of the folder has any more.

    Nothing is removed if one of them cannot be read, or if there are too many.
    """
    with suppress(OSError):
        left = _unnamed_in(folder, name, set(data))
        others = _other_models(folder, name) if left else []
        if len(others) > MAX_OTHER_MODELS:
            return
        for model in others:
            left = _unnamed_in(folder, model, left)
        for unused in left:
            with suppress(FileNotFoundError):
                folder.unlink(unused)


def _other_models(folder: OpenFolder, name: str) -> list[str]:
    return [n for n in folder.names() if n.casefold().endswith(".onnx") and n != name]


def _unnamed_in(folder: OpenFolder, model: str, names: set[str]) -> set[str]:
    """Those of the `names` that are not in the file of a model. Raises OSError."""
    with suppress(FileNotFoundError):
        return names - _names_in(folder, model, _any_of(names))
    return names


def _any_of(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, names))


def _names_in(folder: OpenFolder, model: str, pattern: str) -> set[str]:
    """The names of a pattern in the file of a model; of a large one outside of the elements of its initializers.

    It is not mapped into memory, as it may be cut meanwhile. Raises OSError.
    """
    if not pattern:
        return set()
    found, sought = set[bytes](), re.compile(os.fsencode(pattern))
    with os.fdopen(folder.open(model, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if S_ISREG(status.st_mode):
            is_large = status.st_size > MAX_SEARCHED_BYTES
            texts = _texts(file, status.st_size, (MODEL_GRAPH, INITIALIZER)) if is_large else [file.read()]
            for text in texts:
                found.update(sought.findall(text))
    return set(map(os.fsdecode, found))


def _texts(file: BinaryIO, end: int, path: tuple[int, ...]) -> Iterator[bytes]:
    """The fields of the message up to `end`; those in `path` one by one, and in the innermost without long ones.

    Ends where the file is no message.
    """
    while (at := file.tell()) < end:
        tag = _varint(file)
        number, kind = tag >> 3, tag & 7
        length = {FIXED32: 4, FIXED64: 8, LEN: 0}.get(kind, 0)
        if kind == VARINT:
            _varint(file)
        elif kind == LEN:
            length = min(_varint(file), max(end - file.tell(), 0))
        elif kind not in {FIXED32, FIXED64}:
            return
        if kind == LEN and path and number == path[0]:
            yield from _texts(file, file.tell() + length, path[1:])
        elif kind == LEN and (path or length <= MAX_TEXT_BYTES):
            yield from _pieces(file, length)
        else:
            file.seek(length, os.SEEK_CUR)
        if file.tell() <= at:
            return


def _pieces(file: BinaryIO, length: int) -> Iterator[bytes]:
    """The next bytes of a file, in pieces that overlap by the length of a name."""
    end = b""
    while length > 0 and (piece := file.read(min(length, PIECE_BYTES))):
        yield end + piece
        end, length = (end + piece)[-MAX_NAME_BYTES:], length - len(piece)


def _varint(file: BinaryIO) -> int:
    """The next varint of a file; what there is of it at the end."""
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        value |= (byte[0] & 0x7F) << shift if byte else 0
        if not byte or byte[0] < 0x80:
            break
    return value
