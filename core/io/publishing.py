"""Publication of output files, which are staged next to their destinations and moved together.

The move of a staged model to its destination is the only step that readers can observe. Its external data is in place
before, under a name that only files with the same contents have; data that only the replaced model used is removed
last. A killed process leaves a complete old or new model, and a staging folder, which the next process that writes to
the same folder removes.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE
from types import TracebackType
from typing import Self

from msgspec import Struct

from ..errors import ModelError
from ..ir.tensor import SMALL_TENSOR_BYTES, MappedFile
from ..ir.wire_format import LEN, parse_fields
from ..serialization.exporter import INITIALIZER, MODEL_GRAPH
from ..support.folder_locks import locked
from ..support.scratch_folder import RECORD, ScratchFolder, is_scratch, remove_abandoned, shared_folder
from ..support.supervision import OUTCOME, tell
from .model import Model, SerializedModel
from .output_paths import OutputFile, OutputPaths
from .writer import ReportBytes, data_name_pattern, write_model

MAX_OTHER_MODELS = 1000  # in a folder from which external data is removed
MAX_TEXT_BYTES = 1 << 16  # of an initializer that is searched for file names; longer ones are assumed to be elements


class Publication:
    """The output files of a run; all are staged before the first is published, and the model is published first.

    `replaced_data` is the external data, with any names, of the model being replaced. Use as a context manager, which
    removes staged files at the end. Errors, and a note of a KeyboardInterrupt, say what became of the model, unless it
    is in a scratch folder. `report` is called while the model is written.
    """

    def __init__(
        self,
        model: OutputFile | None = None,
        replaced_data: Collection[Path] = (),
        report: ReportBytes = lambda _written, _total: None,
    ) -> None:
        self.model, self._replaced_data, self._report = model, replaced_data, report
        self._is_output = model is None or not is_scratch(model.target)
        self._is_publishing = False
        self._staged: list[_StagedFile] = []
        self._is_model_written = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for staged in self._staged:
            staged.stage.remove()
        self._staged.clear()
        if self._is_output and isinstance(error, KeyboardInterrupt):
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
        self,
        model: Model | SerializedModel,
        *,
        external: bool = False,
        external_above: int = SMALL_TENSOR_BYTES,
        convert: Callable[[Path, Path], object] | None = None,
    ) -> Path:
        """Stage the model, see `write_model`; return its file, which is temporary if it has no destination.

        `convert` makes the staged file from an ONNX file. Raises ModelError.
        """

        def write(path: Path) -> Path | None:
            if convert is None:
                return write_model(
                    model, path, external=external, external_above=external_above, is_final=True, report=self._report
                )
            with ScratchFolder() as folder:
                write_model(model, folder / "model.onnx", external=external, external_above=external_above)
                convert(folder / "model.onnx", path)
            return None

        return self._add(self.model, write)

    @property
    def model_bytes(self) -> int:
        """The bytes of the staged model with its external data; 0 without one."""
        staged = self._staged[0] if self._staged and self.model is not None else None
        if staged is None or staged.file is not self.model:
            return 0
        return sum(path.stat().st_size for path in (staged.path, staged.data) if path is not None)

    def discard_model(self) -> None:
        """Remove the staged model."""
        self._staged.pop(0).stage.remove()

    def add_text(self, file: OutputFile | None, text: Callable[[], str]) -> None:
        """Make and stage a text, if it has a destination. Raises ModelError."""
        self.add_bytes(file, lambda: f"{text()}\n".encode(errors="backslashreplace"))

    def add_bytes(self, file: OutputFile | None, content: Callable[[], bytes]) -> None:
        """Make and stage a file, if it has a destination. Raises ModelError."""
        if file is not None:
            made = content()

            def write(path: Path) -> None:
                path.write_bytes(made)

            self._add(file, write)

    def publish(self) -> None:
        """Flush all files to disk and move them to their destinations. Raises ModelError at the first that fails."""
        for staged in self._staged:
            with self._naming_errors(staged.file):
                if staged.file is not None and staged.file.folder is not None:
                    staged.flush(staged.file)
        for staged in self._staged:
            self._is_publishing = True
            self._tell_outcome()
            with self._naming_errors(staged.file):
                if staged.file is not None and staged.file.folder is not None:
                    staged.publish(staged.file)
            self._is_model_written = self.model is not None
            self._tell_outcome()

    def _tell_outcome(self) -> None:
        if self._is_output:
            tell(OUTCOME, self._outcome())

    def _add(self, file: OutputFile | None, write: Callable[[Path], Path | None]) -> Path:
        """Stage a file made by `write`, which returns its external data, next to its destination if it has one."""
        parent = None if file is None else file.folder
        with self._naming_errors(file):
            stage = ScratchFolder() if parent is None else staging_folder(parent)
            try:
                path = stage.path / ("model.onnx" if file is None else file.name)
                data = write(path)
            except BaseException:
                stage.remove()
                raise
        self._staged.append(_StagedFile(path, file, stage, data, self._replaced_names(file)))
        return path

    def _replaced_names(self, file: OutputFile | None) -> tuple[str, ...]:
        """The names of external data next to `file`, if it is the model; links and other folders are excluded."""
        if file is None or file is not self.model:
            return ()
        folder = file.target.parent
        return tuple(p.name for p in self._replaced_data if p.parent.resolve() == folder and not p.is_symlink())

    @contextmanager
    def _naming_errors(self, file: OutputFile | None) -> Generator[None]:
        """Convert errors of the system to ModelError with the name of a file."""
        try:
            yield
        except OSError as e:
            where = "a temporary file" if file is None else str(file.path)
            outcome = ""
            if self.model is not None:
                outcome = f"; the model was {'' if self._is_model_written else 'not '}written"
            raise ModelError(f"cannot write {where}: {e.strerror}{outcome}") from e


def publish_text(file: OutputFile | None, text: Callable[[], str]) -> None:
    """Make and write a text atomically, if it has a destination. Raises ModelError."""
    with Publication() as publication:
        publication.add_text(file, text)
        publication.publish()


def publish_report(paths: OutputPaths, report: Callable[[], str], page: Callable[[], str]) -> None:
    """Write a report and its page, if they have destinations. Raises ModelError."""
    with Publication() as publication:
        publication.add_text(paths.report, report)
        publication.add_text(paths.page, page)
        publication.publish()


def publish_copy(model: Path, data: Collection[Path], folder: Path) -> None:
    """Copy a model and its external data, with any names, to a folder. Raises ModelError.

    A model with that name is removed first, because its external data may have the same names; after a kill, there may
    be no model.
    """
    file = OutputFile.at(folder / model.name)
    if (place := file.folder) is None:
        return
    try:
        with staging_folder(place) as stage:
            for part in (*data, model):
                shutil.copyfile(part, stage / part.name)
            with locked(place) as is_locked:
                old = _data_of(file.target) if is_locked else []
                if data:
                    file.target.unlink(missing_ok=True)
                for part in (*data, model):
                    (stage / part.name).replace(file.target if part == model else place / part.name)
                _remove_unreferenced(file.target, old)
    except OSError as e:
        raise ModelError(f"cannot write {file.path}: {e.strerror}") from e


class _StagedFile(Struct, frozen=True):
    """A file in a staging folder and, for a model, its external `data` there.

    `replaced` are names of data that only the replaced model may need, in addition to data with its own names.
    """

    path: Path
    file: OutputFile | None
    stage: ScratchFolder
    data: Path | None
    replaced: tuple[str, ...]

    def flush(self, file: OutputFile) -> None:
        """Flush the file to disk, like its data. Raises OSError, or ModelError if its folder was replaced."""
        file.require_same_folder()
        _flush(self.path)

    def publish(self, file: OutputFile) -> None:
        """Move the file to its destination. Raises OSError, or ModelError if its folder was replaced.

        Afterwards, if the folder is locked, data that no model refers to any more is removed.
        """
        file.require_same_folder()
        target = file.target
        with locked(target.parent) as is_locked:
            old = list(dict.fromkeys((*_data_of(target), *self.replaced))) if is_locked else []
            _adopt_permissions(self.path, target)
            if self.data is not None:
                _adopt_permissions(self.data, target.with_name(old[0]) if old else target)
            unused = old if self.data is None else [self.data.name, *old]
            self._record(target.name, unused)
            try:
                self._move(target)
            finally:
                if is_locked:
                    _remove_unreferenced(target, unused)

    def _record(self, model: str, unused: Collection[str]) -> None:
        """Record the external data to remove, so that it can be removed after a kill. Raises OSError."""
        if unused:
            record = self.stage.path / RECORD
            record.write_text(json.dumps([model, *unused]), encoding="ascii")
            _flush(record)

    def _move(self, target: Path) -> None:
        """Move the data, then the file, and flush each to disk. Raises OSError, or ModelError for the last step."""
        if self.data is not None:
            self.data.replace(target.with_name(self.data.name))
            _flush_folder(target.parent)
        self.path.replace(target)
        try:
            _flush_folder(target.parent)
        except OSError as e:
            raise ModelError(f"{target} was written, but may be lost: {e.strerror}") from e


def _flush(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Make moves in a folder durable, if the file system can. Raises OSError if the disk fails."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # the folder cannot be listed, or the system cannot open folders
        return
    try:
        os.fsync(descriptor)
    except OSError as e:
        if e.errno not in {errno.EINVAL, errno.EBADF, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


def _adopt_permissions(path: Path, replaced: Path) -> None:
    """Give a staged file the owner, group and mode of the file that it replaces, as far as permitted.

    If the group cannot be kept, it gets only the permissions that others have. Raises OSError.
    """
    try:
        old = replaced.lstat()
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


def staging_folder(folder: Path) -> ScratchFolder:
    """Create a hidden folder in `folder`, after finishing publications of killed processes. Raises OSError.

    These are looked for when a process first uses `folder`.
    """
    return ScratchFolder(shared_folder(folder, _finish_publication), is_hidden=True)


def finish_publications(folder: Path) -> None:
    """Remove the staging folders of killed processes in a folder, and their unused external data."""
    remove_abandoned(folder, _finish_publication)


def _finish_publication(stage: Path) -> None:
    """Remove the external data that a killed publication left unused. Raises BlockingIOError if it must wait."""
    try:
        name, *data = json.loads((stage / RECORD).read_bytes())
        own = [d for d in data if re.fullmatch(data_name_pattern(name), d)]
    except (OSError, ValueError, TypeError):
        return
    with locked(stage.parent) as is_locked:
        if not is_locked:
            raise BlockingIOError
        _remove_unreferenced(stage.with_name(name), own)


def _data_of(model: Path) -> list[str]:
    """The external data of a model under its own names."""
    with suppress(OSError):
        return sorted(n for n in _names_in(model, data_name_pattern(model.name)) if model.with_name(n).exists())
    return []


def _remove_unreferenced(model: Path, data: Collection[str]) -> None:
    """Remove the `data` of a model that neither it nor another model in the folder refers to.

    Nothing is removed if one of them cannot be read, or if there are too many.
    """
    with suppress(OSError):
        left = _unnamed_in([model], data)
        others = (
            [p for p in model.parent.iterdir() if p.name.casefold().endswith(".onnx") and p != model] if left else []
        )
        if len(others) <= MAX_OTHER_MODELS:
            for name in _unnamed_in(others, left):
                model.with_name(name).unlink(missing_ok=True)


def _unnamed_in(models: Iterable[Path], names: Iterable[str]) -> set[str]:
    """The `names` that do not occur in the files of these models. Raises OSError."""
    left = set(names)
    for model in models:
        left -= _names_in(model, "|".join(map(re.escape, left))) if left else left
    return left


def _names_in(model: Path, pattern: str) -> set[str]:
    """The names matching a pattern in a model file; empty for other files. Raises OSError."""
    if not model.is_file():
        return set()
    sought, found = re.compile(os.fsencode(pattern)), set[bytes]()
    with suppress(ModelError):  # the rest of the file is not a model
        for text in _texts(MappedFile(model).view()):
            found.update(sought.findall(text))
    return set(map(os.fsdecode, found))


def _texts(data: memoryview) -> Iterator[memoryview]:
    """Yield the fields of a serialized model, without the elements of its initializers. Raises ModelError."""
    for f in parse_fields(data, 0, len(data)):
        if f.number != MODEL_GRAPH or f.wire_type != LEN:
            yield data[f.begin : f.end]
            continue
        for g in parse_fields(data, f.begin, f.end):
            if g.number != INITIALIZER or g.end - g.begin <= MAX_TEXT_BYTES:
                yield data[g.begin : g.end]
