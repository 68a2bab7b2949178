"""Private folders for values that processes exchange, in memory if there is room."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - only private folders in it are used
MIN_FREE_BYTES = 2 << 30  # in that folder


def private_folder() -> Path:
    """A new folder that others cannot read, in memory if there is enough."""
    in_memory = None
    if MEMORY_FOLDER.is_dir() and os.access(MEMORY_FOLDER, os.W_OK):
        in_memory = MEMORY_FOLDER if shutil.disk_usage(MEMORY_FOLDER).free >= MIN_FREE_BYTES else None
    return Path(mkdtemp(prefix=f"passwright-{os.getpid()}-", dir=in_memory))


def remove_folder(folder: Path, owner: int) -> None:
    """Remove a folder, in the process that made it and not in a fork of that."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
