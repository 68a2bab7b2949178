"""Signals that end a command: SIGTERM, Ctrl-C, and SIGBUS."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from _thread import interrupt_main, start_new_thread
from collections.abc import Generator
from contextlib import contextmanager
from threading import Event, main_thread
from time import sleep

from .exit_codes import BAD_INPUT

TERMINATED, INTERRUPTED = 128 + signal.SIGTERM, 128 + signal.SIGINT
GRACE_PERIOD = 10.0  # seconds to clean up after SIGTERM
REPEAT_AFTER = 0.05  # seconds in which the finalization of an object ends


@contextmanager
def unwind_on_sigterm() -> Generator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that processes end and temporary folders are removed.

    Python raises nothing while native code runs; after GRACE_PERIOD the process ends in any case. An interruption of
    the finalization of an object, which Python ignores, is repeated once that is over.
    """
    terminated, report = Event(), sys.unraisablehook

    def repeat_interruption(ignored: sys.UnraisableHookArgs) -> None:
        if isinstance(ignored.exc_value, KeyboardInterrupt):
            start_new_thread(_interrupt, (signal.SIGTERM if terminated.is_set() else signal.SIGINT,))
        else:
            report(ignored)

    def unwind(*_: object) -> None:
        terminated.set()
        raise KeyboardInterrupt

    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    sys.unraisablehook = repeat_interruption
    signal.signal(signal.SIGTERM, unwind)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    start_new_thread(_exit_after_grace_period, (read_end,))
    try:
        yield
    finally:
        if terminated.is_set():
            sys.exit(TERMINATED)


def exit_on_bus_error() -> None:
    """Let the process end with one line where a mapped file is read beyond its end, as another process cut it.

    A handler of Python's would not be called, as it is called between instructions, and the one that reads never ends.
    """
    if hasattr(signal, "SIGBUS"):
        ctypes.CDLL(None).signal(signal.SIGBUS, _exit_with_line)


@ctypes.CFUNCTYPE(None, ctypes.c_int)
def _exit_with_line(_: int) -> None:
    os.write(2, b"error: a file of the model was cut while it was in use\n")
    os._exit(BAD_INPUT)


def _interrupt(number: signal.Signals) -> None:
    sleep(REPEAT_AFTER)
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main_thread().ident or 0, number)  # ends a wait of that thread, too
    else:
        interrupt_main(number)


def _exit_after_grace_period(wakeup_fd: int) -> None:
    while os.read(wakeup_fd, 1) != bytes([signal.SIGTERM]):
        pass
    sleep(GRACE_PERIOD)
    os._exit(TERMINATED)
