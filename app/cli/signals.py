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

from ...core.support.supervision import END, tell
from .exit_codes import BAD_INPUT

TERMINATED, INTERRUPTED = 128 + signal.SIGTERM, 128 + signal.SIGINT
REPEAT_AFTER = 0.05  # seconds; the finalization of an object ends within them


@contextmanager
def unwind_on_sigterm() -> Generator[None]:
    """Make SIGTERM unwind the stack like Ctrl-C, so that processes end and temporary folders are removed.

    A repeated signal counts once: a terminal sends it both to this process and to its supervisor, which passes it on
    and kills this process if it does not end. Python ignores an interruption while an object is finalized; it is then
    repeated once.
    """
    terminated, interrupted, report = Event(), Event(), sys.unraisablehook

    def repeat_interruption(ignored: sys.UnraisableHookArgs) -> None:
        if isinstance(ignored.exc_value, KeyboardInterrupt):
            interrupted.clear()
            start_new_thread(_interrupt, (signal.SIGTERM if terminated.is_set() else signal.SIGINT,))
        else:
            report(ignored)

    def unwind(number: int, _: object) -> None:
        if number == signal.SIGTERM:
            terminated.set()
        if not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt

    sys.unraisablehook = repeat_interruption
    signal.signal(signal.SIGTERM, unwind)
    if signal.getsignal(signal.SIGINT) in {signal.SIG_DFL, signal.default_int_handler}:
        signal.signal(signal.SIGINT, unwind)
    try:
        yield
    finally:
        if terminated.is_set():
            sys.exit(TERMINATED)


def exit_on_bus_error() -> None:
    """Make the process exit with one line if another process truncates a mapped file while it is read.

    A Python handler would never be called: Python calls handlers between instructions, and the faulting one never ends.
    """
    if hasattr(signal, "SIGBUS"):
        ctypes.CDLL(None).signal(signal.SIGBUS, _exit_with_line)


@ctypes.CFUNCTYPE(None, ctypes.c_int)
def _exit_with_line(_: int) -> None:
    os.write(2, b"error: a file of the model was truncated while it was in use\n")
    tell(END, "")
    os._exit(BAD_INPUT)


def _interrupt(number: signal.Signals) -> None:
    sleep(REPEAT_AFTER)
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main_thread().ident or 0, number)  # also interrupts a wait of that thread
    else:
        interrupt_main(number)
