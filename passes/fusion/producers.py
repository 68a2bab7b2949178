"""What a value was computed by, where a pattern would need too many spellings."""

from __future__ import annotations

from ...core import Declined, Op, Value


def made_by(v: Value | None, *types: str) -> Op:
    """The standard op of one of `types` that computes `v`; declines where there is none."""
    op = None if v is None else v.producer
    if op is None or op.domain or op.type not in types:
        raise Declined(f"{None if v is None else v.name} is not computed by {' or '.join(types)}")
    return op


def operand(op: Op, index: int = 0) -> Value:
    """An input of an op; declines where it is left out."""
    found = op.input(index)
    if found is None:
        raise Declined(f"{op.label} has no input {index}")
    return found


def is_read_by(v: Value, count: int) -> bool:
    """Whether `count` ops read `v`, and nothing else sees it."""
    return len(v.uses) == count and v.producer is not None and not v.producer.graph.is_output(v)
