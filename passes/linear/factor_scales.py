"""Scales moved from the second factor of a product to the first, as from keys to queries.

`move-scales`: Moving of scales from the larger factor of a product to the smaller one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core import MatchFailure, Op, RewriteBuilder, Value, require, rule
from ...core.ir.dtypes import FLOATS
from ...core.ir.expressions import is_known_le, prod
from ..support.operand_queries import downcast_constant, has_one_use, operand, required_producer, unless_declined
from .weight_scale import DATA_MOVEMENT_OPS, scaled_operand

MOVEMENTS = DATA_MOVEMENT_OPS | {"Expand"}
MAX_DEPTH = 8  # ops between a scale and a product


class ScaledFactor(NamedTuple):
    """A factor that is `scale * x`, moved by `movements`, the last one first."""

    x: Value
    scale: float
    movements: tuple[Op, ...]

    def rebuild(self, g: RewriteBuilder, x: Value) -> Value:
        """Build the factor of `x` in place of `scale * x`."""
        for op in self.movements[::-1]:
            x = getattr(g, op.type)(x, *op.inputs[1:], **op.attrs)
        return x


@rule(lambda g, a, b: g.MatMul(a, b), group="move-scales")
def move_scale_to_first_factor(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """MatMul(a, b * s) => MatMul(a * s, b), and MatMul(a * r, b * s) => MatMul(a * (r * s), b), of a smaller a"""
    second = scaled_factor(g, b)
    # The product of numbers that are split between two factors lest one overflows is no larger than each.
    require(abs(second.scale) <= 1 and second.x.dtype in FLOATS, "the first factor may overflow")
    require(not a.is_const, "the first factor is constant")
    first = unless_declined(scaled_factor, g, a)
    if first is None:
        require(has_fewer_elements(a, second.x), "the first factor may be the larger one")
        first = ScaledFactor(a, 1.0, ())
    require(abs(first.scale) <= 1, "the first factor may overflow")
    scaled = g.Mul(first.x, downcast_constant(g, np.array(first.scale * second.scale), a))
    return g.MatMul(first.rebuild(g, scaled), second.rebuild(g, second.x))


def scaled_factor(g: RewriteBuilder, v: Value) -> ScaledFactor:
    """Read a value that nothing else reads as a scaled one, which may have been moved; declines others."""
    movements: list[Op] = []
    while len(movements) < MAX_DEPTH:
        op = required_producer(v, "Div", "Mul", *MOVEMENTS)
        require(op.graph is g.graph and has_one_use(v), "an intermediate value has other consumers")
        if op.type not in MOVEMENTS:
            x, scale = scaled_operand(op)
            return ScaledFactor(x, scale, tuple(movements))
        movements.append(op)
        v = operand(op)
    raise MatchFailure("no scale is near")


def has_fewer_elements(a: Value, b: Value) -> bool:
    """Whether `a` is known to have no more elements than `b`, and fewer for some sizes; declines unknown ranks."""
    dims = [[d for d in v.shape if d is not None] for v in (a, b)]
    if [len(known) for known in dims] != [a.rank, b.rank]:
        return False
    first, second = map(prod, dims)
    return first != second and is_known_le(first, second)
