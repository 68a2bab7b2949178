"""Merging of Slices, their replacement by a Split, and merging of DepthToSpace with SpaceToDepth.

`merge-slices`: Merging of Slices.
`cancel-depth-and-space`: Cancellation of DepthToSpace with SpaceToDepth.
"""

from __future__ import annotations

from msgspec import Struct

from ...core import EXACT, ChangeLog, Graph, Op, RewriteBuilder, Value, made_from, require, rule
from ...core.ir.expressions import Dim
from ...core.operators.operands import INT32_MAX, INT64_MAX, slice_range
from ..support.operand_queries import constant_numbers, known_extent, unless_declined


class SliceRange(Struct, frozen=True):
    """The elements from `start` to before `end`, every `step`-th; negative numbers count from the end, as for Slice."""

    start: int
    end: int
    step: int = 1

    def indices(self, extent: int) -> range:
        """The indices taken of `extent` elements."""
        found = slice_range(extent, self.start, self.end, self.step)
        return range(0) if found is None else found

    def takes_all(self, extent: Dim) -> bool:
        """Whether all elements of an axis are taken, in order."""
        if isinstance(extent, int):
            return self.indices(extent) == range(extent)
        return self.start == 0 and self.step == 1 and self.end >= INT32_MAX


def required_slice_ranges(op: Op, x: Value) -> dict[int, SliceRange]:
    """The ranges of a Slice of `x`, by axis from the front; declines where they are computed."""
    starts, ends = constant_numbers(op, "starts") or [], constant_numbers(op, "ends") or []
    axes, steps = constant_numbers(op, "axes"), constant_numbers(op, "steps")
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    require(len(starts) == len(ends) == len(axes) == len(steps) and 0 not in steps, "the slice is malformed")
    if any(a < 0 for a in axes):
        axes = [a + x.rank if a < 0 else a for a in axes]
        require(all(0 <= a < x.rank for a in axes), "an axis is out of range")
    require(len(set(axes)) == len(axes), "an axis is sliced twice")
    # Backwards to INT_MAX is nothing by the operator, and all the way to onnxruntime 1.31.
    require(all(s > 0 or e < INT32_MAX for e, s in zip(ends, steps, strict=True)), "a negative step ends at INT_MAX")
    return {a: SliceRange(*cut) for a, *cut in zip(axes, starts, ends, steps, strict=True)}


def build_slice(g: RewriteBuilder, x: Value, ranges: dict[int, SliceRange]) -> Value:
    """One Slice of `x`, or `x` itself where everything is taken."""
    axes = sorted(ranges)
    if not axes:
        return x
    steps = [ranges[a].step for a in axes]
    return g.Slice(
        x,
        starts=[ranges[a].start for a in axes],
        ends=[ranges[a].end for a in axes],
        axes=axes,
        steps=None if set(steps) == {1} else steps,
    )


def compose_ranges(first: SliceRange, second: SliceRange, extent: int | None) -> SliceRange | None:
    """The range of `second` applied after `first`; None if it is all. Declines ranges that depend on the extent."""
    if extent is not None:
        taken = first.indices(extent)
        inner = second.indices(len(taken))
        stop = inner.stop if inner.stop >= 0 else None  # of a Python slice, that is before the first
        return range_of_indices(taken[inner.start : stop : inner.step] if inner else range(0), extent)
    require(min(first.start, second.start) >= 0 and min(first.step, second.step) > 0, "the extent is unknown")
    start = min(first.start + first.step * second.start, INT64_MAX)
    return SliceRange(start, _composed_end(first, second), first.step * second.step)


def range_of_indices(indices: range, extent: int) -> SliceRange | None:
    """The range that selects `indices` of `extent` elements; None if those are all, in order."""
    if indices == range(extent):
        return None
    if len(indices) == 0:
        return SliceRange(0, 0)
    if len(indices) == 1:
        return SliceRange(indices[0], indices[0] + 1)
    end = indices[-1] + (1 if indices.step > 0 else -1)
    return SliceRange(indices[0], -extent - 1 if end < 0 else end, indices.step)


def _composed_end(first: SliceRange, second: SliceRange) -> int:
    """The end of two composed ranges with positive steps, for any extent."""
    if second.end >= INT32_MAX:
        return first.end
    if second.end >= 0:
        bound = first.start + first.step * second.end
        require(first.end >= 0, "the shorter of the two slices is unknown")
        return min(first.end, bound)
    require(first.step == 1 and (first.end < 0 or first.end >= INT32_MAX), "the extent is unknown")
    return second.end + min(first.end, 0)


@rule(
    lambda g, x, inner, outer: g.Slice(g.Slice(x, ...) @ inner, ...) @ outer,
    allow_other_uses=True,
    contract=EXACT,
    group="merge-slices",
)
def merge_slices(g: RewriteBuilder, x: Value, inner: Op, outer: Op) -> Value:
    """Slice(Slice(x, a), b) => Slice(x, both), or x"""
    first, second = required_slice_ranges(inner, x), required_slice_ranges(outer, x)
    found = {**first, **second}
    for axis in first.keys() & second.keys():
        require(axis < x.rank, "an axis is out of range")
        extent = x.shape[axis]
        both = compose_ranges(first[axis], second[axis], extent if isinstance(extent, int) else None)
        if both is None:
            del found[axis]
        else:
            found[axis] = both
    return build_slice(g, x, found)


BLOCK_OPS = ("DepthToSpace", "SpaceToDepth")


@rule(
    lambda g, x, inner, outer: g.one_of(*BLOCK_OPS)(g.one_of(*BLOCK_OPS)(x, ...) @ inner, ...) @ outer,
    allow_other_uses=True,
    contract=EXACT,
    group="cancel-depth-and-space",
)
def cancel_depth_and_space(g: RewriteBuilder, x: Value, inner: Op, outer: Op) -> Value:
    """SpaceToDepth(DepthToSpace(x)) => x, of one block size, blocks before channels; and the other way round"""
    require(inner.type != outer.type, "both are the same operator")
    require(inner.attr("blocksize") == outer.attr("blocksize"), "the block sizes differ")
    require(all(op.attr("mode", "DCR") == "DCR" for op in (inner, outer)), "the mode is not DCR")
    return x


SlicePart = tuple[range, Op]


class SlicesToSplit(Struct, frozen=True):
    """x[:i], x[i:j], x[j:] => Split(x), where several Slices take each element along one axis just once."""

    name: str = "slices-to-split"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Group the Slices of each value, and replace complete groups. O(Slices)."""
        return sum(self._split(g, change_log) for g in tuple(graph.with_subgraphs()) if g.opsets.get("", 0) >= 2)

    def _split(self, g: Graph, change_log: ChangeLog) -> int:
        found: dict[tuple[Value, int], list[SlicePart]] = {}
        for op in g.ops("Slice"):
            part = slice_part(op)
            if part is not None:
                found.setdefault(part[:2], []).append((part[2], op))
        changes = 0
        for (x, axis), parts in found.items():
            parts.sort(key=lambda p: p[0].start)
            ops = [op for _, op in parts]
            if covers_axis([r for r, _ in parts], x, axis) and change_log.request_change(
                self.name, ops[0].outputs[0].name, ops
            ):
                self._replace(g, x, axis, parts)
                changes += 1
        return changes

    def _replace(self, g: Graph, x: Value, axis: int, parts: list[SlicePart]) -> None:
        ops = [op for _, op in parts]
        build = RewriteBuilder(g, min(ops, key=lambda op: op.order_key))
        made = build.Split(x, split=[len(r) for r, _ in parts], axis=axis, outputs=len(parts))
        made_from(build.added_ops[0], self.name, ops)
        for new, op in zip(made, ops, strict=True):
            g.take_over(new, op.outputs[0])
        g.prune(ops)


def slice_part(op: Op) -> tuple[Value, int, range] | None:
    """The operand, axis and indices of a Slice; None unless it is one run along one axis."""
    x = op.input(0)
    if op.domain or x is None or len(x.consumers) < 2 or op.graph.is_unused(op.outputs[0]):
        return None
    ranges = unless_declined(required_slice_ranges, op, x) or {}
    if len(ranges) != 1:
        return None
    ((axis, cut),) = ranges.items()
    extent = unless_declined(known_extent, x, axis)
    return None if extent is None or cut.step != 1 else (x, axis, cut.indices(extent))


def covers_axis(parts: list[range], x: Value, axis: int) -> bool:
    """Whether two or more runs, sorted, are all indices of an axis, each once and none of them empty."""
    bounds = [0, *(r.stop for r in parts)]
    meet = [r.start for r in parts] == bounds[:-1] and bounds[-1] == x.shape[axis]
    return len(parts) > 1 and meet and all(len(r) > 0 for r in parts)
