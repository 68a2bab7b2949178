"""Temporary folders with a lock, by which those of killed processes are told from those in use."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from random import SystemRandom
from stat import S_ISDIR
from string import ascii_lowercase, digits
from tempfile import gettempdir
from types import TracebackType
from weakref import finalize

from ..errors import PassesError
from .folders import OpenFolder, try_lock

LOCK = ".lock"
NAMES = re.compile(r"\.?passwright-\d+-[a-z0-9]{8}")
EXAMPLE = ".passwright-4194304-abcdefgh"
"""A name as long as any of a hidden folder."""
MAX_TRIES = 100  # of names


class ScratchFolder:
    """A new folder in `parent`, by default in that for temporary files, at `path`; nobody else can read it.

    It goes with this object, or at the end of the context, which gets the path. After a kill the next process that
    calls `remove_abandoned` for the parent removes it. Raises OSError, without a `parent` PassesError.
    """

    __slots__ = ("__weakref__", "_finish", "folder", "path")

    def __init__(self, parent: OpenFolder | None = None, *, is_hidden: bool = False) -> None:
        try:
            place = parent or shared_folder(Path(gettempdir()))
            name, self.folder, lock = _new_folder(place, "." if is_hidden else "")
        except OSError as e:
            if parent is not None:
                raise
            raise PassesError(f"cannot make a folder for temporary files: {e.strerror}; TMPDIR names another") from e
        self.path = self.folder.path
        self._finish = finalize(self, _remove_own, place, name, lock, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder and all in it."""
        self._finish()


def staging_folder(parent: Path) -> ScratchFolder:
    """A new hidden folder in `parent`; what is abandoned there is removed. Raises OSError."""
    folder = OpenFolder(parent)
    remove_abandoned(folder)
    return ScratchFolder(folder, is_hidden=True)


def _new_folder(parent: OpenFolder, prefix: str) -> tuple[str, OpenFolder, int]:
    """A new folder, its name, and the descriptor of its lock."""
    random = SystemRandom()
    for _ in range(MAX_TRIES):
        letters = "".join(random.choices(ascii_lowercase + digits, k=8))
        name = f"{prefix}passwright-{os.getpid()}-{letters}"
        try:
            parent.mkdir(name, 0o700)
        except FileExistsError:
            continue
        try:
            folder = parent.inner(name)
            lock = folder.open(LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # another process removed it before it was locked
            continue
        except BaseException:
            remove_folder(parent, name)
            raise
        if try_lock(lock) is not False and os.fstat(lock).st_nlink:
            return name, folder, lock
        os.close(lock)
    raise FileExistsError(f"no name for a folder in {parent.path}")


def _remove_own(parent: OpenFolder, name: str, lock: int, owner: int) -> None:
    """Remove a folder, but not in a fork of its owner; an interruption waits until it is removed."""
    try:
        if os.getpid() == owner:
            remove_folder(parent, name)
    except KeyboardInterrupt:
        remove_folder(parent, name)
        raise
    finally:
        os.close(lock)


def remove_folder(parent: OpenFolder, name: str) -> None:
    """Remove a scratch folder as far as possible, its lock last, so that the rest is found after a kill."""
    with suppress(OSError):
        folder = parent.inner(name)
        for entry in folder.names():
            if entry != LOCK:
                folder.remove_tree(entry)
        with suppress(FileNotFoundError):
            folder.unlink(LOCK)
        parent.rmdir(name)


def shared_folder(path: Path) -> OpenFolder:
    """A folder for temporary files of all programs; the first time, what is abandoned in it is removed."""
    _search(path, os.getpid())
    return OpenFolder(path)


@cache
def _search(path: Path, _pid: int) -> None:
    remove_abandoned(OpenFolder(path))


def remove_abandoned(parent: OpenFolder, before: Callable[[OpenFolder], object] = lambda _: None) -> None:
    """Remove the scratch folders of this user in `parent` that no process holds; `before` is called with each first."""
    try:
        names = [name for name in parent.names() if NAMES.fullmatch(name)]
    except OSError:
        return
    for name in names:
        with suppress(OSError), _held(parent, name) as folder:
            if folder is not None:
                before(folder)
                remove_folder(parent, name)


@contextmanager
def _held(parent: OpenFolder, name: str) -> Generator[OpenFolder | None]:
    """An abandoned scratch folder, locked; None for one in use, of another user, or of another kind. Raises OSError."""
    status = parent.stat(name)
    if not S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        yield None
        return
    folder = parent.inner(name)
    try:
        lock = folder.open(LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        parent.rmdir(name)  # fails unless it is empty
        yield None
        return
    try:
        yield folder if try_lock(lock) else None
    finally:
        os.close(lock)
