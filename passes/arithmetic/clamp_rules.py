"""Merging of clamps, and removal of those that change nothing."""

from __future__ import annotations

from math import copysign

from ...core import EXACT, Op, RewriteBuilder, Value, conditional, require, rule
from ...core.ir.dtypes import FLOATS
from ..support.operand_queries import NO_NEGATIVE_ZERO, is_finite, require_broadcastable_to, required_scalar
from .value_ranges import CLAMPS, ValueRange, build_clamp, clamp_of, range_of, type_limits


@rule(lambda g, clamp: g.one_of(*CLAMPS)(...) @ clamp, contract=EXACT, group="merge-clamps")
def drop_no_op_clamp(g: RewriteBuilder, clamp: Op) -> Value:
    """Relu(x), Clip(x, a, b), Max(x, a) or Min(x, b) => x, where x is known to lie within"""
    of, found = required_clamp(clamp)
    within = range_of(of)
    require(found.low <= within.low and within.high <= found.high, "x may lie outside the bounds")
    require(not may_change_zero_sign(clamp), "it may change the sign of a zero")
    return of


@rule(
    lambda g, inner, outer: g.one_of(*CLAMPS)(..., g.one_of(*CLAMPS)(...) @ inner, ...) @ outer,
    contract=EXACT,
    group="merge-clamps",
)
def merge_clamps(g: RewriteBuilder, inner: Op, outer: Op) -> Value:
    """Relu, Clip, Max or Min of another of them => one of them, with the bounds that follow"""
    return merge_clamp_pair(g, inner, outer, exact=True)


@rule(
    lambda g, inner, outer: g.one_of(*CLAMPS)(..., g.one_of(*CLAMPS)(...) @ inner, ...) @ outer,
    contract=NO_NEGATIVE_ZERO,
    critical_values=(0.0,),
    group="merge-clamps",
)
def merge_clamps_over_zero(g: RewriteBuilder, inner: Op, outer: Op) -> Value:
    """Relu, Clip, Max or Min of another of them => one of them, where one bound or result is 0"""
    return merge_clamp_pair(g, inner, outer, exact=False)


@rule(lambda g, x, c: g.Max(x, g.const(c)), contract=NO_NEGATIVE_ZERO, critical_values=(0.0,), group="merge-clamps")
def max_with_zero_to_relu(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """Max(x, 0) => Relu(x)"""
    require(not x.is_const and c.dtype in FLOATS, "x is constant or not a float")
    number = float(required_scalar(c))
    require(number == 0 and copysign(1, number) > 0, "the bound is not positive zero")
    require_broadcastable_to(c, x)
    return build_clamp(g, x, ValueRange(low=0.0))


# Bounds that are left out are the ends of the type (operator Clip): infinity becomes the greatest number.
@rule(
    lambda g, x, clip: g.Clip(x) @ clip,
    contract=conditional("no element is infinite", each=is_finite),
    group="drop-unbounded-clips",
)
def drop_unbounded_clip(g: RewriteBuilder, x: Value, clip: Op) -> Value:
    """Clip(x) => x"""
    require(required_clamp(clip)[1] == type_limits(x.dtype), "Clip has bounds")
    return x


def merge_clamp_pair(g: RewriteBuilder, inner: Op, outer: Op, *, exact: bool) -> Value:
    """Build one clamp in place of two."""
    x, first = required_clamp(inner)
    between, second = required_clamp(outer)
    require(between is inner.outputs[0], "the inner result is not the clamped operand")
    both = second.compose(first)
    signs = all(copysign(1, both.apply(zero)) == copysign(1, second.apply(first.apply(zero))) for zero in (0.0, -0.0))
    blurred = not signs or may_change_zero_sign(inner) or may_change_zero_sign(outer)
    require(not exact or not blurred, "it may change the sign of a zero")
    return build_clamp(g, x, both)


def required_clamp(op: Op) -> tuple[Value, ValueRange]:
    """The operand and the bounds of a clamp; declines where the bounds are unknown or change the shape."""
    x, clamp = clamp_of(op)
    for c in op.inputs if op.type in {"Max", "Min"} else ():
        if c is not None and c is not x:
            require_broadcastable_to(c, x)
    return x, clamp


def may_change_zero_sign(op: Op) -> bool:
    """Whether a clamp may change the sign of a zero.

    onnxruntime's Clip and Relu keep a zero at the bound; Max and Min return either one.
    """
    x, clamp = clamp_of(op)
    return op.type in {"Max", "Min"} and 0 in clamp and x.known_dtype in FLOATS
