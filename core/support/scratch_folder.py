"""Temporary folders with a lock, by which those of killed processes are told from those in use.

Those in which files are staged beside their places lie in one hidden folder there for each user, which goes with the
last of them: they are found without the names of all other files.
"""

from __future__ import annotations

import errno
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
EXAMPLE = ".passwright-4294967295/.passwright-4194304-abcdefgh"
"""A path as long as any of a stage."""
MAX_TRIES = 100  # of names


class ScratchFolder:
    """A new folder in `parent`, by default in that for temporary files, at `path`; nobody else can read it.

    It goes with this object, or at the end of the context, which gets the path. After a kill the next process that
    calls `remove_abandoned` for the parent removes it; `remove_abandoned_stages`, if it is a stage, which is hidden.
    Raises OSError, without a `parent` PassesError.
    """

    __slots__ = ("__weakref__", "_finish", "folder", "path")

    def __init__(self, parent: OpenFolder | None = None, *, is_stage: bool = False) -> None:
        place = _Place(is_stage)
        self._finish = finalize(self, place.remove)  # before there is a folder, so that an interruption leaves none
        try:
            self.folder = place.create(parent or shared_folder(Path(gettempdir())))
        except OSError as e:
            self.remove()
            if parent is not None:
                raise
            raise PassesError(f"cannot make a folder for temporary files: {e.strerror}; TMPDIR names another") from e
        except BaseException:
            self.remove()
            raise
        self.path = self.folder.path

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder and all in it."""
        self._finish()


def staging_folder(parent: OpenFolder) -> ScratchFolder:
    """A new stage in `parent`; those abandoned there are removed. Raises OSError."""
    remove_abandoned_stages(parent)
    return ScratchFolder(parent, is_stage=True)


class _Place:
    """The place of a scratch folder of this process: `name` in `parent`, which may be the folder of stages in `outer`.

    `name` is set before the folder is made.
    """

    __slots__ = ("is_stage", "lock", "name", "outer", "owner", "parent")

    def __init__(self, is_stage: bool) -> None:
        self.is_stage, self.owner, self.name = is_stage, os.getpid(), ""
        self.outer: OpenFolder | None = None
        self.parent: OpenFolder | None = None
        self.lock: int | None = None

    def create(self, outer: OpenFolder) -> OpenFolder:
        """Make the folder and lock it. Raises OSError."""
        self.outer = outer
        if not self.is_stage:
            return self._create(outer, "")
        for _ in range(MAX_TRIES):
            with suppress(FileExistsError):
                outer.mkdir(_stages_name(), 0o700)
            with suppress(FileNotFoundError):  # another process removed it with the last stage
                return self._create(_stages(outer), ".")
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(outer.path))

    def _create(self, parent: OpenFolder, prefix: str) -> OpenFolder:
        random = SystemRandom()
        self.parent = parent
        for _ in range(MAX_TRIES):
            letters = "".join(random.choices(ascii_lowercase + digits, k=8))
            self.name = f"{prefix}passwright-{self.owner}-{letters}"
            try:
                parent.mkdir(self.name, 0o700)
            except FileExistsError:
                self.name = ""
                continue
            try:
                folder = parent.inner(self.name)
                self.lock = folder.open(LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            except FileNotFoundError:  # another process removed it before it was locked
                continue
            if try_lock(self.lock) is not False and os.fstat(self.lock).st_nlink:
                return folder
            self._unlock()
        raise FileExistsError(f"no name for a folder in {parent.path}")

    def remove(self) -> None:
        """Remove the folder, but not in a fork of its owner; an interruption waits until it is removed."""
        try:
            if os.getpid() == self.owner:
                self._remove()
        except KeyboardInterrupt:
            self._remove()
            raise
        finally:
            self._unlock()

    def _remove(self) -> None:
        if self.parent is not None and self.name:
            remove_folder(self.parent, self.name)
        if self.is_stage and self.outer is not None:
            _remove_stages(self.outer)

    def _unlock(self) -> None:
        if self.lock is not None:
            lock, self.lock = self.lock, None
            os.close(lock)


def _stages(parent: OpenFolder) -> OpenFolder:
    """The folder of the stages of this user in `parent`; `parent` itself if that name is taken by something else.

    Raises FileNotFoundError if there is none.
    """
    try:
        stages = parent.inner(_stages_name())
        is_own = stages.stat(".").st_uid == _user()
    except FileNotFoundError:
        raise
    except OSError:
        return parent
    return stages if is_own else parent


def _stages_name() -> str:
    return f".passwright-{_user()}"


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


def _remove_stages(parent: OpenFolder) -> None:
    """Remove the folder of stages in `parent`, if it is empty."""
    with suppress(OSError):
        parent.rmdir(_stages_name())


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


def remove_abandoned_stages(parent: OpenFolder, before: Callable[[OpenFolder], object] = lambda _: None) -> None:
    """Remove the stages of this user in `parent`, as `remove_abandoned`."""
    with suppress(FileNotFoundError):
        remove_abandoned(_stages(parent), before)
        _remove_stages(parent)


@contextmanager
def _held(parent: OpenFolder, name: str) -> Generator[OpenFolder | None]:
    """An abandoned scratch folder, locked; None for one in use, of another user, or of another kind. Raises OSError."""
    status = parent.stat(name)
    if not S_ISDIR(status.st_mode) or status.st_uid != _user():
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
