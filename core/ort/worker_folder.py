"""Private folders for values that processes exchange, in memory if there is room."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

from ..support.scratch_folder import ScratchFolder, shared_folder

MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - only private folders in it are used
MIN_FREE_BYTES = 2 << 30  # in that folder


def private_folder() -> Path:
    """A new folder that others cannot read, in memory if there is enough; see `ScratchFolder`."""
    parent = None
    if MEMORY_FOLDER.is_dir() and os.access(MEMORY_FOLDER, os.W_OK):
        parent = shared_folder(MEMORY_FOLDER)
        parent = parent if shutil.disk_usage(MEMORY_FOLDER).free >= MIN_FREE_BYTES else None
    folder = ScratchFolder(parent)
    return _folders(os.getpid()).setdefault(folder.path, folder).path


def remove_folder(folder: Path, owner: int) -> None:
    """Remove a folder, in the process that made it and not in a fork of that."""
    if os.getpid() == owner and folder in _folders(owner):
        _folders(owner).pop(folder).remove()


@cache
def _folders(_pid: int) -> dict[Path, ScratchFolder]:
    """The folders of a process, whose locks are held as long as they are in use."""
    return {}
