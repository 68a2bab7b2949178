"""`python -m passwright`: the command `passes`."""

from __future__ import annotations

import gc
import os
import signal

START_BYTES = 256 << 20
"""Of memory, without which libraries of the command end its process in ways of their own as they are loaded."""


def main() -> None:
    """Entry point of the command. Ctrl-C gives no traceback, also while it is imported and while Python ends.

    The command runs in a process of its own, which is killed at its limits; Ctrl-C kills it until it is ready.
    """
    is_interruptible = signal.getsignal(signal.SIGINT) != signal.SIG_IGN  # as it is in the background
    if is_interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _require_memory()
    from .core.support.gc_pause import collect_seldom  # noqa: PLC0415 - takes a while

    collect_seldom()
    from .core.processes.supervisor import supervise_command  # noqa: PLC0415 - as above

    supervise_command()
    from .app.cli import entry  # noqa: PLC0415 - as above

    try:
        entry.main()
    finally:
        if is_interruptible:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        gc.freeze()  # else Python searches all objects for garbage as it ends, a sixth of the time of a small run


def _require_memory() -> None:
    """End with one line if this process, as by `ulimit`, may not allocate the memory with which a command starts."""
    if not hasattr(os, "fork"):
        return
    try:
        import mmap  # noqa: PLC0415 - it has to be loaded, too

        mmap.mmap(-1, START_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON).close()
    except (ImportError, MemoryError, OSError):
        os.write(2, b"error: a command needs 256 MB of memory, more than this process may have: see `ulimit -a`\n")
        os._exit(4)


if __name__ == "__main__":
    main()
