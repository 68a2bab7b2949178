"""Processes that are killed at a call of the file system, or whose files are cut as on a full disk; waits for them."""

from __future__ import annotations

import gc
import io
import os
import resource
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from passwright.core.errors import PassesError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PATIENCE = 300.0  # seconds, used up by failures only
CALLS = ("mkdir", "open", "replace", "unlink", "rmdir", "fsync", "chmod", "listdir")


def wait_until(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def are_gone(numbers: Iterable[int]) -> bool:
    """Whether there are no processes of these numbers."""
    return not any(Path("/proc", str(n)).exists() for n in numbers)


def in_fork(work: Callable[[], object]) -> int:
    """The status of a process that does some work."""
    return status_of(start_fork(work))


def start_fork(work: Callable[[], object]) -> int:
    """Start a process that does some work."""
    child = os.fork()
    if child == 0:
        gc.freeze()  # garbage of the parent, as sessions, may wait for its threads, which a fork does not have
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def status_of(child: int) -> int:
    """The status of a process at its end."""
    return os.waitpid(child, 0)[1]


def kill_at(count: int) -> None:
    """Kill this process before its call number `count` of those that change or read the file system."""
    left = iter(range(count))

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **options: Any) -> Any:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **options)

        return counting

    for name in CALLS:
        call = counted(getattr(os, name))
        if getattr(os, name) in os.supports_dir_fd:  # as the code asks
            os.supports_dir_fd.add(call)
        setattr(os, name, call)
    io.open = counted(io.open)


def limited(size: int, work: Callable[[], object]) -> str:
    """The message of work in a process whose files are at most so long."""
    read_end, write_end = os.pipe()

    def run() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            work()
        except PassesError as e:
            os.write(write_end, str(e).encode())

    assert in_fork(run) == 0
    os.close(write_end)
    with os.fdopen(read_end) as f:
        return f.read()
