"""Clamps that meet are one clamp; those that bound nothing go."""

from __future__ import annotations

from math import copysign

from ...core import EXACT, Build, Op, RulePass, Value, conditional, require, rule
from ..support.constant_operands import require_no_stretch
from ..support.dtypes import FLOATS
from ..support.operand_queries import Inputs, number_in
from .clamps import CLAMPS, Clamp, known_clamp, limits, write_clamp
from .ort_kernels import ZEROS
from .value_ranges import range_of


@rule(lambda g, x, bounds, clamp: g.one_of(*CLAMPS)(x, *bounds) @ clamp, contract=EXACT)
def drop_idle_clamp(g: Build, x: Value, bounds: Inputs, clamp: Op) -> Value:
    """Relu(x), Clip(x, a, b), Max(x, a) or Min(x, b) => x, where x is known to lie within"""
    of, found = clamp_of(clamp)
    within = range_of(of)
    require(found.low <= within.low and within.high <= found.high, "it may lie outside")
    require(not blurs_zeros(clamp), "it may change the sign of a zero")
    return of


@rule(
    lambda g, ins, bounds, inner, outer: g.one_of("Relu", "Clip")(g.one_of(*CLAMPS)(*ins) @ inner, *bounds) @ outer,
    contract=EXACT,
)
def merge_clamps(g: Build, ins: Inputs, bounds: Inputs, inner: Op, outer: Op) -> Value:
    """Relu or Clip of Relu, Clip, Max or Min => one of them, with the bounds that follow"""
    return merged(g, inner, outer, exact=True)


@rule(
    lambda g, ins, c, inner, outer: g.one_of("Max", "Min")(g.one_of(*CLAMPS)(*ins) @ inner, c) @ outer, contract=EXACT
)
def merge_clamps_by_number(g: Build, ins: Inputs, c: Value, inner: Op, outer: Op) -> Value:
    """Max or Min, with a number but 0, of Relu, Clip, Max or Min => one of them"""
    return merged(g, inner, outer, exact=True)


@rule(
    lambda g, ins, bounds, inner, outer: g.one_of("Relu", "Clip")(g.one_of(*CLAMPS)(*ins) @ inner, *bounds) @ outer,
    contract=ZEROS,
    fragile=(0.0,),
)
def merge_clamps_over_zero(g: Build, ins: Inputs, bounds: Inputs, inner: Op, outer: Op) -> Value:
    """Relu or Clip of Max(x, 0), Min(x, 0) or what is all 0 => one of them"""
    return merged(g, inner, outer, exact=False)


@rule(
    lambda g, ins, c, inner, outer: g.one_of("Max", "Min")(g.one_of(*CLAMPS)(*ins) @ inner, c) @ outer,
    contract=ZEROS,
    fragile=(0.0,),
)
def merge_clamps_by_zero(g: Build, ins: Inputs, c: Value, inner: Op, outer: Op) -> Value:
    """Max or Min, one of them with 0, of Relu, Clip, Max or Min => one of them"""
    return merged(g, inner, outer, exact=False)


@rule(lambda g, x, c: g.Max(x, g.const(c)), contract=ZEROS, fragile=(0.0,))
def max_with_zero_to_relu(g: Build, x: Value, c: Value) -> Value:
    """Max(x, 0) => Relu(x)"""
    require(not x.is_const and c.dtype in FLOATS, "of constants or integers")
    number = float(number_in(c))
    require(number == 0 and copysign(1, number) > 0, "Max with something else than 0")
    require_no_stretch(c, x)
    return write_clamp(g, x, Clamp(low=0.0))


# Bounds that are left out are the ends of the type (operator Clip): infinity becomes the greatest number.
@rule(lambda g, x, clip: g.Clip(x) @ clip, contract=conditional("no element is infinite"))
def drop_unbounded_clip(g: Build, x: Value, clip: Op) -> Value:
    """Clip(x) => x"""
    require(clamp_of(clip)[1] == limits(x.dtype), "it has bounds")
    return x


def merged(g: Build, inner: Op, outer: Op, *, exact: bool) -> Value:
    """One clamp in the place of two."""
    x, first = clamp_of(inner)
    between, second = clamp_of(outer)
    require(between is inner.outputs[0], "it is clamped by a value, not by a number")
    both = second.after(first)
    signs = all(copysign(1, both.of(zero)) == copysign(1, second.of(first.of(zero))) for zero in (0.0, -0.0))
    blurred = not signs or blurs_zeros(inner) or blurs_zeros(outer)
    require(not exact or not blurred, "it may change the sign of a zero")
    return write_clamp(g, x, both)


def clamp_of(op: Op) -> tuple[Value, Clamp]:
    """What an op clamps and to which bounds; declines where those are not known or change the shape."""
    found = known_clamp(op)
    require(found is not None, f"{op.label} has no constant bounds")
    assert found is not None
    x, clamp = found
    for c in op.inputs if op.type in {"Max", "Min"} else ():
        if c is not None and c is not x:
            require_no_stretch(c, x)
    return x, clamp


def blurs_zeros(op: Op) -> bool:
    """Whether a clamp may give a zero of another sign than the one it is given.

    onnxruntime's Clip and Relu give back a zero at the bound as it is; of Max and Min it is either one.
    """
    found = known_clamp(op)
    return found is not None and op.type in {"Max", "Min"} and 0 in found[1] and found[0].known_dtype in FLOATS


MERGE_CLAMPS = RulePass(
    "merge-clamps",
    (
        drop_idle_clamp,
        merge_clamps,
        merge_clamps_by_number,
        merge_clamps_over_zero,
        merge_clamps_by_zero,
        max_with_zero_to_relu,
    ),
)
DROP_UNBOUNDED_CLIP = RulePass("drop-unbounded-clips", (drop_unbounded_clip,))
