"""Facts that a process tells the one that supervises it, which knows by them when and with what words to end it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

PHASE, OUTCOME, FOLDER, END = "phase", "outcome", "folder", "end"
"""Facts with a text: what the process does, what became of its outputs, a folder with scratch folders, and with ""
that it reached its end, of which it says no more."""
TIME, PROGRESS = "time", "progress"
"""Facts with a `Limit`, or None if there is none any more."""
Limit = tuple[float, int, str]
"""The time, of `time.monotonic`, at which the process is to be killed, then the exit code and the message."""
Tell = Callable[[str, str | Limit | None], object]


def supervise_by(tell: Tell) -> None:
    """Let a function tell the facts of this process from here on."""
    _supervisors(os.getpid())[:] = [tell]


def is_supervised() -> bool:
    """Whether a process ends this one."""
    return bool(_supervisors(os.getpid()))


def tell(fact: str, value: str | Limit | None) -> None:
    """Tell a fact to the process that supervises this one, if one does."""
    for tell_it in _supervisors(os.getpid()):
        tell_it(fact, value)


@cache
def _supervisors(_pid: int) -> list[Tell]:
    """The way to the supervisor of this process, if it has one; a process that is forked from this one has none."""
    return []
