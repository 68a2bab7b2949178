"""Things that belong together.

What has no partner, in connected pieces, each with the values at its rim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ...core.ir.values import Value
from .edge_matching import Agreement, Rim, Tie

T = TypeVar("T", bound=tuple[int, ...])


class Partition(Generic[T]):
    """Disjoint sets that are joined; the least member stands for a set.

    Source: Galler and Fischer, "An Improved Equivalence Algorithm", 1964.
    """

    def __init__(self) -> None:
        self._above: dict[T, T] = {}

    def root(self, x: T) -> T:
        """What stands for the set of `x`."""
        path = [x]
        while (up := self._above.get(path[-1], path[-1])) != path[-1]:
            path.append(up)
        self._above.update(dict.fromkeys(path[:-1], path[-1]))
        return path[-1]

    def join(self, x: T, y: T) -> bool:
        """Make one set of two; False if they are one already."""
        x, y = sorted((self.root(x), self.root(y)))
        if x != y:
            self._above[y] = x
        return x != y


Node = tuple[int, int]  # a side, and the number of an op of it
Placed = tuple[int, Value]  # a side, and a value of it
LARGE = 32  # ops, from which on a piece is cut where several parts of it read one value


@dataclass(slots=True)
class Piece:
    """Ops without a partner, by number, of each graph; `reads` and `writes` are values at the rim in both graphs."""

    ops: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    reads: dict[Rim, None] = field(default_factory=dict[Rim, None])
    writes: dict[Rim, None] = field(default_factory=dict[Rim, None])


class Pieces:
    """Joins open ops that touch each other, and those of the two graphs whose results stand in the same places."""

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self._nodes = [(side, i) for side in (0, 1) for i in agreement.found.open(side)]
        self._rims = list(self._all_rims())
        self._seen: dict[Placed, dict[Rim, None]] = {}
        for rim in self._rims:
            for side, v in enumerate(rim):
                if v is not None:
                    self._seen.setdefault((side, v), {})[rim] = None
        self._cuts = dict(self._corresponding())
        self._parts = self._joined()

    def found(self) -> list[tuple[float, Piece]]:
        """The pieces in order, each with its place among the ops of the first graph."""
        pieces: dict[Node, Piece] = {}
        for node in self._nodes:
            piece = pieces.setdefault(self._parts.root(node), Piece())
            piece.ops[node[0]].append(node[1])
            for rim in self._read(*node):
                piece.reads[rim] = None
                for maker in self._makers(rim)[:1]:
                    pieces.setdefault(self._parts.root(maker), Piece()).writes[rim] = None
        for rim in self._shown():
            for maker in self._makers(rim)[:1]:
                pieces[self._parts.root(maker)].writes[rim] = None
        return [(self._position(piece)[0], piece) for piece in sorted(pieces.values(), key=self._position)]

    # -- what belongs together ---------------------------------------------------------

    def _joined(self) -> Partition[Node]:
        """The open ops, joined: all that touch, but for what makes a piece too large to be read as one."""
        whole, parts = self._ends_joined(), self._ends_joined()
        for node in self._nodes:
            for maker in self._made_for(*node):
                whole.join(node, maker)
        sizes = Counter(map(whole.root, self._nodes))
        large = [node for node in self._nodes if sizes[whole.root(node)] >= LARGE]
        for node in self._nodes:
            for maker in self._made_for(*node) if sizes[whole.root(node)] < LARGE else ():
                parts.join(node, maker)
        while sum(self._join_readers(parts, node) for node in reversed(large)):
            pass
        return parts

    def _ends_joined(self) -> Partition[Node]:
        """Ops of the two graphs joined where their results stand in the same place."""
        parts = Partition[Node]()
        for rim in self._shown():
            makers = self._makers(rim)
            if len(makers) == 2:
                parts.join(*makers)
        return parts

    def _join_readers(self, parts: Partition[Node], node: Node) -> bool:
        """Join an op to those that read it if they are of one part and nothing else sees it. False if that is so."""
        side, here = node[0], self.agreement.found.sides[node[0]]
        outputs = here.ops[node[1]].outputs
        if any((side, v) in self._seen or (side, v) in self._cuts for v in outputs):
            return False
        partners = self.agreement.found.partners[side]
        readers = {parts.root((side, u)) for v in outputs for u, _ in here.read.get(v, ()) if partners[u] is None}
        return len(readers) == 1 and parts.join(node, readers.pop())

    def _made_for(self, side: int, i: int) -> Iterator[Node]:
        """The open ops of which an open op reads something that has nothing to correspond to."""
        for v, _ in self.agreement.found.sides[side].reads(i):
            maker = self._open_maker(side, v)
            if maker is not None and (side, v) not in self._cuts:
                yield maker

    # -- values at the rims ------------------------------------------------------------

    def _shown(self) -> Iterable[Rim]:
        """What pieces show to others in both graphs."""
        return (*self._rims, *self._cuts.values())

    def _corresponding(self) -> Iterator[tuple[Placed, Rim]]:
        """Values among open ops that correspond: read by matched ops in one place, or of one name.

        A name counts only where nothing that is matched says otherwise.
        """
        made: tuple[dict[str, Value], dict[str, Value]] = ({}, {})
        for side, i in self._nodes:
            made[side].update((v.name, v) for v in self.agreement.found.sides[side].ops[i].outputs if v.name)
        named = ((v, made[1][name]) for name, v in made[0].items() if name in made[1])
        both_open = (rim for rim in self._rims if len(self._makers(rim)) == 2)
        for v, w in (*both_open, *named):
            if v is not None and w is not None and self._is_all(0, v, (v, w)) and self._is_all(1, w, (v, w)):
                yield (0, v), (v, w)
                yield (1, w), (v, w)

    def _is_all(self, side: int, v: Value, rim: Rim) -> bool:
        """Whether a value is seen as nothing else, if at all."""
        return self._seen.get((side, v), {rim: None}).keys() == {rim}

    def _all_rims(self) -> Iterator[Rim]:
        """Values in the same place of matched ops, or among the outputs, of which one is made by an open op."""
        agreement = self.agreement
        for i, j in agreement.found.pairs:
            for rim in agreement.slots(i, j):
                if self._makers(rim) and agreement.tie(*rim) is not Tie.SAME:
                    yield rim
            yield from (rim for rim in agreement.captured(i, j) if self._makers(rim))
        yield from (rim for rim in agreement.ends.outputs if self._makers(rim))
        for side in (0, 1):
            here = agreement.found.sides[side]
            paired = agreement.ends.places[side]
            for v in here.graph.outputs:
                if v not in paired and self._open_maker(side, v) is not None:
                    yield (v, None) if side == 0 else (None, v)

    def _makers(self, rim: Rim) -> list[Node]:
        makers = (self._open_maker(side, v) for side, v in enumerate(rim))
        return [m for m in makers if m is not None]

    def _open_maker(self, side: int, v: Value | None) -> Node | None:
        i = self.agreement.found.sides[side].maker(v)
        return (side, i) if i is not None and self.agreement.found.partners[side][i] is None else None

    def _read(self, side: int, i: int) -> Iterator[Rim]:
        """What an open op reads that is no constant and not made in its own piece."""
        for v, _ in self.agreement.found.sides[side].reads(i):
            maker = self._open_maker(side, v)
            if (side, v) in self._cuts:
                yield self._cuts[side, v]
            elif maker is None and v not in self.agreement.contents:
                other = self.agreement.partner(side, v)
                yield (v, other) if side == 0 else (other, v)
            elif maker is not None and self._parts.root(maker) != self._parts.root((side, i)):
                yield self._as_seen(side, v)

    def _as_seen(self, side: int, v: Value) -> Rim:
        """What stands for a value in the other graph, if that is one thing."""
        rims = [*self._seen.get((side, v), ())]
        if len(rims) == 1:
            return rims[0]
        return (v, None) if side == 0 else (None, v)

    def _position(self, piece: Piece) -> tuple[float, int]:
        """Where the first graph has the piece, or what it hangs on; then where the second has it."""
        a, b = self.agreement.found.sides
        first = min(piece.ops[0], default=None)
        behind = [m for v, _ in piece.reads if (m := a.maker(v)) is not None]
        at = first if first is not None else max(behind, default=-1) + 0.5
        return at, min(piece.ops[1], default=len(b))
