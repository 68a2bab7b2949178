"""Output paths of a run, checked before it starts."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from stat import S_ISBLK, S_ISCHR, S_ISDIR, S_ISFIFO, S_ISREG, S_ISSOCK
from typing import Self

from msgspec import Struct

from ..errors import ModelError, UsageError
from ..support.scratch_folder import EXAMPLE
from .writer import data_name_pattern

TEXT_SUFFIXES = {".txt", ".json", ".textproto", ".prototxt", ".pbtxt", ".onnxtxt", ".onnxtext", ".onnxjson"}
SPECIAL_FILES = {S_ISCHR: "device", S_ISBLK: "device", S_ISFIFO: "pipe", S_ISSOCK: "socket"}

LABELS = {"name_map": "map of names", "required_operators": "list of required operators"}
"""Fields of OutputPaths that messages name otherwise."""


class OutputFile(Struct, frozen=True):
    """A file to write: `target` is `path` with links resolved; `folder` contains it, with this status.

    The null device has no `folder`, because nothing is written.
    """

    path: Path
    target: Path
    folder: Path | None = None
    _status: os.stat_result | None = None

    @classmethod
    def at(cls, path: str | Path) -> Self:
        """The existing or new file that `path` leads to.

        Raises ModelError for a folder, for a special file except the null device, and if the file evidently cannot be
        written.
        """
        path = Path(path)
        try:
            status = _status(path)
            if status is not None and S_ISCHR(status.st_mode) and status.st_rdev == Path(os.devnull).stat().st_rdev:
                return cls(path, path)
            target = Path(os.path.realpath(path))
            if status is not None:
                _require_replaceable(path, target, status)
            _status(target.parent / EXAMPLE / target.name)  # raises if the path of the staged file would be too long
            folder = target.parent.stat()
            if not S_ISDIR(folder.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            is_writable = os.access(target.parent, os.W_OK | os.X_OK) and (status is None or os.access(path, os.W_OK))
        except (OSError, ValueError) as e:
            raise ModelError(f"cannot write to {path}: {getattr(e, 'strerror', e)}") from e
        if not is_writable:
            raise ModelError(f"cannot write to {path}: Permission denied")
        return cls(path, target, target.parent, folder)

    @property
    def name(self) -> str:
        """The name in its folder."""
        return self.target.name

    def require_same_folder(self) -> None:
        """Raise ModelError if the folder was replaced."""
        with suppress(OSError):
            if self._status is None or os.path.samestat(self._status, self.target.parent.stat()):
                return
        raise ModelError(f"cannot write {self.path}: {self.folder} was replaced during the run")

    def may_be_data(self, path: Path) -> bool:
        """Whether external data of a model in this file could be written to `path`."""
        is_named_so = re.fullmatch(data_name_pattern(self.name), path.name) is not None
        return is_named_so and path.parent.resolve() == self.target.parent


def _status(path: Path) -> os.stat_result | None:
    """The status of a file; None if it or its folder does not exist. Raises OSError."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _require_replaceable(path: Path, target: Path, status: os.stat_result) -> None:
    """Raise ModelError unless an existing file is a regular file with a name."""
    if S_ISDIR(status.st_mode):
        raise ModelError(f"{path} is a folder")
    if not S_ISREG(status.st_mode):
        kind = next((name for is_kind, name in SPECIAL_FILES.items() if is_kind(status.st_mode)), "special file")
        raise ModelError(f"cannot write to {path}: it is a {kind}, not a file")
    if _status(target) is None and _status(path) is not None:  # a deleted file in /proc/self/fd
        raise ModelError(f"cannot write to {path}: the file has no name")


class OutputPaths(Struct, frozen=True):
    """The output files of a run: the model, report, map of names, page, and others.

    `repro_folder` is a folder, created if necessary. `page` is the HTML report, `trace` has the events of a profile,
    `journal` the results of trials, `table` a row for each model, `settings` and `script` describe sessions;
    `reproducer` repeats the run. `required_operators` is the configuration of an onnxruntime build.
    """

    model: OutputFile | None = None
    report: OutputFile | None = None
    name_map: OutputFile | None = None
    repro_folder: Path | None = None
    page: OutputFile | None = None
    trace: OutputFile | None = None
    journal: OutputFile | None = None
    table: OutputFile | None = None
    settings: OutputFile | None = None
    script: OutputFile | None = None
    reproducer: OutputFile | None = None
    required_operators: OutputFile | None = None

    @classmethod
    def of(cls, *, repro_folder: str | Path | None = None, **paths: str | Path | None) -> Self:
        """The paths by field, as given by a caller. Raises ModelError for unwritable ones."""
        files = {field: OutputFile.at(path) for field, path in paths.items() if path is not None}
        if "model" in files:
            if (path := files["model"].path).suffix.lower() in TEXT_SUFFIXES:
                raise UsageError(f"{path}: {path.suffix} is a text format, but models are written in binary: use .onnx")
            _require_utf8(files["model"].target)
        folder = None if repro_folder is None else Path(repro_folder)
        if folder is not None:
            require_writable_folder(folder)
        return cls(repro_folder=folder, **files)

    def require_distinct(self, read: Collection[Path]) -> None:
        """Raise ModelError unless the paths differ from each other and from the files in `read`."""
        files = ((field, getattr(self, field)) for field in self.__struct_fields__)
        written = {LABELS.get(field, field): f for field, f in files if isinstance(f, OutputFile)}
        chosen = {what: f.path for what, f in written.items() if f.folder is not None}
        if self.repro_folder is not None:
            chosen["repros"] = self.repro_folder
        for what, path in chosen.items():
            for other in read:
                if _is_same(path, other):
                    raise ModelError(f"the {what} would overwrite {other}, which is read; choose another name")
        for (what, path), (twin, other) in combinations(chosen.items(), 2):
            if _is_same(path, other):
                raise ModelError(f"{path} cannot hold both the {what} and the {twin}")
        for path in (*read, *chosen.values()):
            if self.model is not None and self.model.may_be_data(Path(os.path.realpath(path))):
                raise ModelError(f"the model's weights could overwrite {path}; choose another name")


def _require_utf8(path: Path) -> None:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ModelError(f"cannot write to {path}: onnxruntime can only read names in UTF-8") from None


def require_writable_folder(path: Path) -> None:
    """Raise ModelError if a folder evidently cannot be created at `path`."""
    try:
        nearest = next(p for p in (path, *path.absolute().parents) if p.exists())
        is_dir = nearest.is_dir()
    except OSError as e:
        raise ModelError(f"cannot write to {path}: {e.strerror}") from e
    if not is_dir:
        raise ModelError(f"cannot write to {path}: {nearest} is not a folder")
    if not os.access(nearest, os.W_OK):
        raise ModelError(f"cannot write to {path}: Permission denied")


def _is_same(a: Path, b: Path) -> bool:
    """Whether two paths are the same file after resolving links."""
    try:
        return os.path.realpath(a) == os.path.realpath(b) or (a.exists() and b.exists() and a.samefile(b))
    except OSError:  # for example, a cycle of links
        return False
