"""Merging of Expand and Tile, and removal of leading 1s before Expand."""

from __future__ import annotations

import numpy as np

from ...core import EXACT, Build, Op, RulePass, Value, require, rule
from ..support.operand_queries import inferred_shape, same_shape


@rule(lambda g, x, s, t: g.Expand(g.Expand(x, g.const(s)), g.const(t)), shared=True, contract=EXACT)
def merge_expands(g: Build, x: Value, s: Value, t: Value) -> Value:
    """Expand(Expand(x, s), t) => Expand(x, s and t)"""
    small, big = sorted((s.const.tolist(), t.const.tolist()), key=len)
    pairs = zip(small[::-1], big[::-1], strict=False)
    require(all(a == b or 1 in {a, b} for a, b in pairs), "the shapes do not broadcast")
    return g.Expand(x, g.const(np.array(np.broadcast_shapes(tuple(small), tuple(big)), np.int64)))


@rule(lambda g, x, r, q: g.Tile(g.Tile(x, g.const(r)), g.const(q)), shared=True, contract=EXACT)
def merge_tiles(g: Build, x: Value, r: Value, q: Value) -> Value:
    """Tile(Tile(x, r), q) => Tile(x, r * q)"""
    require(g.opset >= 6, "before opset 6, Tile has one axis")
    require(r.shape == q.shape, "the numbers of repeats differ")
    return g.Tile(x, g.const(r.const * q.const))


@rule(lambda g, x, s, inner: g.Expand(g.one_of("Unsqueeze", "Reshape")(x, ...) @ inner, s), shared=True, contract=EXACT)
def drop_unsqueeze_before_expand(g: Build, x: Value, s: Value, inner: Op) -> Value:
    """Expand(Unsqueeze(x, 0), s) => Expand(x, s), where s has a dim for each"""
    made = inferred_shape(inner)
    new = len(made) - x.rank
    require(new > 0 and set(made[:new]) == {1} and same_shape(made[new:], x.shape), "it changes more than leading 1s")
    (length,) = s.shape
    require(isinstance(length, int) and length >= len(made), "the target shape has fewer dims")
    return g.Expand(x, s)


MERGE_EXPANDS = RulePass("merge-expands", (merge_expands, merge_tiles, drop_unsqueeze_before_expand))
