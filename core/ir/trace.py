"""What became of values and ops: the mutators of Graph say it here, in O(1) each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .op import Op
from .origin import remember
from .values import Value


@dataclass(slots=True)
class Trace:
    """All that was noted. It stays in memory, so it is kept only where a name map is wanted.

    `values`: what the readers of a value were pointed at. `successors`: what was made of an op. `twins`: the op
    whose values stand for those of another. `labels`: what an op was called before its outputs changed.
    `removed`: in that order.
    """

    values: dict[Value, Value] = field(default_factory=dict[Value, Value])
    successors: dict[Op, dict[Op, None]] = field(default_factory=dict[Op, dict[Op, None]])
    twins: dict[Op, Op] = field(default_factory=dict[Op, Op])
    labels: dict[Op, str] = field(default_factory=dict[Op, str])
    removed: list[Op] = field(default_factory=list[Op])

    def replaced(self, ops: Iterable[Op], by: Op) -> None:
        """`by` was made out of `ops`."""
        for op in ops:
            self.successors.setdefault(op, {})[by] = None


def note_moved(trace: Trace | None, old: Value, new: Value, *, swaps: bool) -> None:
    """The readers of `old` are about to read `new`, which is the same; if it `swaps`, names are exchanged."""
    if swaps:
        remember(old.producer)
        remember(new.producer)
    if trace is None:
        return
    trace.values[old] = new
    if old.producer is not None:
        trace.labels[old.producer] = old.producer.label
        if new.producer is not None:
            trace.labels[new.producer] = new.producer.label
            trace.twins[old.producer] = new.producer


def note_detached(trace: Trace | None, op: Op) -> None:
    """An output of `op` is about to be had from elsewhere."""
    remember(op)
    if trace is not None:
        trace.labels[op] = op.label


def note_taken_over(trace: Trace | None, new: Value, old: Value) -> None:
    """What produces `new` is about to produce `old` instead."""
    remember(new.producer)
    if trace is not None:
        trace.values[new] = old


def note_removed(trace: Trace | None, op: Op) -> None:
    """`op` is about to go."""
    if trace is not None:
        trace.removed.append(op)
