"""Facts that a process tells its supervisor, which decides by them when and with which message to end it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

PHASE, OUTCOME, FOLDER, END = "phase", "outcome", "folder", "end"
"""Facts whose value is a text: what the process does, what became of its outputs, a folder with scratch folders; and
the last fact, with "", that it has reached its end.
"""
TIME, PROGRESS = "time", "progress"
"""Facts whose value is a `Limit`, or None if there is none any more."""
Limit = tuple[float, int, str]
"""The time, of `time.monotonic`, at which the process is to be killed, the exit code, and the message."""
Tell = Callable[[str, str | Limit | None], object]


def supervise_by(tell: Tell) -> None:
    """Let a function tell the facts of this process from now on."""
    _supervisors(os.getpid())[:] = [tell]


def is_supervised() -> bool:
    """Whether another process supervises this one."""
    return bool(_supervisors(os.getpid()))


def tell(fact: str, value: str | Limit | None) -> None:
    """Tell a fact to the process that supervises this one, if there is one."""
    for tell_it in _supervisors(os.getpid()):
        tell_it(fact, value)


@cache
def _supervisors(_pid: int) -> list[Tell]:
    """The connection to the supervisor of this process, if it has one; a fork of this process has none."""
    return []
