"""Ends code that neither returns nor gets on."""

from __future__ import annotations

import ctypes
from _thread import start_new_thread
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from threading import Event, Lock, get_ident
from time import monotonic

TICK = 0.05  # seconds between looks; a longer patience is looked at as often as 200 times


class NoProgress(BaseException):
    """Raised inside code that has not got on for too long; no `except Exception` keeps it from ending that."""


@contextmanager
def progress_watchdog(progress: Callable[[], object], patience: float) -> Generator[None]:
    """Raise NoProgress in this thread once `progress()` has stayed the same for `patience` seconds.

    It comes when the next Python instruction runs: what hangs in a library's own code is not ended.
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
                        _raise_in_thread(me)  # and again, for what catches it and goes on

    start_new_thread(poll_progress, ())  # threading.Thread would wait for it to begin
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
    """Call `action` from another thread if this takes longer than that; what is yielded tells whether it was."""
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
    """Let a thread raise NoProgress at its next instruction (CPython, PyThreadState_SetAsyncExc)."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(NoProgress))


def _absorb_pending() -> None:
    """Take what was sent just as the work ended.

    It is not called off: CPython 3.11 would look for it at every instruction from there on, and hang under a profiler.
    """
    end = monotonic() + 1
    with suppress(NoProgress):
        while monotonic() < end:
            pass
