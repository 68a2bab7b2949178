"""Temporary folders with a lock, which distinguishes folders in use from the folders of killed processes."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from random import SystemRandom
from stat import S_ISDIR
from string import ascii_lowercase, digits
from tempfile import gettempdir
from weakref import finalize

from ..errors import PassesError
from .folder_locks import try_lock
from .supervision import FOLDER, tell

LOCK = ".lock"
RECORD = ".publication"
"""The file in a staging folder that names a model, and the external data that its publication may leave unused."""
NAMES = re.compile(r"\.?passwright-\d+-[a-z0-9]{8}")
EXAMPLE = ".passwright-4194304-abcdefgh"
"""A name of the maximum length."""
MAX_TRIES = 100  # names that are tried


class ScratchFolder:
    """A new folder at `path` in `parent`, by default in the folder for temporary files; only this user can read it.

    It is removed with this object, or at the end of the context, whose value is the path. After a kill the next process
    that calls `remove_abandoned` for the parent removes it. Raises OSError; without a `parent`, PassesError.
    """

    __slots__ = ("__weakref__", "_finish", "path")

    def __init__(self, parent: Path | None = None, *, is_hidden: bool = False) -> None:
        place = _Place()
        self._finish = finalize(self, place.remove)  # before the folder exists, so that an interruption leaves none
        try:
            self.path = place.create(parent or shared_folder(Path(gettempdir())), "." if is_hidden else "")
        except OSError as e:
            self.remove()
            if parent is not None:
                raise
            raise PassesError(f"cannot make a folder for temporary files: {e.strerror}; TMPDIR names another") from e
        except BaseException:
            self.remove()
            raise

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder and everything in it."""
        self._finish()


class _Place:
    """The path of a scratch folder of this process, which is set before the folder is created, and its open lock."""

    __slots__ = ("lock", "owner", "path")

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.path: Path | None = None
        self.lock: int | None = None

    def create(self, parent: Path, prefix: str) -> Path:
        """Create the folder and lock it. Raises OSError."""
        random = SystemRandom()
        for _ in range(MAX_TRIES):
            letters = "".join(random.choices(ascii_lowercase + digits, k=8))
            path = self.path = parent.absolute() / f"{prefix}passwright-{self.owner}-{letters}"
            try:
                path.mkdir(0o700)
            except FileExistsError:
                self.path = None
                continue
            try:
                self.lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            except FileNotFoundError:  # another process removed it before it was locked
                continue
            if try_lock(self.lock) is not False and os.fstat(self.lock).st_nlink:
                return path
            self._unlock()
        raise FileExistsError(f"no name for a folder in {parent}")

    def remove(self) -> None:
        """Remove the folder, except in a fork of its owner; interruptions are delayed until it is removed."""
        try:
            if os.getpid() == self.owner and self.path is not None:
                remove_folder(self.path)
        except KeyboardInterrupt:
            if self.path is not None:
                remove_folder(self.path)
            raise
        finally:
            self._unlock()

    def _unlock(self) -> None:
        if self.lock is not None:
            lock, self.lock = self.lock, None
            os.close(lock)


def is_scratch(path: Path) -> bool:
    """Whether a path is inside a scratch folder."""
    return any(map(NAMES.fullmatch, path.parts))


def remove_folder(path: Path) -> None:
    """Remove a scratch folder as far as possible, its lock last, so that a process after a kill finds the rest."""
    with suppress(OSError):
        for entry in path.iterdir():
            if entry.name != LOCK:
                _remove(entry)
        (path / LOCK).unlink(missing_ok=True)
        path.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _do_nothing(_: Path) -> None: ...


def shared_folder(path: Path, before: Callable[[Path], object] = _do_nothing) -> Path:
    """A folder that other programs also use; when a process first uses it, abandoned scratch folders in it are removed.

    `before` is called with each abandoned folder first.
    """
    _remove_once(path.absolute(), before, os.getpid())
    return path


def remove_killed(parents: Iterable[str]) -> None:
    """Remove what killed processes left in folders, except publications, which the next process there completes."""

    def require_no_publication(stage: Path) -> None:
        if (stage / RECORD).exists():
            raise BlockingIOError

    for parent in parents:
        remove_abandoned(Path(parent), require_no_publication)


@cache
def _remove_once(path: Path, before: Callable[[Path], object], _pid: int) -> None:
    tell(FOLDER, str(path))
    remove_abandoned(path, before)


def remove_abandoned(parent: Path, before: Callable[[Path], object] = _do_nothing) -> None:
    """Remove this user's scratch folders in `parent` that no process holds; `before` is called with each first."""
    try:
        names = [name for name in os.listdir(parent) if NAMES.fullmatch(name)]  # noqa: PTH208 - of perhaps many files
    except OSError:
        return
    for name in names:
        with suppress(OSError), _held(parent / name) as is_abandoned:
            if is_abandoned:
                before(parent / name)
                remove_folder(parent / name)


@contextmanager
def _held(path: Path) -> Generator[bool]:
    """Lock an abandoned scratch folder; False if it is in use, of another user, or another kind. Raises OSError."""
    status = path.lstat()
    if not S_ISDIR(status.st_mode) or (hasattr(os, "geteuid") and status.st_uid != os.geteuid()):
        yield False
        return
    try:
        lock = os.open(path / LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        path.rmdir()  # fails unless it is empty
        yield False
        return
    try:
        yield bool(try_lock(lock))
    finally:
        os.close(lock)
