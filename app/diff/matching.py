"""Matching of ops in two graphs, so that the edges of matched ops agree or differ only by unmatched ops.

Ops are matched by their ancestors and descendants: first with attributes and constants, then with attributes, then by
type only. Ops between two matched ones are aligned in order, like lines of text. Names only break ties. Every step is
linear in the graphs, except for the sorting of neighbours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from hashlib import blake2b
from itertools import zip_longest
from typing import TypeVar

from ...core.ir.op import Op
from ...core.ir.values import Value
from .alignment import Pair, common_entries, gaps, longest_increasing, unique_common_entries
from .constants import Constants
from .numbering import CAPTURED, Granularity, IndexedGraph, Numbering, commutes

T = TypeVar("T")
ValuePair = tuple[Value, Value]
OptionalValuePair = tuple[Value | None, Value | None]
"""Values at the same position in both graphs."""


@dataclass(slots=True)
class InterfacePairing:
    """Corresponding `inputs`, including values from enclosing graphs, and `outputs`.

    For each graph, `input_partners` has the inputs of the other graph, and `output_indices` the pair indices of an
    output.
    """

    inputs: list[ValuePair]
    outputs: list[ValuePair]
    input_partners: tuple[dict[Value, Value], dict[Value, Value]] = field(init=False)
    output_indices: tuple[dict[Value, tuple[int, ...]], dict[Value, tuple[int, ...]]] = field(init=False)

    def __post_init__(self) -> None:
        self.input_partners = dict(self.inputs), {w: v for v, w in self.inputs}
        self.output_indices = {}, {}
        for i, pair in enumerate(self.outputs):
            for found, v in zip(self.output_indices, pair, strict=True):
                found[v] = (*found.get(v, ()), i)

    def swapped(self) -> InterfacePairing:
        """The same pairing with the graphs exchanged."""
        return InterfacePairing([(b, a) for a, b in self.inputs], [(b, a) for a, b in self.outputs])


def in_order(side: int, own: T, other: T) -> tuple[T, T]:
    """Order something of graph `side` and its counterpart, so that the first graph comes first."""
    return (own, other) if side == 0 else (other, own)


def pair_by_name(a: Sequence[Value], b: Sequence[Value]) -> list[ValuePair]:
    """Pair values by name, then by type, then by order if equally many are left in both."""
    theirs = {v.name: v for v in b}
    pairs = [(v, theirs[v.name]) for v in a if v.name in theirs]
    left, right = unpaired(a, (p[0] for p in pairs)), unpaired(b, (p[1] for p in pairs))
    by_type: dict[object, deque[Value]] = {}
    for w in right:
        by_type.setdefault(_type_key(w), deque()).append(w)
    pairs += [(v, alike.popleft()) for v in left if (alike := by_type.get(_type_key(v)))]
    left, right = unpaired(left, (p[0] for p in pairs)), unpaired(right, (p[1] for p in pairs))
    return [*pairs, *zip(left, right, strict=True)] if len(left) == len(right) else pairs


def unpaired(values: Iterable[Value], paired: Iterable[Value]) -> list[Value]:
    """The values that are not among the paired ones."""
    taken = set(paired)
    return [v for v in values if v not in taken]


def _type_key(value: Value) -> tuple[int, int | None, bytes]:
    """The declared element type and rank, if any."""
    dtype, shape = value.recorded_type
    return dtype, None if shape is None else len(shape), value.type.SerializeToString() if value.type else b""


class Correspondence(Enum):
    """The relation of two values at the same position of matched ops; values of unmatched ops have no partner."""

    MATCHED = auto()
    BOTH_UNMATCHED = auto()
    ONE_UNMATCHED = auto()
    DIFFERENT = auto()


@dataclass(slots=True)
class Matching:
    """Pairs of matched ops, by number, and the value pairs that follow from them. An op has at most one partner."""

    sides: tuple[IndexedGraph, IndexedGraph]
    numbering: Numbering
    interface: InterfacePairing
    constants: Constants = field(init=False)
    partners: tuple[list[int | None], list[int | None]] = field(init=False)

    def __post_init__(self) -> None:
        self.constants = self.numbering.constants
        self.partners = [None] * len(self.sides[0]), [None] * len(self.sides[1])

    def swapped(self) -> Matching:
        """The same matching with the graphs exchanged."""
        found = Matching((self.sides[1], self.sides[0]), self.numbering, self.interface.swapped())
        found.partners = self.partners[1], self.partners[0]
        return found

    @property
    def pairs(self) -> Iterator[Pair]:
        """The pairs, in the order of the first graph."""
        return ((i, j) for i, j in enumerate(self.partners[0]) if j is not None)

    @property
    def has_unmatched(self) -> bool:
        """Whether both graphs have ops without a partner."""
        return all(None in partners for partners in self.partners)

    def unmatched(self, side: int) -> list[int]:
        """The ops of a graph that have no partner."""
        return [i for i, partner in enumerate(self.partners[side]) if partner is None]

    def match(self, i: int, j: int) -> None:
        """Match two ops."""
        self.partners[0][i], self.partners[1][j] = j, i

    def match_equal(self, keys: Sequence[Sequence[Hashable]]) -> None:
        """Match unmatched ops that have equal keys, in order; if their numbers differ, prefer ops with equal names."""
        groups: dict[Hashable, tuple[list[int], list[int]]] = {}
        for side in (0, 1):
            for i in self.unmatched(side):
                groups.setdefault(keys[side][i], ([], []))[side].append(i)
        a, b = self.sides
        for left, right in groups.values():
            if left and right and len(left) != len(right):
                namesakes = {result_name(b.ops[j]): j for j in reversed(right)}
                for i in left:
                    if (j := namesakes.pop(result_name(a.ops[i]), None)) is not None:
                        self.match(i, j)
            still = [i for i in left if self.partners[0][i] is None], [j for j in right if self.partners[1][j] is None]
            for i, j in zip(*still, strict=False):
                self.match(i, j)

    def align(self, keys: Sequence[Sequence[int]], *, only_unique: bool = False) -> None:
        """Match unmatched ops that have equal keys between the matched pairs, where their order agrees."""
        found = unique_common_entries if only_unique else common_entries
        for (i, j), (k, m) in list(gaps(longest_increasing(self.pairs), *map(len, self.sides))):
            left = [x for x in range(i, k) if self.partners[0][x] is None]
            right = [y for y in range(j, m) if self.partners[1][y] is None]
            for p, q in found([keys[0][x] for x in left], [keys[1][y] for y in right]):
                self.match(left[p], right[q])

    def partner(self, side: int, value: Value) -> Value | None:
        """The corresponding output of the producer's partner, or the corresponding input of the other graph."""
        made = self.sides[side].producers.get(value)
        if made is None:
            return self.interface.input_partners[side].get(value)
        other = self.partners[side][made[0]]
        outputs = () if other is None else self.sides[1 - side].ops[other].outputs
        return outputs[made[1]] if made[1] < len(outputs) else None

    def correspondence(self, v: Value | None, w: Value | None) -> Correspondence | None:
        """The relation of `v` in the first graph to `w` in the second; None for constants and omitted inputs."""
        is_fixed = v is None or v in self.constants, w is None or w in self.constants
        partner = None if v is None or is_fixed[0] else self.partner(0, v)
        if partner is not None and partner is w:
            return Correspondence.MATCHED
        if all(is_fixed):
            return None
        unmatched = (
            not is_fixed[0] and partner is None,
            not is_fixed[1] and w is not None and self.partner(1, w) is None,
        )
        if all(unmatched):
            return Correspondence.BOTH_UNMATCHED
        return Correspondence.ONE_UNMATCHED if any(unmatched) else Correspondence.DIFFERENT

    def is_swapped(self, i: int, j: int) -> bool:
        """Whether two matched ops read the same values in exchanged order."""
        a, b = self.sides
        if not (commutes(a.ops[i]) and commutes(b.ops[j]) and len(a.inputs[i]) == len(b.inputs[j]) == 2):
            return False
        straight = sum(map(self._is_matched, a.inputs[i], b.inputs[j]))
        return straight < 2 and sum(map(self._is_matched, a.inputs[i], b.inputs[j][::-1])) > straight

    def _is_matched(self, v: Value | None, w: Value | None) -> bool:
        if v in self.constants and w in self.constants:
            return self._is_equal_constant(v, w)
        return self.correspondence(v, w) is Correspondence.MATCHED

    def _is_equal_constant(self, v: Value | None, w: Value | None) -> bool:
        """Whether two constants are equal, or both omitted."""
        return v is w if v is None or w is None else self.constants[v] == self.constants[w]

    def operand_pairs(self, i: int, j: int) -> Iterator[OptionalValuePair]:
        """The inputs of two matched ops, by position."""
        a, b = self.sides
        return zip_longest(a.inputs[i], b.inputs[j][::-1] if self.is_swapped(i, j) else b.inputs[j])

    def capture_pairs(self, i: int, j: int) -> Iterator[OptionalValuePair]:
        """Yield values that only one of two matched ops captures in its bodies, paired with those of the other."""
        ours, theirs = dict.fromkeys(self.sides[0].captures[i]), dict.fromkeys(self.sides[1].captures[j])
        left = (v for v in ours if self.partner(0, v) not in theirs)
        right = (w for w in theirs if self.partner(1, w) not in ours)
        return zip_longest(left, right)

    def _use_pairs(self, i: int, j: int) -> Iterator[OptionalValuePair]:
        """Yield the results of two matched ops, and the values where ops or graph outputs use them."""
        for side, op in enumerate((i, j)):
            here, there = self.sides[side], self.sides[1 - side]
            for v in here.ops[op].outputs:
                for user, index in here.uses.get(v, ()):
                    partner = self.partners[side][user]
                    if partner is not None and index != CAPTURED:
                        swapped = self.is_swapped(*in_order(side, user, partner))
                        inputs = there.inputs[partner][:: -1 if swapped else 1]
                        yield in_order(side, v, inputs[index] if index < len(inputs) else None)
                for index in self.interface.output_indices[side].get(v, ()):
                    yield self.interface.outputs[index]

    def remove_inconsistent_pairs(self) -> None:
        """Unmatch the pairs whose edges disagree, and those that disagree as a consequence."""
        waiting = deque(self.pairs)
        queued = set(waiting)
        while waiting:
            i, j = waiting.popleft()
            queued.discard((i, j))
            if self.partners[0][i] != j or self._is_consistent(i, j):
                continue
            around = set(self._neighbouring_pairs(i, j))
            self.partners[0][i] = self.partners[1][j] = None
            waiting.extend(sorted(around - queued))
            queued |= around

    def _is_consistent(self, i: int, j: int) -> bool:
        """Whether the edges of a pair agree sufficiently.

        Ops that are the same operation need one matched edge, or no edge that differs. Others need all edges to match,
        except those between ops that are unmatched in both graphs.
        """
        pairs = (*self.operand_pairs(i, j), *self._use_pairs(i, j))
        edges = {edge for v, w in pairs if (edge := self.correspondence(v, w)) is not None}
        if self._is_same_operation(i, j):
            return Correspondence.DIFFERENT not in edges or Correspondence.MATCHED in edges
        agreeing = {Correspondence.MATCHED, Correspondence.BOTH_UNMATCHED}
        return edges <= agreeing and (Correspondence.MATCHED in edges or not edges)

    def _is_same_operation(self, i: int, j: int) -> bool:
        """Whether two ops compute the same from their inputs; a constant may replace a computed value.

        Bodies may differ; they are compared separately.
        """
        a, b = self.sides
        if a.labels[Granularity.CONTENT][i] == b.labels[Granularity.CONTENT][j]:
            return True
        return a.attributes[i] == b.attributes[j] and all(
            self._is_equal_constant(v, w) if self.correspondence(v, w) is None else v is not None and w is not None
            for v, w in self.operand_pairs(i, j)
        )

    def _neighbouring_pairs(self, i: int, j: int) -> Iterator[Pair]:
        """The pairs of producers and consumers of a pair."""
        for side, op in enumerate((i, j)):
            here = self.sides[side]
            for x in (*here.producer_ops(op), *here.consumer_ops(op)):
                if (y := self.partners[side][x]) is not None:
                    yield in_order(side, x, y)


def result_name(op: Op) -> str:
    """The name of the first named output of an op, or the name of the op."""
    return next((v.name for v in op.outputs if v.name), op.name)


def match_ops(a: IndexedGraph, b: IndexedGraph, numbering: Numbering, ends: InterfacePairing) -> Matching:
    """Match the ops of two graphs. Exchanging the graphs changes only how ties are broken."""
    is_reversed = _order_key(b) < _order_key(a)
    matching = Matching((b, a), numbering, ends.swapped()) if is_reversed else Matching((a, b), numbering, ends)
    # Along edges, from the inputs, the outputs and unique ops.
    _match_by_context(matching, Granularity.CONTENT)
    matching.align([side.labels[Granularity.CONTENT] for side in matching.sides], only_unique=True)
    for granularity in Granularity:
        _match_by_context(matching, granularity)
    matching.remove_inconsistent_pairs()
    if matching.has_unmatched:
        _match_in_order(matching)
        matching.remove_inconsistent_pairs()
    return matching.swapped() if is_reversed else matching


def _match_in_order(matching: Matching) -> None:
    """Match ops that are in the same order between matched ones, then along edges again."""
    number = matching.numbering.number
    for granularity in Granularity:
        labels = [side.labels[granularity] for side in matching.sides]
        named = [
            [number((n, result_name(op))) for n, op in zip(labels[s], side.ops, strict=True)]
            for s, side in enumerate(matching.sides)
        ]
        matching.align(named, only_unique=True)
        matching.align(labels)
        _match_by_context(matching, granularity)


def _match_by_context(matching: Matching, level: Granularity) -> None:
    """Match ops with the same ancestors and descendants, then with either, up to the nearest matched ops."""
    if not matching.has_unmatched:
        return
    numbering, ends, pairs = matching.numbering, matching.interface, list(matching.pairs)
    fixed = {i: -1 - i for i, _ in pairs}, {j: -1 - i for i, j in pairs}  # negative numbers, which no other op has
    ancestors, descendants = list[list[int]](), list[list[int]]()
    for s, side in enumerate(matching.sides):
        inputs = {pair[s]: numbering.number(("input", i)) for i, pair in enumerate(ends.inputs)}
        outputs = {v: numbering.number(("output", n)) for v, n in ends.output_indices[s].items()}
        ancestors.append(numbering.upstream_numbers(side, level, inputs, fixed[s]))
        descendants.append(numbering.downstream_numbers(side, level, outputs, fixed[s]))
    matching.match_equal([list(zip(*numbers, strict=True)) for numbers in zip(ancestors, descendants, strict=True)])
    matching.match_equal(ancestors)
    matching.match_equal(descendants)


def _order_key(side: IndexedGraph) -> tuple[int, bytes]:
    """A key that orders two graphs."""
    digest = blake2b()
    for op in side.ops:
        digest.update(repr((op.type, op.name, [v.name for v in op.outputs])).encode("utf-8", "surrogateescape"))
        digest.update(op.proto_bytes or b"")
    return len(side), digest.digest()
