"""Watchdogs that interrupt code which makes no progress or takes too long, and the time limit of a command."""

from __future__ import annotations

import ctypes
from _thread import start_new_thread
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from itertools import count
from math import inf
from os import getpid
from threading import Event, Lock, get_ident
from time import monotonic

from ..errors import TimeLimitError

TICK, MAX_TICK = 0.05, 2.0  # seconds between polls; otherwise 1/200 of the patience
GRACE, NEXT_GRACE = 1.0, 10.0  # seconds after a time limit for code that heeds it, and for cleaning up


class NoProgress(BaseException):
    """Raised inside code that made no progress for too long; `except Exception` does not catch it."""


class TimeLimitReached(KeyboardInterrupt):
    """Raised inside code at the time limit; like Ctrl-C, it ends a command."""


@contextmanager
def progress_watchdog(
    progress: Callable[[], object],
    patience: float,
    error: type[BaseException] = NoProgress,
    pause: float = 0.0,
) -> Generator[None]:
    """Raise `error` in this thread once `progress()` has stayed the same for `patience` seconds.

    It is raised at the next Python instruction: native code that hangs is not interrupted. It is raised again after
    `pause` seconds.
    """
    done, sent, lock, me = Event(), Event(), Lock(), get_ident()

    def poll_progress() -> None:
        seen, since = progress(), monotonic()
        while not done.wait(min(max(TICK, patience / 200), MAX_TICK)):
            now = progress()
            if now != seen:
                seen, since = now, monotonic()
            elif monotonic() - since > patience:
                with lock:
                    if not done.is_set():
                        sent.set()
                        _raise_in_thread(me, error)  # and again, should the code catch it and continue
                        since = monotonic() + pause - patience

    start_new_thread(poll_progress, ())  # threading.Thread waits until the thread has started
    try:
        yield
    except error:
        sent.clear()
        raise
    finally:
        with lock:
            done.set()
        if sent.is_set():
            _absorb_pending(error)


@dataclass(slots=True)
class _TimeLimit:
    deadline: float  # of time.monotonic, which all processes share


_LIMIT: ContextVar[_TimeLimit | None] = ContextVar("_LIMIT", default=None)


@contextmanager
def time_limit(seconds: float | None, subject: Callable[[], str]) -> Generator[None]:
    """Raise TimeLimitError once the block has taken `seconds`, None for no limit. `subject` names what was not done.

    Waiting for a worker process ends at the limit, and the process with it; other code is interrupted a second later.
    """
    if seconds is None:
        yield
        return
    limit, steps = _TimeLimit(monotonic() + seconds), count()
    token = _LIMIT.set(limit)
    try:
        with progress_watchdog(
            lambda: next(steps) if limit.deadline == inf else None, seconds + GRACE, TimeLimitReached, NEXT_GRACE
        ):
            yield
    except TimeLimitReached as e:
        raise TimeLimitError(f"{subject()} is not done within {seconds:g} s; nothing was written") from e
    finally:
        _LIMIT.reset(token)


def time_limit_end() -> float:
    """The time, of `time.monotonic`, at which the time limit is reached; infinity without a limit."""
    limit = _LIMIT.get()
    return inf if limit is None else limit.deadline


def lift_time_limit() -> None:
    """Set no limit for the rest of the block, as what follows must be done completely. Raises TimeLimitReached."""
    limit = _LIMIT.get()
    if limit is not None:
        require_time()
        limit.deadline = inf


def require_time() -> None:
    """Raise TimeLimitReached if there is no time left."""
    if monotonic() >= time_limit_end():
        raise TimeLimitReached


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


@contextmanager
def call_every(seconds: float, action: Callable[[], object]) -> Generator[None]:
    """Call `action`, which must not block, from another thread every so many seconds while the block runs.

    It is not called again after an exception, which is raised at the end of the block.
    """
    done, deadlines, failures = Event(), _deadlines_of_process(getpid()), list[BaseException]()

    def call_again() -> None:
        if done.is_set():
            return
        try:
            action()
        except BaseException as e:  # noqa: BLE001 - raised below
            failures.append(e)
        else:
            deadlines.add(Event(), monotonic() + seconds, call_again)

    first = Event()
    deadlines.add(first, monotonic() + seconds, call_again)
    try:
        yield
    finally:
        done.set()
        deadlines.remove(first)
    if failures:
        raise failures[0]


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


def _raise_in_thread(thread: int, error: type[BaseException]) -> None:
    """Raise `error` in a thread at its next instruction (CPython, PyThreadState_SetAsyncExc)."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def _absorb_pending(error: type[BaseException]) -> None:
    """Catch an exception that was sent just as the block ended.

    It cannot be cancelled: CPython 3.11 would check for it at every instruction, and hang under a profiler.
    """
    end = monotonic() + 1
    with suppress(error):
        while monotonic() < end:
            pass
