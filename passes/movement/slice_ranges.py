"""What a Slice takes along each axis, and what one Slice takes of what another has left (operator Slice-13)."""

from __future__ import annotations

from dataclasses import dataclass

from ...core import Build, Op, Value, require
from ..support.operand_queries import axes_of

TO_THE_END = 2**31 - 1  # the INT_MAX with which a Slice goes to an end that it does not know
MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Cut:
    """The elements from `start` to before `end`, every `step`-th; as a Slice has them, negative ones from the end."""

    start: int
    end: int
    step: int = 1

    def of(self, extent: int) -> range:
        """The indices taken of `extent` elements."""
        start = self.start + extent if self.start < 0 else self.start
        end = self.end + extent if self.end < 0 else self.end
        if self.step > 0:
            return range(min(max(start, 0), extent), min(max(end, 0), extent), self.step)
        return range(min(max(start, 0), extent - 1), min(max(end, -1), extent - 1), self.step)


def cuts_of(op: Op, x: Value) -> dict[int, Cut]:
    """What a Slice of `x` takes, by axis from the front; declines where that is computed."""
    starts, ends = axes_of(op, "starts"), axes_of(op, "ends")
    axes, steps = axes_of(op, "axes"), axes_of(op, "steps")
    assert starts is not None
    assert ends is not None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    require(len(starts) == len(ends) == len(axes) == len(steps) and 0 not in steps, "it is not well-formed")
    if any(a < 0 for a in axes):
        axes = [a + x.rank if a < 0 else a for a in axes]
    require(len(set(axes)) == len(axes), "an axis is cut twice")
    # Backwards to INT_MAX is nothing by the operator, and all the way to onnxruntime 1.31.
    require(all(s > 0 or e < TO_THE_END for e, s in zip(ends, steps, strict=True)), "it goes back to INT_MAX")
    return {a: Cut(*cut) for a, *cut in zip(axes, starts, ends, steps, strict=True)}


def cut(g: Build, x: Value, cuts: dict[int, Cut]) -> Value:
    """One Slice of `x`, or `x` itself where everything is taken."""
    axes = sorted(cuts)
    if not axes:
        return x
    steps = [cuts[a].step for a in axes]
    return g.Slice(
        x,
        starts=[cuts[a].start for a in axes],
        ends=[cuts[a].end for a in axes],
        axes=axes,
        steps=None if set(steps) == {1} else steps,
    )


def composed(first: Cut, second: Cut, extent: int | None) -> Cut | None:
    """What `second` takes of what `first` takes; None if that is all there is. Declines what depends on the extent."""
    if extent is not None:
        taken = first.of(extent)
        return written(taken[_slice(second.of(len(taken)))], extent)
    require(min(first.start, second.start) >= 0 and min(first.step, second.step) > 0, "the extent is unknown")
    start = min(first.start + first.step * second.start, MOST)
    return Cut(start, _end(first, second), first.step * second.step)


def written(taken: range, extent: int) -> Cut | None:
    """A Cut that takes the indices `taken` of `extent` elements; None if those are all, in order."""
    if taken == range(extent):
        return None
    if len(taken) == 0:
        return Cut(0, 0)
    if len(taken) == 1:
        return Cut(taken[0], taken[0] + 1)
    end = taken[-1] + (1 if taken.step > 0 else -1)
    return Cut(taken[0], -extent - 1 if end < 0 else end, taken.step)


def _slice(taken: range) -> slice:
    """A Python slice for a range, which may end before 0."""
    return slice(taken.start, taken.stop if taken.stop >= 0 else None, taken.step) if taken else slice(0, 0)


def _end(first: Cut, second: Cut) -> int:
    """The end of two cuts with positive steps, whatever the extent."""
    if second.end >= TO_THE_END:
        return first.end
    if second.end >= 0:
        bound = first.start + first.step * second.end
        require(first.end >= 0, "either may end first")
        return min(first.end, bound)
    require(first.step == 1 and (first.end < 0 or first.end >= TO_THE_END), "the extent is unknown")
    return second.end + min(first.end, 0)
