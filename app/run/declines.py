"""Reasons for which rules declined in a run."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from ...core.rewriting import driver
from ..terminal import plural

MAX_SHOWN = 20  # reasons


class DeclineRecorder(logging.Handler):
    """The ops at which each rule declined, by rule and reason, from the log of the driver."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.ops = defaultdict[tuple[str, str], set[str]](set)

    def emit(self, record: logging.LogRecord) -> None:
        """Record the decline of a rule at an op."""
        if isinstance(record.args, tuple) and len(record.args) == 3:
            rule, op, why = map(str, record.args)
            self.ops[rule, why].add(op)

    def lines(self) -> Iterator[str]:
        """The reasons, a line each, those of most ops first."""
        ordered = sorted(self.ops.items(), key=lambda item: (-len(item[1]), item[0]))
        for (rule, why), ops in ordered[:MAX_SHOWN]:
            place = f"at {next(iter(ops))}" if len(ops) == 1 else f"at {plural(len(ops), 'op')}"
            yield f"{rule} declined {place}: {why}"
        if (more := len(ordered) - MAX_SHOWN) > 0:
            yield f"... and {plural(more, 'other reason')}; `passes explain RULE MODEL` lists them"


@contextmanager
def recorded_declines() -> Generator[DeclineRecorder]:
    """Record the reasons for which rules decline, until the context ends."""
    log, recorder = logging.getLogger(driver.__name__), DeclineRecorder()
    level = log.level
    log.setLevel(logging.DEBUG)
    log.addHandler(recorder)
    try:
        yield recorder
    finally:
        log.removeHandler(recorder)
        log.setLevel(level)
