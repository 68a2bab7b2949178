"""Limits of our own processes: memory, core files, idle threads, and their end with the parent."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..support.context_values import set_within_block

if TYPE_CHECKING:
    import ctypes

MACHINE_SHARE = 0.75
"""Share of the memory of the machine or container: the limit of a process without its own."""
CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
MODEL_MEMORY, SMALL_MODEL = 1 << 30, 1_000_000
"""The bytes of memory for a process that runs models, and the maximum size of the file for which they suffice."""
MEMORY_PER_BYTE = 64  # additional, for a larger file
MEMORY_PER_VALUE, MAX_VALUE_MEMORY = 8, 3 << 30
"""A multiple of the bytes of the largest value, up to a maximum, because two sessions hold several such values.

A value that alone takes all the memory of a small model does not raise the limit.
"""
STACK_BYTES = 8 << 20  # of a thread, unless the system specifies another size
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # of Linux's prctl
IDLE_THREADS = {"OPENBLAS_THREAD_TIMEOUT": "4"}  # the logarithm of the number of cycles to spin
"""Environment variables that make idle threads of NumPy sleep.

By default, they spin for 0.1 s, first when NumPy is imported, and take a core from onnxruntime.
"""


@cache
def machine_memory() -> int:
    """The bytes of memory of this machine, or of the container in which this process runs, on Linux."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in CONTAINER_LIMITS:
        with suppress(OSError, ValueError):  # "max" if there is no limit
            found = min(found, int(file.read_text(encoding="ascii")))
    return found


def default_memory() -> int:
    """The limit in bytes of a process without its own, on Linux."""
    return int(MACHINE_SHARE * machine_memory())


_GIVEN_MEMORY: ContextVar[int | None] = ContextVar("_GIVEN_MEMORY", default=None)


def given_memory(limit: int | None) -> AbstractContextManager[None]:
    """Make `memory_for_model` return this limit, given by a user, within the block; None for the default."""
    return set_within_block(_GIVEN_MEMORY, _GIVEN_MEMORY.get() if limit is None else limit)


def memory_for_model(size: int, threads: int = 0, *, values: int = 0) -> int:
    """The memory limit in bytes of a process that runs a model with this file size, and its rewritten forms.

    `values` are the bytes of the largest value that it computes, if known. The stacks of `threads` beyond one per core
    are added.
    """
    wanted = _GIVEN_MEMORY.get()
    if wanted is None:
        wanted = MODEL_MEMORY + (MEMORY_PER_BYTE * size if size > SMALL_MODEL else 0)
        wanted += min(MEMORY_PER_VALUE * values, MAX_VALUE_MEMORY) if values <= MODEL_MEMORY else 0
    wanted += stack_bytes(threads)
    return min(wanted, default_memory()) if sys.platform == "linux" else wanted


def stack_bytes(threads: int) -> int:
    """The bytes that the stacks of threads count as allocated; few of them are in use."""
    if sys.platform != "linux":
        return 0
    import resource  # noqa: PLC0415 - not everywhere

    size = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return threads * (STACK_BYTES if size == resource.RLIM_INFINITY else size)


def usable_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def limit_memory(size: int | None, pid: int = 0) -> None:
    """Limit the memory that a process may allocate, by default this one; None for most of the machine's.

    Mapped files, and the stacks of one thread per core of NumPy and of onnxruntime, do not count. A limit with which
    this process was started remains. Only Linux applies such limits.
    """
    if sys.platform != "linux":
        return
    import resource  # noqa: PLC0415 - not everywhere

    most = default_memory()  # computed now, because no memory may be left later, when a limit is removed
    limit = most if size is None else size + stack_bytes(2 * usable_cores())
    given = [n for n in _limits_at_start() if n != resource.RLIM_INFINITY]
    with suppress(ProcessLookupError):  # it has ended
        resource.prlimit(pid, resource.RLIMIT_DATA, (min((limit, *given)), _limits_at_start()[1]))


def allocated_memory() -> int:
    """The bytes that count towards the limit of this process, on Linux; 0 elsewhere."""
    with suppress(OSError, ValueError):
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[5]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    return 0


def let_idle_threads_sleep() -> None:
    """Make idle threads of NumPy sleep, in this process, which has not imported it yet, and in its children."""
    for name, value in IDLE_THREADS.items():
        os.environ.setdefault(name, value)


@cache
def _limits_at_start() -> tuple[int, int]:
    """The soft and hard limits before this process set any."""
    import resource  # noqa: PLC0415 - not everywhere

    return resource.getrlimit(resource.RLIMIT_DATA)


def end_with_parent(parent: int, how: int) -> None:
    """Make Linux send this process the signal `how` when `parent` ends, whatever native code is doing.

    It is sent when the thread that started this process ends, which must be the main thread.
    """
    if sys.platform == "linux":
        _libc().prctl(PR_SET_PDEATHSIG, how, 0, 0, 0)
        if os.getppid() != parent:  # it has already ended
            os.kill(os.getpid(), how)


def end_after_parent(parent: int) -> None:
    """Make Linux end this process 10 s after `parent`, whose main thread started it, whatever native code is doing.

    The signal handler calls `alarm` with the signal's number, which is the number of seconds.
    """
    if sys.platform == "linux" and os.getppid() == parent:
        from ctypes import c_int, c_void_p, cast  # noqa: PLC0415 - seldom needed
        from signal import SIGUSR1  # noqa: PLC0415 - not everywhere

        library = _libc()
        library.signal(c_int(SIGUSR1), cast(library.alarm, c_void_p))
        library.prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent ends, on Linux."""
    if sys.platform == "linux":
        _libc().prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _libc() -> ctypes.CDLL:
    import ctypes  # noqa: PLC0415 - seldom needed

    return ctypes.CDLL(None)


def prepare_to_crash() -> None:
    """Disable core files, and make Linux end this process first when memory runs out."""
    with suppress(ImportError, OSError):
        import resource  # noqa: PLC0415 - not everywhere

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
