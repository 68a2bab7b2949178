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
REPEAT_AFTER = 0.05  # seconds in which the finalization of an object ends


@contextmanager
def unwind_on_sigterm() -> Generator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that processes end and temporary folders are removed.

    Either counts once, as a terminal sends it to this process and to its supervisor, which passes it on, and kills this
    process if it does not end. An interruption of the finalization of an object, which Python ignores, is repeated once
    that is over.
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
    """Let the process end with one line where a mapped file is read beyond its end, as another process cut it.

    A handler of Python's would not be called, as it is called between instructions, and the one that reads never ends.
    """
    if hasattr(signal, "SIGBUS"):
        ctypes.CDLL(None).signal(signal.SIGBUS, _exit_with_line)


@ctypes.CFUNCTYPE(None, ctypes.c_int)
def _exit_with_line(_: int) -> None:
    os.write(2, b"error: a file of the model was cut while it was in use\n")
    tell(END, "")
    os._exit(BAD_INPUT)


def _interrupt(number: signal.Signals) -> None:
    sleep(REPEAT_AFTER)
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main_thread().ident or 0, number)  # ends a wait of that thread, too
    else:
        interrupt_main(number)
