"""Ends code that neither returns nor gets on."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Event, Lock, Thread, get_ident
from time import monotonic

TICK = 0.05  # seconds between looks; a longer patience is looked at as often as 200 times


class Stuck(BaseException):
    """Raised inside code that has not got on for too long; no `except Exception` keeps it from ending that."""


@contextmanager
def watched(progress: Callable[[], object], patience: float) -> Generator[None]:
    """Raise Stuck in this thread once `progress()` has stayed the same for `patience` seconds.

    It comes when the next Python instruction runs: what hangs in a library's own code is not ended.
    """
    done, lock, me = Event(), Lock(), get_ident()

    def look() -> None:
        seen, since = progress(), monotonic()
        while not done.wait(max(TICK, patience / 200)):
            now = progress()
            if now != seen:
                seen, since = now, monotonic()
            elif monotonic() - since > patience:
                with lock:
                    if not done.is_set():
                        _raise_in(me, Stuck)
                return

    Thread(target=look, daemon=True, name="passwright-watchdog").start()
    try:
        yield
    finally:
        with lock:
            done.set()
            _raise_in(me, None)  # one that was sent, and has not come yet, is taken back


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Let a thread raise at its next instruction, or not after all (CPython, PyThreadState_SetAsyncExc)."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind) if kind else None)
