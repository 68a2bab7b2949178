"""Merging of Slices, and of DepthToSpace with SpaceToDepth."""

from __future__ import annotations

from ...core import EXACT, Build, Op, RulePass, Value, require, rule
from .slice_ranges import build_slice, compose_ranges, required_slice_ranges


@rule(lambda g, x, inner, outer: g.Slice(g.Slice(x, ...) @ inner, ...) @ outer, shared=True, contract=EXACT)
def merge_slices(g: Build, x: Value, inner: Op, outer: Op) -> Value:
    """Slice(Slice(x, a), b) => Slice(x, both), or x"""
    first, second = required_slice_ranges(inner, x), required_slice_ranges(outer, x)
    found = {**first, **second}
    for axis in first.keys() & second.keys():
        extent = x.shape[axis]
        both = compose_ranges(first[axis], second[axis], extent if isinstance(extent, int) else None)
        if both is None:
            del found[axis]
        else:
            found[axis] = both
    return build_slice(g, x, found)


@rule(
    lambda g, x, inner, outer: (
        g.one_of("DepthToSpace", "SpaceToDepth")(g.one_of("DepthToSpace", "SpaceToDepth")(x, ...) @ inner, ...) @ outer
    ),
    shared=True,
    contract=EXACT,
)
def cancel_depth_and_space(g: Build, x: Value, inner: Op, outer: Op) -> Value:
    """SpaceToDepth(DepthToSpace(x)) => x, of one block size, blocks before channels; and the other way round"""
    require(inner.type != outer.type, "both are the same operator")
    require(inner.attr("blocksize") == outer.attr("blocksize"), "the block sizes differ")
    require(all(op.attr("mode", "DCR") == "DCR" for op in (inner, outer)), "the mode is not DCR")
    return x


MERGE_SLICES = RulePass("merge-slices", (merge_slices,))
CANCEL_DEPTH_AND_SPACE = RulePass("cancel-depth-and-space", (cancel_depth_and_space,))
