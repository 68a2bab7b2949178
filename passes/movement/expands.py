"""Merging of Expand and Tile, and removal of those that broadcasting makes unnecessary.

`merge-expands`: Merging of Expand and Tile, and removal of leading 1s before Expand.
`drop-expand-before-broadcast`: Removal of explicit expansion before ops that broadcast.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ...core import EXACT, Op, RewriteBuilder, Value, require, rule, same_extent
from ...core.ir.expressions import Shape
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ..support.operand_queries import (
    NO_NEGATIVE_ZERO,
    VARIADIC_BROADCASTING_OPSET,
    Inputs,
    broadcast_extents,
    inferred_shape,
    is_float_value,
    known_extent,
    require_numpy_broadcasting,
    same_shape,
)

expand_rule = partial(rule, allow_other_uses=True, contract=EXACT, group="merge-expands")


@expand_rule(lambda g, x, s, t: g.Expand(g.Expand(x, g.const(s)), g.const(t)))
def merge_expands(g: RewriteBuilder, x: Value, s: Value, t: Value) -> Value:
    """Expand(Expand(x, s), t) => Expand(x, s and t)"""
    small, big = sorted(map(required_extents, (s, t)), key=len)
    pairs = zip(small[::-1], big[::-1], strict=False)
    require(all(a == b or 1 in {a, b} for a, b in pairs), "the shapes do not broadcast")
    return g.Expand(x, g.const(np.array(broadcast_extents(small, big), np.int64)))


def required_extents(shape: Value) -> list[int]:
    """The extents of a constant target shape; declines one that is not a list of extents."""
    extents = shape.const
    require(extents.ndim == 1 and bool((extents >= 0).all()), f"{shape.name} is not a shape")
    return extents.tolist()


@expand_rule(lambda g, x, r, q: g.Tile(g.Tile(x, g.const(r)), g.const(q)))
def merge_tiles(g: RewriteBuilder, x: Value, r: Value, q: Value) -> Value:
    """Tile(Tile(x, r), q) => Tile(x, r * q)"""
    require(g.opset >= 6, "before opset 6, Tile has one axis")
    require(r.shape == q.shape, "the numbers of repeats differ")
    return g.Tile(x, g.const(r.const * q.const))


@expand_rule(lambda g, x, s, inner: g.Expand(g.one_of("Unsqueeze", "Reshape")(x, ...) @ inner, s))
def drop_unsqueeze_before_expand(g: RewriteBuilder, x: Value, s: Value, inner: Op) -> Value:
    """Expand(Unsqueeze(x, 0), s) => Expand(x, s), where s has a dim for each"""
    made = inferred_shape(inner)
    new = len(made) - x.rank
    require(new > 0 and set(made[:new]) == {1} and same_shape(made[new:], x.shape), "it changes more than leading 1s")
    require(s.rank == 1 and known_extent(s, 0) >= len(made), "the target shape has fewer dims")
    return g.Expand(x, s)


EXACTLY_BROADCASTING = tuple(sorted(ops_with(Trait.BROADCASTING) - {"Max", "Min", "Pow"}))
MAX_OPERANDS = 256  # each operand that is replaced takes a new op
EXPANDING_OPS = ("Expand", "Tile", "Unsqueeze", "Reshape")


@rule(
    lambda g, x, before, after, inner, op: (
        g.one_of(*EXACTLY_BROADCASTING)(*before, g.one_of(*EXPANDING_OPS)(x, ...) @ inner, *after) @ op
    ),
    allow_other_uses=True,
    contract=EXACT,
    group="drop-expand-before-broadcast",
)
def drop_expand_before_broadcast(
    g: RewriteBuilder, x: Value, before: Inputs, after: Inputs, inner: Op, op: Op
) -> Value:
    """Add(Expand(x, s), y) => Add(x, y), where the shape comes out the same; so Tile, and leading 1s of a Reshape"""
    return _without_expand(g, x, before, after, inner, op)


# onnxruntime 1.31 has kernels of their own for one number: of 0 and -0 they give the other one.
@rule(
    lambda g, x, before, after, inner, op: (
        g.one_of("Max", "Min")(*before, g.one_of(*EXPANDING_OPS)(x, ...) @ inner, *after) @ op
    ),
    allow_other_uses=True,
    contract=NO_NEGATIVE_ZERO,
    group="drop-expand-before-broadcast",
)
def drop_expand_before_extremum(g: RewriteBuilder, x: Value, before: Inputs, after: Inputs, inner: Op, op: Op) -> Value:
    """Max(Expand(x, s), y) => Max(x, y), where the shape comes out the same; so Min"""
    return _without_expand(g, x, before, after, inner, op)


# onnxruntime 1.31 multiplies where the exponent is one number, 2 or 3.
@rule(
    lambda g, x, before, after, inner, op: g.Pow(*before, g.one_of(*EXPANDING_OPS)(x, ...) @ inner, *after) @ op,
    allow_other_uses=True,
    group="drop-expand-before-broadcast",
)
def drop_expand_before_power(g: RewriteBuilder, x: Value, before: Inputs, after: Inputs, inner: Op, op: Op) -> Value:
    """Pow(Expand(x, s), y) => Pow(x, y), of floats, where the shape comes out the same"""
    require(is_float_value(op.outputs[0]), "a power of integers that overflows depends on the kernel")
    return _without_expand(g, x, before, after, inner, op)


def _without_expand(g: RewriteBuilder, x: Value, before: Inputs, after: Inputs, inner: Op, op: Op) -> Value:
    require_numpy_broadcasting(op.version, VARIADIC_BROADCASTING_OPSET)
    require(len(op.inputs) <= MAX_OPERANDS, "too many operands")
    others = [v for v in (*before, *after) if v is not None]
    if not is_expand_to_shape_of(inner, others):
        fits = broadcasts_alike(x.shape, inner.outputs[0].shape, [v.shape for v in others])
        require(fits, f"{op.type} would not broadcast to the same shape")
    return getattr(g, op.type)(*before, x, *after, **op.attrs)


def is_expand_to_shape_of(op: Op, others: list[Value]) -> bool:
    """Whether an op is an Expand to the shape of one of `others`."""
    shape = op.graph.producer(op.input(1))
    if op.type != "Expand" or shape is None or shape.type != "Shape" or shape.domain:
        return False
    whole = shape.attr("start", 0) == 0 and "end" not in shape.attrs
    return whole and any(shape.inputs[0] is v for v in others)


def broadcasts_alike(small: Shape, expanded: Shape, others: list[Shape]) -> bool:
    """Whether `small` and `expanded` are known to broadcast against `others` to the same shape."""
    if len(small) > len(expanded):
        return False
    for p in range(1, len(expanded) + 1):
        if p <= len(small) and same_extent(small[-p], expanded[-p]):
            continue
        reached = any(p <= len(o) and (expanded[-p] == 1 or same_extent(o[-p], expanded[-p])) for o in others)
        if not reached or (p <= len(small) and small[-p] != 1):
            return False
    return True
