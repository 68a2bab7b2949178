"""Private folders for values that processes exchange, in memory if there is room."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..support.scratch_folder import ScratchFolder, shared_folder

MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - only private folders in it are used
MIN_FREE_BYTES = 2 << 30  # in that folder


def private_folder() -> ScratchFolder:
    """A new folder that others cannot read, in memory if there is enough."""
    parent = None
    if MEMORY_FOLDER.is_dir() and os.access(MEMORY_FOLDER, os.W_OK):
        parent = shared_folder(MEMORY_FOLDER)
        parent = parent if shutil.disk_usage(MEMORY_FOLDER).free >= MIN_FREE_BYTES else None
    return ScratchFolder(parent)
