"""Reasons for which rules declined in a run."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from ...core.ir.op import Op
from ...core.rewriting import driver
from ..report.number_text import plural

MAX_SHOWN = 20  # reasons
NUMBER = re.compile(r"\d+")


class DeclineRecorder(logging.Handler):
    """The ops at which each rule declined, with the reason, by rule and kind of reason, from the log of the driver.

    Reasons are of one kind if they differ only in numbers and in the names of operands.
    """

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.ops = defaultdict[tuple[str, str], dict[str, str]](dict)

    def emit(self, record: logging.LogRecord) -> None:
        """Record the decline of a rule at an op."""
        if isinstance(record.args, tuple) and len(record.args) == 3:
            rule, op, reason = record.args
            why = str(reason)
            kind = _without_names(why, op) if isinstance(op, Op) else why
            self.ops[str(rule), NUMBER.sub("#", kind)].setdefault(str(op), why)

    def lines(self) -> Iterator[str]:
        """The reasons, a line each, the most frequent first."""
        ordered = sorted(self.ops.items(), key=lambda item: (-len(item[1]), item[0]))
        for (rule, _), ops in ordered[:MAX_SHOWN]:
            op, why = next(iter(ops.items()))
            place = f"at {op}" if len(ops) == 1 else f"at {plural(len(ops), 'op')}, as at {op}"
            yield f"{rule} declined {place}: {why}"
        if (more := len(ordered) - MAX_SHOWN) > 0:
            yield f"... and {plural(more, 'other reason')}; `passes explain RULE MODEL` lists them"


def _without_names(reason: str, op: Op) -> str:
    """A reason with # in place of the names of operands and outputs."""
    names = sorted({re.escape(v.name) for v in (*op.inputs, *op.outputs) if v is not None and v.name}, key=len)
    return re.sub(rf"(?<!\w)(?:{'|'.join(names[::-1])})(?!\w)", "#", reason) if names else reason


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
