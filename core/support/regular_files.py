"""Regular files, opened without waiting."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises OSError, also for another kind of file.

    A FIFO would be waited for, and the contents of a device may never end. The kind is checked before and after the
    file is opened: opening a device may have effects, and the name may come to mean another file meanwhile.
    """
    try:
        _require_regular(path.stat(), path)
        descriptor = os.open(path, FLAGS)
    except ValueError as e:  # the name has a NUL
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path)) from e
    try:
        _require_regular(os.fstat(descriptor), path)
        return os.fdopen(descriptor, "rb")
    except OSError:
        os.close(descriptor)
        raise


def _require_regular(found: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
