"""Time limits for code in this process, which checks them or is killed, and actions at deadlines."""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from math import inf
from os import getpid
from threading import Event, Lock
from time import monotonic

from ..errors import PassesError, TimeLimitError
from ..support.context_values import set_within_block
from ..support.printable_text import printable_line
from ..support.supervision import PROGRESS, TIME, is_supervised, tell

TICK, MAX_TICK = 0.05, 2.0  # seconds between checks of progress; otherwise 1/200 of the patience
GRACE = 1.0  # seconds after a time limit, for code that checks it


class TimeLimitReached(KeyboardInterrupt):
    """Raised by code that checks the time limit; it ends a command like Ctrl-C does."""


@contextmanager
def required_progress(progress: Callable[[], object], patience: float, failure: Callable[[], str]) -> Generator[None]:
    """Make a command's process be killed if `progress()` does not change for `patience` seconds.

    `failure` describes what then failed. Without a supervisor, as in Python, code that does not return is not ended.
    """
    if not is_supervised():
        yield
        return
    seen, lock, done = list[object](), Lock(), Event()

    def look() -> None:
        now = progress()
        if seen != [now]:
            with lock:
                if not done.is_set():
                    text = printable_line(f"{failure()} for {patience:g} s; nothing was written")
                    tell(PROGRESS, (monotonic() + patience, PassesError.exit_code, text))
            seen[:] = [now]

    try:
        with call_every(min(max(TICK, patience / 200), MAX_TICK), look):
            look()
            yield
    finally:
        with lock:
            done.set()
            tell(PROGRESS, None)


@dataclass(slots=True)
class _TimeLimit:
    """A limit of a command, or of a part of one, whose end is not told to the supervisor and cannot be lifted."""

    seconds: float
    deadline: float  # of time.monotonic, which all processes share
    subject: Callable[[], str]
    is_of_command: bool = True

    def message(self) -> str:
        return f"{self.subject()} did not finish within {self.seconds:g} s; nothing was written"


_LIMIT: ContextVar[_TimeLimit | None] = ContextVar("_LIMIT", default=None)
_WANTED_END: ContextVar[float] = ContextVar("_WANTED_END", default=inf)


@contextmanager
def time_limit(seconds: float | None, subject: Callable[[], str]) -> Generator[None]:
    """Raise TimeLimitError if the block takes more than `seconds` (None: unlimited). `subject` names the task.

    Waiting for a worker process ends at the limit, and so does that process; other code ends where it checks the limit.
    The process of a command is killed a second later.
    """
    if seconds is None:
        yield
        return
    limit = _TimeLimit(seconds, monotonic() + seconds, subject)
    token = _LIMIT.set(limit)
    tell_time_limit()
    try:
        yield
    except TimeLimitReached as e:
        raise TimeLimitError(limit.message()) from e
    finally:
        tell(TIME, None)
        _LIMIT.reset(token)


@contextmanager
def ended_by(end: float) -> Generator[None]:
    """Raise TimeLimitError if the block goes on after `end`, a time of `time.monotonic`, or after the command's limit.

    As with `time_limit`, waiting for a worker process ends then, and other code ends where it checks the limit. But the
    process of a command is not killed, and the limit cannot be lifted.
    """
    if end == inf:
        yield
        return
    token = _LIMIT.set(_TimeLimit(0.0, min(end, time_limit_end()), str, is_of_command=False))
    try:
        yield
    except TimeLimitReached as e:
        raise TimeLimitError("the time limit was reached") from e
    finally:
        _LIMIT.reset(token)


def tell_time_limit() -> None:
    """Send the supervisor of this process the time limit, and the task to report."""
    limit = _LIMIT.get()
    if limit is not None and limit.is_of_command and limit.deadline < inf and is_supervised():
        tell(TIME, (limit.deadline + GRACE, TimeLimitError.exit_code, printable_line(limit.message())))


def time_limit_end() -> float:
    """The `time.monotonic` time of the limit; infinity without a limit."""
    limit = _LIMIT.get()
    return inf if limit is None else limit.deadline


def wanted_by(end: float) -> AbstractContextManager[None]:
    """Let verification in the block try fewer inputs to end by a time of `time.monotonic`; nothing ends there."""
    return set_within_block(_WANTED_END, end)


def wanted_end() -> float:
    """The time, of `time.monotonic`, by which verification is to end; infinity if it may take its time."""
    return min(time_limit_end(), _WANTED_END.get())


def lift_time_limit() -> None:
    """Remove the limit for the rest of the block, because what follows must be completed. Raises TimeLimitReached."""
    limit = _LIMIT.get()
    if limit is not None:
        require_time()
        if limit.is_of_command:
            limit.deadline = inf
            tell(TIME, None)


def require_time() -> None:
    """Raise TimeLimitReached if no time is left."""
    limit = _LIMIT.get()
    if limit is not None and monotonic() >= limit.deadline:
        raise TimeLimitReached


@contextmanager
def call_after(seconds: float | None, action: Callable[[], object]) -> Generator[Event]:
    """Call `action` from another thread if the block takes more than `seconds`; yields an event that is then set."""
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
    """Call `action`, which must not block, from another thread every `seconds` while the block runs.

    After an exception, it is not called again, and the exception is raised at the end of the block.
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
    """Actions with deadlines, called by one thread; starting one per block would take too long.

    No locks are used, so that an exception from a signal handler leaves none locked.
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
            self._wakes_at = inf  # an action added from now on sets the event
            now, pending = monotonic(), self._pending.copy()
            for late, (deadline, action) in pending.items():
                if deadline <= now and self._pending.pop(late, None):
                    late.set()
                    action()
            self._wakes_at = min((deadline for deadline, _ in pending.values() if deadline > now), default=inf)
            self._changed.wait(None if self._wakes_at == inf else self._wakes_at - now)


@cache
def _deadlines_of_process(_pid: int) -> _Deadlines:
    """The deadlines of this process; a forked process has no thread for its parent's."""
    return _Deadlines()
