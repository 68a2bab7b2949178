"""Watchdogs that interrupt code which makes no progress or takes too long."""

from __future__ import annotations

import ctypes
from _thread import start_new_thread
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from threading import Event, Lock, get_ident
from time import monotonic

TICK = 0.05  # seconds between polls at least; otherwise 1/200 of the patience


class NoProgress(BaseException):
    """Raised inside code that made no progress for too long; `except Exception` does not catch it."""


@contextmanager
def progress_watchdog(progress: Callable[[], object], patience: float) -> Generator[None]:
    """Raise NoProgress in this thread once `progress()` has stayed the same for `patience` seconds.

    It is raised at the next Python instruction: native code that hangs is not interrupted.
    """
    done, sent, lock, me = Event(), Event(), Lock(), get_ident()

    def poll_progress() -> None:
        seen, since = progress(), monotonic()
        while not done.wait(max(TICK, patience / 200)):
            now = progress()
            if now != seen:
                seen, since = now, monotonic()
            elif monotonic() - since > patience:
                with lock:
                    if not done.is_set():
                        sent.set()
                        _raise_in_thread(me)  # and again, should the code catch it and continue

    start_new_thread(poll_progress, ())  # threading.Thread waits until the thread has started
    try:
        yield
    except NoProgress:
        sent.clear()
        raise
    finally:
        with lock:
            done.set()
        if sent.is_set():
            _absorb_pending()


@contextmanager
def call_after(seconds: float | None, action: Callable[[], object]) -> Generator[Event]:
    """Call `action` from another thread if the block takes longer than `seconds`; yields an event that is set then."""
    done, late = Event(), Event()

    def wait() -> None:
        if not done.wait(seconds):
            late.set()
            action()

    if seconds is not None:
        start_new_thread(wait, ())
    try:
        yield late
    finally:
        done.set()


def _raise_in_thread(thread: int) -> None:
    """Raise NoProgress in a thread at its next instruction (CPython, PyThreadState_SetAsyncExc)."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(NoProgress))


def _absorb_pending() -> None:
    """Catch an exception that was sent just as the block ended.

    Cancelling it is no option: CPython 3.11 would check for it at every instruction, and hang under a profiler.
    """
    end = monotonic() + 1
    with suppress(NoProgress):
        while monotonic() < end:
            pass
