"""How the command ends when it is told to: not before what it has begun is put away."""

from __future__ import annotations

import os
import signal
import sys
from _thread import start_new_thread
from collections.abc import Generator
from contextlib import contextmanager
from threading import Event
from time import sleep

GRACE_PERIOD = 10.0  # seconds to put things away
EXIT_CODE = 128 + signal.SIGTERM


@contextmanager
def unwind_on_sigterm() -> Generator[None]:
    """Let SIGTERM end this as Ctrl-C does: other processes of it are ended, temporary folders go.

    Python raises nothing while a library's own code runs; where that takes too long, the process ends all the same.
    """
    terminated = Event()

    def leave(*_: object) -> None:
        terminated.set()
        raise KeyboardInterrupt

    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.signal(signal.SIGTERM, leave)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    start_new_thread(_exit_after_grace_period, (told,))
    try:
        yield
    finally:
        if terminated.is_set():
            sys.exit(EXIT_CODE)


def _exit_after_grace_period(wakeup_fd: int) -> None:
    """Wait for the signal, and for what Python makes of it."""
    while os.read(wakeup_fd, 1) != bytes([signal.SIGTERM]):
        pass
    sleep(GRACE_PERIOD)
    os._exit(EXIT_CODE)
