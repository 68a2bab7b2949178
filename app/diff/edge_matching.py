"""Which pairs of ops stand: those whose edges agree, or differ only by what has no partner."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum, auto
from itertools import zip_longest

from ...core.ir.values import Value
from .constant_numbering import ConstantNumbering
from .indexed_graph import CAPTURED
from .interface_changes import InterfacePairing
from .matching import Matching
from .numbering import Granularity, Labels, commutes

OptionalValuePair = tuple[Value | None, Value | None]
"""What stands in one place in both graphs."""


class Correspondence(Enum):
    """How two values in the same place of two matched ops stand to each other; `OPEN`: nothing is matched to them."""

    MATCHED = auto()
    BOTH_UNMATCHED = auto()
    ONE_UNMATCHED = auto()
    DIFFERENT = auto()


class EdgeMatching:
    """A matching, and what it says of values."""

    def __init__(
        self,
        matching: Matching,
        constants: ConstantNumbering,
        labels: tuple[Labels, Labels],
        interface: InterfacePairing,
    ) -> None:
        self.matching, self.constants, self.labels, self.interface = matching, constants, labels, interface

    def swapped(self) -> EdgeMatching:
        """The same with the other graph first."""
        a, b = self.matching.sides
        found = Matching(b, a)
        for i, j in self.matching.pairs:
            found.match(j, i)
        return EdgeMatching(found, self.constants, (self.labels[1], self.labels[0]), self.interface.swapped())

    # -- values ------------------------------------------------------------------------

    def partner(self, side: int, value: Value) -> Value | None:
        """The value of the other graph that the same op makes, or that is the same input."""
        made = self.matching.sides[side].producers.get(value)
        if made is None:
            return self.interface.counterpart(side, value)
        other = self.matching.partners[side][made[0]]
        if other is None:
            return None
        outputs = self.matching.sides[1 - side].ops[other].outputs
        return outputs[made[1]] if made[1] < len(outputs) else None

    def correspondence(self, v: Value | None, w: Value | None) -> Correspondence | None:
        """How `v` of the first graph stands to `w` of the second; None where both are constants, or one is left out."""
        is_fixed = v is None or v in self.constants, w is None or w in self.constants
        partner = None if v is None or is_fixed[0] else self.partner(0, v)
        if partner is not None and partner is w:
            return Correspondence.MATCHED
        if all(is_fixed):
            return None
        open_ones = (
            not is_fixed[0] and partner is None,
            not is_fixed[1] and w is not None and self.partner(1, w) is None,
        )
        if all(open_ones):
            return Correspondence.BOTH_UNMATCHED
        return Correspondence.ONE_UNMATCHED if any(open_ones) else Correspondence.DIFFERENT

    # -- edges -------------------------------------------------------------------------

    def is_swapped(self, i: int, j: int) -> bool:
        """Whether two matched ops read the same in the other order."""
        a, b = self.matching.sides
        if not (commutes(a.ops[i]) and commutes(b.ops[j]) and len(a.inputs[i]) == len(b.inputs[j]) == 2):
            return False
        straight = sum(map(self._is_matched, a.inputs[i], b.inputs[j]))
        return straight < 2 and sum(map(self._is_matched, a.inputs[i], b.inputs[j][::-1])) > straight

    def _is_matched(self, v: Value | None, w: Value | None) -> bool:
        if v in self.constants and w in self.constants:
            return self.is_equal_constant(v, w)
        return self.correspondence(v, w) is Correspondence.MATCHED

    def is_equal_constant(self, v: Value | None, w: Value | None) -> bool:
        """Whether two constants are equal, or both left out."""
        if v is None or w is None:
            return v is w
        return self.constants[v] == self.constants[w]

    def partner_operand(self, side: int, i: int, index: int) -> Value | None:
        """What the partner of an op reads in the same place."""
        j = self.matching.partners[side][i]
        assert j is not None
        inputs = self.matching.sides[1 - side].inputs[j]
        if self.is_swapped(*((i, j) if side == 0 else (j, i))):
            index = 1 - index
        return inputs[index] if index < len(inputs) else None

    def operand_pairs(self, i: int, j: int) -> Iterator[OptionalValuePair]:
        """What two matched ops read, place by place."""
        a, b = self.matching.sides
        yield from zip_longest(a.inputs[i], b.inputs[j][::-1] if self.is_swapped(i, j) else b.inputs[j])

    def capture_pairs(self, i: int, j: int) -> Iterator[OptionalValuePair]:
        """What only one of two matched ops reads in its bodies, beside what the other reads in its place."""
        a, b = self.matching.sides
        ours, theirs = dict.fromkeys(a.captures[i]), dict.fromkeys(b.captures[j])
        left = [v for v in ours if self.partner(0, v) not in theirs]
        right = [w for w in theirs if self.partner(1, w) not in ours]
        yield from zip_longest(left, right)

    def use_pairs(self, i: int, j: int) -> Iterator[OptionalValuePair]:
        """What stands where the results of two matched ops are read by matched ops, and in the graphs' outputs."""
        for side, op in enumerate((i, j)):
            here = self.matching.sides[side]
            for v in here.ops[op].outputs:
                for u, place in here.uses.get(v, ()):
                    if self.matching.partners[side][u] is not None and place != CAPTURED:
                        other = self.partner_operand(side, u, place)
                        yield (v, other) if side == 0 else (other, v)
                for place in self.interface.output_indices[side].get(v, ()):
                    yield self.interface.outputs[place]

    # -- pairs -------------------------------------------------------------------------

    def remove_inconsistent_pairs(self) -> None:
        """Part the pairs that do not stand, and those that do not stand without them."""
        waiting = deque(self.matching.pairs)
        queued = set(waiting)
        while waiting:
            pair = waiting.popleft()
            queued.discard(pair)
            if self.matching.partners[0][pair[0]] != pair[1] or self._is_consistent(*pair):
                continue
            around = set(self._neighbouring_pairs(*pair))
            self.matching.unmatch(*pair)
            waiting.extend(sorted(around - queued))
            queued |= around

    def _is_consistent(self, i: int, j: int) -> bool:
        """Whether a pair may stay.

        One that computes the same needs no more than one edge in common, or none that leads elsewhere; one that
        does not must have all its edges in common, but for those between what is open on both sides.
        """
        ties = {
            tie
            for v, w in (*self.operand_pairs(i, j), *self.use_pairs(i, j))
            if (tie := self.correspondence(v, w)) is not None
        }
        if self.is_same_operation(i, j):
            return Correspondence.DIFFERENT not in ties or Correspondence.MATCHED in ties
        return ties <= {Correspondence.MATCHED, Correspondence.BOTH_UNMATCHED} and (
            Correspondence.MATCHED in ties or not ties
        )

    def is_same_operation(self, i: int, j: int) -> bool:
        """Whether two ops do the same with what they read; a constant may stand for what was computed.

        Bodies may differ: they are compared by themselves.
        """
        ours, theirs = self.labels
        if ours.by_granularity[Granularity.CONTENT][i] == theirs.by_granularity[Granularity.CONTENT][j]:
            return True
        if ours.attributes[i] != theirs.attributes[j]:
            return False
        return all(
            self.is_equal_constant(v, w) if self.correspondence(v, w) is None else v is not None and w is not None
            for v, w in self.operand_pairs(i, j)
        )

    def _neighbouring_pairs(self, i: int, j: int) -> Iterator[tuple[int, int]]:
        """The pairs next to one."""
        for side, op in enumerate((i, j)):
            here = self.matching.sides[side]
            makers = (m for v, _ in here.operands(op) if (m := here.producer(v)) is not None)
            readers = (u for v in here.ops[op].outputs for u, _ in here.uses.get(v, ()))
            for x in (*makers, *readers):
                y = self.matching.partners[side][x]
                if y is not None:
                    yield (x, y) if side == 0 else (y, x)
