"""Clamps that meet are one clamp; those that bound nothing go."""

from __future__ import annotations

from math import copysign

from ...core import EXACT, Build, Op, RulePass, Value, conditional, require, rule
from ..support.constant_operands import require_scalar_or_broadcastable_to
from ..support.dtypes import FLOATS
from ..support.operand_queries import Inputs, required_scalar
from .clamps import CLAMPS, Clamp, build_clamp, known_clamp, type_limits
from .ort_kernels import NO_NEGATIVE_ZERO
from .value_ranges import range_of


@rule(lambda g, x, bounds, clamp: g.one_of(*CLAMPS)(x, *bounds) @ clamp, contract=EXACT)
def drop_no_op_clamp(g: Build, x: Value, bounds: Inputs, clamp: Op) -> Value:
    """Relu(x), Clip(x, a, b), Max(x, a) or Min(x, b) => x, where x is known to lie within"""
    of, found = required_clamp(clamp)
    within = range_of(of)
    require(found.low <= within.low and within.high <= found.high, "x may lie outside the bounds")
    require(not may_change_zero_sign(clamp), "it may change the sign of a zero")
    return of


@rule(
    lambda g, ins, bounds, inner, outer: g.one_of("Relu", "Clip")(g.one_of(*CLAMPS)(*ins) @ inner, *bounds) @ outer,
    contract=EXACT,
)
def merge_clamps(g: Build, ins: Inputs, bounds: Inputs, inner: Op, outer: Op) -> Value:
    """Relu or Clip of Relu, Clip, Max or Min => one of them, with the bounds that follow"""
    return merge_clamp_pair(g, inner, outer, exact=True)


@rule(
    lambda g, ins, c, inner, outer: g.one_of("Max", "Min")(g.one_of(*CLAMPS)(*ins) @ inner, c) @ outer, contract=EXACT
)
def merge_clamps_by_number(g: Build, ins: Inputs, c: Value, inner: Op, outer: Op) -> Value:
    """Max or Min, with a number but 0, of Relu, Clip, Max or Min => one of them"""
    return merge_clamp_pair(g, inner, outer, exact=True)


@rule(
    lambda g, ins, bounds, inner, outer: g.one_of("Relu", "Clip")(g.one_of(*CLAMPS)(*ins) @ inner, *bounds) @ outer,
    contract=NO_NEGATIVE_ZERO,
    fragile=(0.0,),
)
def merge_clamps_over_zero(g: Build, ins: Inputs, bounds: Inputs, inner: Op, outer: Op) -> Value:
    """Relu or Clip of Max(x, 0), Min(x, 0) or what is all 0 => one of them"""
    return merge_clamp_pair(g, inner, outer, exact=False)


@rule(
    lambda g, ins, c, inner, outer: g.one_of("Max", "Min")(g.one_of(*CLAMPS)(*ins) @ inner, c) @ outer,
    contract=NO_NEGATIVE_ZERO,
    fragile=(0.0,),
)
def merge_clamps_by_zero(g: Build, ins: Inputs, c: Value, inner: Op, outer: Op) -> Value:
    """Max or Min, one of them with 0, of Relu, Clip, Max or Min => one of them"""
    return merge_clamp_pair(g, inner, outer, exact=False)


@rule(lambda g, x, c: g.Max(x, g.const(c)), contract=NO_NEGATIVE_ZERO, fragile=(0.0,))
def max_with_zero_to_relu(g: Build, x: Value, c: Value) -> Value:
    """Max(x, 0) => Relu(x)"""
    require(not x.is_const and c.dtype in FLOATS, "x is constant or not a float")
    number = float(required_scalar(c))
    require(number == 0 and copysign(1, number) > 0, "the bound is not positive zero")
    require_scalar_or_broadcastable_to(c, x)
    return build_clamp(g, x, Clamp(low=0.0))


# Bounds that are left out are the ends of the type (operator Clip): infinity becomes the greatest number.
@rule(lambda g, x, clip: g.Clip(x) @ clip, contract=conditional("no element is infinite"))
def drop_unbounded_clip(g: Build, x: Value, clip: Op) -> Value:
    """Clip(x) => x"""
    require(required_clamp(clip)[1] == type_limits(x.dtype), "Clip has bounds")
    return x


def merge_clamp_pair(g: Build, inner: Op, outer: Op, *, exact: bool) -> Value:
    """One clamp in the place of two."""
    x, first = required_clamp(inner)
    between, second = required_clamp(outer)
    require(between is inner.outputs[0], "the inner result is not the clamped operand")
    both = second.compose(first)
    signs = all(copysign(1, both.apply(zero)) == copysign(1, second.apply(first.apply(zero))) for zero in (0.0, -0.0))
    blurred = not signs or may_change_zero_sign(inner) or may_change_zero_sign(outer)
    require(not exact or not blurred, "it may change the sign of a zero")
    return build_clamp(g, x, both)


def required_clamp(op: Op) -> tuple[Value, Clamp]:
    """What an op clamps and to which bounds; declines where those are not known or change the shape."""
    found = known_clamp(op)
    require(found is not None, f"{op.label} has no constant bounds")
    assert found is not None
    x, clamp = found
    for c in op.inputs if op.type in {"Max", "Min"} else ():
        if c is not None and c is not x:
            require_scalar_or_broadcastable_to(c, x)
    return x, clamp


def may_change_zero_sign(op: Op) -> bool:
    """Whether a clamp may give a zero of another sign than the one it is given.

    onnxruntime's Clip and Relu give back a zero at the bound as it is; of Max and Min it is either one.
    """
    found = known_clamp(op)
    return found is not None and op.type in {"Max", "Min"} and 0 in found[1] and found[0].known_dtype in FLOATS


MERGE_CLAMPS = RulePass(
    "merge-clamps",
    (
        drop_no_op_clamp,
        merge_clamps,
        merge_clamps_by_number,
        merge_clamps_over_zero,
        merge_clamps_by_zero,
        max_with_zero_to_relu,
    ),
)
DROP_UNBOUNDED_CLIP = RulePass("drop-unbounded-clips", (drop_unbounded_clip,))
