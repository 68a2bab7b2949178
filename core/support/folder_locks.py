"""Locks on files and folders between processes (flock(2))."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from typing import Any

LOCK_WAIT = 5.0  # seconds; passwright holds the lock of a folder only during a few renames
POLL_INTERVAL = 0.01  # seconds


@contextmanager
def locked(folder: Path) -> Generator[bool]:
    """Hold the lock of a folder; False if it is unavailable, such as on a file system without locks."""
    descriptor = None
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor is not None and _wait_for_lock(descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _wait_for_lock(descriptor: int) -> bool:
    deadline = monotonic() + LOCK_WAIT
    while (is_locked := try_lock(descriptor)) is False and monotonic() < deadline:
        sleep(POLL_INTERVAL)
    return is_locked is True


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file or folder until it is closed; False if another process holds it, None if there are no locks."""
    try:
        fcntl: Any = import_module("fcntl")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True
