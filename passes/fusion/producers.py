"""Producers of values, where a pattern would need too many variants."""

from __future__ import annotations

from ...core import Declined, Op, Value


def required_producer(v: Value | None, *types: str) -> Op:
    """The standard op of one of `types` that computes `v`; declines where there is none."""
    op = None if v is None else v.producer
    if op is None or op.domain or op.type not in types:
        raise Declined(f"{None if v is None else v.name} is not computed by {' or '.join(types)}")
    return op
