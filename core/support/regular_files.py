"""Regular files, which are opened without waiting."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_descriptor(path: Path) -> int:
    """The descriptor of a regular file, opened for reading. Raises OSError, also for other kinds of files.

    Opening a FIFO would wait, and the contents of a device may never end. The kind is checked before and after the file
    is opened, because opening a device may have effects, and the name may refer to another file by then.
    """
    try:
        _require_regular(path.stat(), path)
        descriptor = os.open(path, FLAGS)
    except ValueError as e:  # the name contains a NUL
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path)) from e
    try:
        _require_regular(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises OSError, also for other kinds of files."""
    return os.fdopen(open_descriptor(path), "rb")


def is_folder(path: Path) -> bool:
    """Whether there is a folder of that name; False for an impossible name."""
    try:
        return path.is_dir()
    except OSError:  # such as a name that is too long
        return False


def read_text(path: Path, limit: int) -> str:
    """The text of a regular file of at most `limit` bytes in UTF-8, without a byte order mark.

    Raises OSError and UnicodeDecodeError.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return file.read().decode("utf-8-sig")


def unreadable(path: Path, error: OSError, wanted: str = "file") -> str:
    """The message about a file that cannot be opened."""
    if isinstance(error, FileNotFoundError):
        return f"{path} does not exist"
    if isinstance(error, IsADirectoryError):
        return f"{path} is a folder, not a {wanted}"
    return f"{path} cannot be read: {error.strerror}"


def _require_regular(found: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
