"""Folders held open, so that names in them lead to the same files wherever their paths lead later."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from stat import S_ISDIR
from time import monotonic, sleep
from typing import Any
from weakref import finalize

LOCK_WAIT = 5.0  # seconds; passwright holds the lock of a folder for the time of some renames
POLL_INTERVAL = 0.01  # seconds


class OpenFolder:
    """The folder that is at `path` now. Raises OSError if it cannot be opened.

    Where the system has no descriptors of folders, names are looked up by path.
    """

    __slots__ = ("__weakref__", "descriptor", "path")

    def __init__(self, path: Path, parent: OpenFolder | None = None) -> None:
        self.path = path
        self.descriptor = _open_folder(path, None if parent is None else parent.descriptor)
        if self.descriptor is not None:
            finalize(self, os.close, self.descriptor)

    def inner(self, name: str) -> OpenFolder:
        """A folder in this one, held open as well. Raises OSError."""
        return OpenFolder(self.path / name, self)

    def is_at(self, path: Path) -> bool:
        """Whether `path` still leads to this folder."""
        if self.descriptor is None:
            return True
        try:
            return os.path.samestat(os.fstat(self.descriptor), path.stat())
        except OSError:
            return False

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """A descriptor of a file in the folder. Raises OSError."""
        return os.open(self._at(name), flags | getattr(os, "O_CLOEXEC", 0), mode, dir_fd=self.descriptor)

    def stat(self, name: str, *, follow_symlinks: bool = False) -> os.stat_result:
        """The status of a file in the folder. Raises OSError."""
        return os.stat(self._at(name), dir_fd=self.descriptor, follow_symlinks=follow_symlinks)

    def has(self, name: str) -> bool:
        """Whether there is a file or folder of that name. Raises OSError."""
        with suppress(FileNotFoundError):
            self.stat(name)
            return True
        return False

    def mkdir(self, name: str, mode: int = 0o777) -> None:
        """Make a folder in the folder. Raises OSError."""
        os.mkdir(self._at(name), mode, dir_fd=self.descriptor)

    def names(self) -> list[str]:
        """The names in the folder. Raises OSError."""
        return os.listdir(self.path if self.descriptor is None else self.descriptor)  # noqa: PTH208 - not by path

    def unlink(self, name: str) -> None:
        """Remove a file of the folder. Raises OSError."""
        os.unlink(self._at(name), dir_fd=self.descriptor)

    def rmdir(self, name: str) -> None:
        """Remove an empty folder of the folder. Raises OSError."""
        os.rmdir(self._at(name), dir_fd=self.descriptor)

    def remove_tree(self, name: str) -> None:
        """Remove a file or folder, and all in it, as far as possible."""
        with suppress(OSError):
            if not S_ISDIR(self.stat(name).st_mode):
                self.unlink(name)
                return
        if self.descriptor is None:
            shutil.rmtree(self.path / name, ignore_errors=True)
        else:
            shutil.rmtree(name, ignore_errors=True, dir_fd=self.descriptor)

    def take(self, source: OpenFolder, name: str, new_name: str) -> None:
        """Move a file or folder of `source` here, in place of a file of the new name. Raises OSError."""
        old, new = source._at(name), self._at(new_name)
        os.replace(old, new, src_dir_fd=source.descriptor, dst_dir_fd=self.descriptor)

    def flush_to_disk(self) -> None:
        """Make moves durable, where the file system can. Raises OSError if the disk fails."""
        if self.descriptor is None:
            return
        try:
            os.fsync(self.descriptor)
        except OSError as e:
            if e.errno not in {errno.EINVAL, errno.EBADF, errno.ENOTSUP}:
                raise

    @contextmanager
    def locked(self) -> Generator[bool]:
        """Hold the lock of the folder; False if it is not to be had, as where the file system knows no locks."""
        descriptor = None
        with suppress(OSError):
            descriptor = self.open(".", os.O_RDONLY)
        try:
            yield descriptor is not None and _wait_for_lock(descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _at(self, name: str) -> str:
        return name if self.descriptor is not None else str(self.path / name)


def _open_folder(path: Path, parent: int | None = None) -> int | None:
    """A descriptor of a folder; of one that may not be listed, for names only; None where there are none.

    In an open `parent`, the folder is not a link.
    """
    if os.open not in os.supports_dir_fd:
        if not S_ISDIR(path.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        return None
    flags = os.O_DIRECTORY | os.O_CLOEXEC | (0 if parent is None else os.O_NOFOLLOW)
    place = path if parent is None else path.name
    try:
        return os.open(place, os.O_RDONLY | flags, dir_fd=parent)
    except PermissionError:
        if not hasattr(os, "O_PATH"):
            raise
        return os.open(place, os.O_PATH | flags, dir_fd=parent)


def _wait_for_lock(descriptor: int) -> bool:
    deadline = monotonic() + LOCK_WAIT
    while (is_locked := try_lock(descriptor)) is False and monotonic() < deadline:
        sleep(POLL_INTERVAL)
    return is_locked is True


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file or folder until it is closed; False if another process did, None if there are no locks."""
    try:
        fcntl: Any = import_module("fcntl")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True
