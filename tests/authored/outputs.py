"""Rules with several outputs: of the root, and of a new op."""

from __future__ import annotations

from passwright.core import EXACT, MatchFailure, Op, RewriteBuilder, Value, require, rule


@rule(lambda g, x, a, split: g.Split(x, axis=a) @ split, contract=EXACT)
def split_by_slices(g: RewriteBuilder, x: Value, a: int, split: Op) -> tuple[Value, ...]:
    """Split(x) in two => two Slices"""
    require(len(split.outputs) == 2, "it has not two parts")
    first, extent = split.outputs[0].shape[a], x.shape[a]
    if not isinstance(first, int) or not isinstance(extent, int):
        raise MatchFailure("the sizes of the parts are unknown")
    return g.Slice(x, [0], [first], [a]), g.Slice(x, [first], [extent], [a])
