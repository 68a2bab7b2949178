"""What has no partner, in connected pieces, each with the values at its rim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..ir.values import Value
from .agreement import Agreement, Rim, Tie

Node = tuple[int, int]  # a side, and the number of an op of it


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
        self._roots: dict[Node, Node] = {}
        self._cuts: dict[tuple[int, Value], Rim] = {}

    def found(self) -> list[tuple[float, Piece]]:
        """The pieces in order, each with its place among the ops of the first graph."""
        nodes = [(side, i) for side in (0, 1) for i in self.agreement.found.open(side)]
        rims = list(self._rims())
        self._cut(nodes, rims)
        for side, i in nodes:
            for v, _ in self.agreement.found.sides[side].reads(i):
                maker = self._open_maker(side, v)
                if maker is not None and (side, v) not in self._cuts:
                    self._join((side, i), maker)
        for rim in (*rims, *self._cuts.values()):
            makers = self._makers(rim)
            if len(makers) == 2:
                self._join(*makers)
        pieces: dict[Node, Piece] = {}
        for node in nodes:
            piece = pieces.setdefault(self._root(node), Piece())
            piece.ops[node[0]].append(node[1])
            piece.reads.update(dict.fromkeys(self._read(*node)))
        for rim in (*rims, *self._cuts.values()):
            for maker in self._makers(rim)[:1]:
                pieces[self._root(maker)].writes[rim] = None
        return [(self._position(piece)[0], piece) for piece in sorted(pieces.values(), key=self._position)]

    def _cut(self, nodes: list[Node], rims: list[Rim]) -> None:
        """Find values among open ops that correspond: read by matched ops in one place, or of one name.

        A name counts only where nothing that is matched says otherwise.
        """
        seen: dict[tuple[int, Value], set[Rim]] = {}
        for rim in rims:
            for side, v in enumerate(rim):
                if v is not None:
                    seen.setdefault((side, v), set()).add(rim)
        made: tuple[dict[str, Value], dict[str, Value]] = ({}, {})
        for side, i in nodes:
            made[side].update((v.name, v) for v in self.agreement.found.sides[side].ops[i].outputs if v.name)
        named = ((v, made[1][name]) for name, v in made[0].items() if name in made[1])
        both_open = (rim for rim in rims if len(self._makers(rim)) == 2)
        for v, w in (*both_open, *named):
            if v is not None and w is not None and seen.get((0, v), {(v, w)}) == seen.get((1, w), {(v, w)}) == {(v, w)}:
                self._cuts[0, v] = self._cuts[1, w] = (v, w)

    def _rims(self) -> Iterator[Rim]:
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
            if (side, v) in self._cuts:
                yield self._cuts[side, v]
            elif v not in self.agreement.contents and self._open_maker(side, v) is None:
                other = self.agreement.partner(side, v)
                yield (v, other) if side == 0 else (other, v)

    def _position(self, piece: Piece) -> tuple[float, int]:
        """Where the first graph has the piece, or what it hangs on; then where the second has it."""
        a, b = self.agreement.found.sides
        first = min(piece.ops[0], default=None)
        behind = [m for v, _ in piece.reads if (m := a.maker(v)) is not None]
        at = first if first is not None else max(behind, default=-1) + 0.5
        return at, min(piece.ops[1], default=len(b))

    def _root(self, node: Node) -> Node:
        path = [node]
        while (up := self._roots.get(path[-1], path[-1])) != path[-1]:
            path.append(up)
        self._roots.update(dict.fromkeys(path[:-1], path[-1]))
        return path[-1]

    def _join(self, x: Node, y: Node) -> None:
        """Put two ops into one piece."""
        x, y = sorted((self._root(x), self._root(y)))
        if x != y:
            self._roots[y] = x
