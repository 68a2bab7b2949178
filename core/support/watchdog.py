"""Watchdogs that interrupt code which makes no progress or takes too long."""

from __future__ import annotations

import ctypes
from _thread import start_new_thread
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cache
from math import inf
from os import getpid
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
    late = Event()
    if seconds is None:
        yield late
        return
    deadlines = _deadlines_of_process(getpid())
    deadlines.add(late, monotonic() + seconds, action)
    try:
        yield late
    finally:
        deadlines.remove(late)


class _Deadlines:
    """Actions with deadlines, called by one thread: starting one for each block takes longer than a small model runs.

    Nothing is locked, so that an exception raised by another thread or a signal leaves nothing locked.
    """

    def __init__(self) -> None:
        self._pending: dict[Event, tuple[float, Callable[[], object]]] = {}
        self._changed = Event()
        self._wakes_at = inf
        start_new_thread(self._call_late_actions, ())

    def add(self, late: Event, deadline: float, action: Callable[[], object]) -> None:
        self._pending[late] = (deadline, action)
        if deadline < self._wakes_at:
            self._changed.set()

    def remove(self, late: Event) -> None:
        self._pending.pop(late, None)

    def _call_late_actions(self) -> None:
        while True:
            self._changed.clear()
            self._wakes_at = inf  # an action that is added from here on sets the event
            now, pending = monotonic(), self._pending.copy()
            for late, (deadline, action) in pending.items():
                if deadline <= now and self._pending.pop(late, None):
                    late.set()
                    action()
            self._wakes_at = min((deadline for deadline, _ in pending.values() if deadline > now), default=inf)
            self._changed.wait(None if self._wakes_at == inf else self._wakes_at - now)


@cache
def _deadlines_of_process(_pid: int) -> _Deadlines:
    """The deadlines of this process; one that was forked from it has no thread for them."""
    return _Deadlines()


def _raise_in_thread(thread: int) -> None:
    """Raise NoProgress in a thread at its next instruction (CPython, PyThreadState_SetAsyncExc)."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(NoProgress))


def _absorb_pending() -> None:
    """Catch an exception that was sent just as the block ended.

    It cannot be cancelled: CPython 3.11 would check for it at every instruction, and hang under a profiler.
    """
    end = monotonic() + 1
    with suppress(NoProgress):
        while monotonic() < end:
            pass
