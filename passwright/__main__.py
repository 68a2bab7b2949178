"""`python -m passwright`: the command `passes`."""

from __future__ import annotations

import gc
import signal


def main() -> None:
    """Entry point of the command. Ctrl-C gives no traceback, also while it is imported and while Python ends.

    The command runs in a process of its own, which is killed at its limits.
    """
    is_interruptible = signal.getsignal(signal.SIGINT) == signal.default_int_handler  # not in the background
    if is_interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .core.support.gc_pause import collect_seldom  # noqa: PLC0415 - takes a while

    collect_seldom()
    from .core.processes.supervisor import supervise_command  # noqa: PLC0415 - as above

    supervise_command()
    from .app.cli import entry  # noqa: PLC0415 - as above

    if is_interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        entry.main()
    finally:
        if is_interruptible:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        gc.freeze()  # else Python searches all objects for garbage as it ends, a sixth of the time of a small run


if __name__ == "__main__":
    main()
