"""`python -m passwright`: the command `passes`."""

from __future__ import annotations

import gc
import signal

COLLECTION_THRESHOLD = 50_000  # objects: with Python's 700, imports are a tenth of collecting no garbage


def main() -> None:
    """Entry point of the command. Ctrl-C gives no traceback, also while it is imported and while Python ends."""
    is_interruptible = signal.getsignal(signal.SIGINT) == signal.default_int_handler  # not in the background
    if is_interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(COLLECTION_THRESHOLD)
    from .app import cli  # noqa: PLC0415 - takes a while

    if is_interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        cli.main()
    finally:
        if is_interruptible:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    main()
