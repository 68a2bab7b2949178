"""Which pairs of ops stand: those whose edges agree, or differ only by what has no partner."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum, auto
from itertools import zip_longest

from ...core.ir.values import Value
from .constant_numbering import Contents
from .indexed_graph import CAPTURED
from .interface_changes import Ends
from .matching import Matching
from .numbering import Labels, Level, commutes

Rim = tuple[Value | None, Value | None]
"""What stands in one place in both graphs."""


class Tie(Enum):
    """How two values in the same place of two matched ops stand to each other; `OPEN`: nothing is matched to them."""

    SAME = auto()
    BOTH_OPEN = auto()
    ONE_OPEN = auto()
    OTHER = auto()


class Agreement:
    """A matching, and what it says of values."""

    def __init__(self, found: Matching, contents: Contents, labels: tuple[Labels, Labels], ends: Ends) -> None:
        self.found, self.contents, self.labels, self.ends = found, contents, labels, ends

    def swapped(self) -> Agreement:
        """The same with the other graph first."""
        a, b = self.found.sides
        found = Matching(b, a)
        for i, j in self.found.pairs:
            found.join(j, i)
        return Agreement(found, self.contents, (self.labels[1], self.labels[0]), self.ends.swapped())

    # -- values ------------------------------------------------------------------------

    def partner(self, side: int, value: Value) -> Value | None:
        """The value of the other graph that the same op makes, or that is the same input."""
        made = self.found.sides[side].made.get(value)
        if made is None:
            return self.ends.other(side, value)
        other = self.found.partners[side][made[0]]
        if other is None:
            return None
        outputs = self.found.sides[1 - side].ops[other].outputs
        return outputs[made[1]] if made[1] < len(outputs) else None

    def tie(self, v: Value | None, w: Value | None) -> Tie | None:
        """How `v` of the first graph stands to `w` of the second; None where both are constants, or one is left out."""
        is_fixed = v is None or v in self.contents, w is None or w in self.contents
        partner = None if v is None or is_fixed[0] else self.partner(0, v)
        if partner is not None and partner is w:
            return Tie.SAME
        if all(is_fixed):
            return None
        open_ones = (
            not is_fixed[0] and partner is None,
            not is_fixed[1] and w is not None and self.partner(1, w) is None,
        )
        if all(open_ones):
            return Tie.BOTH_OPEN
        return Tie.ONE_OPEN if any(open_ones) else Tie.OTHER

    # -- edges -------------------------------------------------------------------------

    def is_swapped(self, i: int, j: int) -> bool:
        """Whether two matched ops read the same in the other order."""
        a, b = self.found.sides
        if not (commutes(a.ops[i]) and commutes(b.ops[j]) and len(a.inputs[i]) == len(b.inputs[j]) == 2):
            return False
        straight = sum(map(self._is_same, a.inputs[i], b.inputs[j]))
        return straight < 2 and sum(map(self._is_same, a.inputs[i], b.inputs[j][::-1])) > straight

    def _is_same(self, v: Value | None, w: Value | None) -> bool:
        if v in self.contents and w in self.contents:
            return self.is_equal(v, w)
        return self.tie(v, w) is Tie.SAME

    def is_equal(self, v: Value | None, w: Value | None) -> bool:
        """Whether two constants are equal, or both left out."""
        if v is None or w is None:
            return v is w
        return self.contents[v] == self.contents[w]

    def across(self, side: int, i: int, place: int) -> Value | None:
        """What the partner of an op reads in the same place."""
        j = self.found.partners[side][i]
        assert j is not None
        inputs = self.found.sides[1 - side].inputs[j]
        if self.is_swapped(*((i, j) if side == 0 else (j, i))):
            place = 1 - place
        return inputs[place] if place < len(inputs) else None

    def slots(self, i: int, j: int) -> Iterator[Rim]:
        """What two matched ops read, place by place."""
        a, b = self.found.sides
        yield from zip_longest(a.inputs[i], b.inputs[j][::-1] if self.is_swapped(i, j) else b.inputs[j])

    def captured(self, i: int, j: int) -> Iterator[Rim]:
        """What only one of two matched ops reads in its bodies, beside what the other reads in its place."""
        a, b = self.found.sides
        ours, theirs = dict.fromkeys(a.captures[i]), dict.fromkeys(b.captures[j])
        left = [v for v in ours if self.partner(0, v) not in theirs]
        right = [w for w in theirs if self.partner(1, w) not in ours]
        yield from zip_longest(left, right)

    def readers(self, i: int, j: int) -> Iterator[Rim]:
        """What stands where the results of two matched ops are read by matched ops, and in the graphs' outputs."""
        for side, op in enumerate((i, j)):
            here = self.found.sides[side]
            for v in here.ops[op].outputs:
                for u, place in here.read.get(v, ()):
                    if self.found.partners[side][u] is not None and place != CAPTURED:
                        other = self.across(side, u, place)
                        yield (v, other) if side == 0 else (other, v)
                for place in self.ends.places[side].get(v, ()):
                    yield self.ends.outputs[place]

    # -- pairs -------------------------------------------------------------------------

    def settle(self) -> None:
        """Part the pairs that do not stand, and those that do not stand without them."""
        waiting = deque(self.found.pairs)
        queued = set(waiting)
        while waiting:
            pair = waiting.popleft()
            queued.discard(pair)
            if self.found.partners[0][pair[0]] != pair[1] or self._stands(*pair):
                continue
            around = set(self._around(*pair))
            self.found.part(*pair)
            waiting.extend(sorted(around - queued))
            queued |= around

    def _stands(self, i: int, j: int) -> bool:
        """Whether a pair may stay.

        One that computes the same needs no more than one edge in common, or none that leads elsewhere; one that
        does not must have all its edges in common, but for those between what is open on both sides.
        """
        ties = {tie for v, w in (*self.slots(i, j), *self.readers(i, j)) if (tie := self.tie(v, w)) is not None}
        if self.is_kept(i, j):
            return Tie.OTHER not in ties or Tie.SAME in ties
        return ties <= {Tie.SAME, Tie.BOTH_OPEN} and (Tie.SAME in ties or not ties)

    def is_kept(self, i: int, j: int) -> bool:
        """Whether two ops do the same with what they read; a constant may stand for what was computed.

        Bodies may differ: they are compared by themselves.
        """
        ours, theirs = self.labels
        if ours.at[Level.CONTENT][i] == theirs.at[Level.CONTENT][j]:
            return True
        if ours.attributes[i] != theirs.attributes[j]:
            return False
        return all(
            self.is_equal(v, w) if self.tie(v, w) is None else v is not None and w is not None
            for v, w in self.slots(i, j)
        )

    def _around(self, i: int, j: int) -> Iterator[tuple[int, int]]:
        """The pairs next to one."""
        for side, op in enumerate((i, j)):
            here = self.found.sides[side]
            makers = (m for v, _ in here.reads(op) if (m := here.maker(v)) is not None)
            readers = (u for v in here.ops[op].outputs for u, _ in here.read.get(v, ()))
            for x in (*makers, *readers):
                y = self.found.partners[side][x]
                if y is not None:
                    yield (x, y) if side == 0 else (y, x)
