"""What each change of a run saves: what moves in the graph, booked to the change that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..ir.mutation_log import Move, Moves
from ..ir.op import Op
from ..ir.values import Value
from .changes import Change, Key
from .observer import Watch, came


@dataclass(slots=True)
class Scales:
    """Books `moves` to changes, which are all kept, so that their ordinals are their places in the list.

    What moves after a change is asked for, and before the next, is part of it; so is what was built for it, since it
    was begun. What goes later, as a pass tidies up at its end, belongs to the change of that pass which named it.
    `watch`: someone looks on.
    """

    moves: Moves = field(default_factory=Moves)
    watch: Watch | None = None
    _begun: tuple[Key, int] | None = None  # who was last about to make a change, and how many moves came before
    _named: dict[Op, int] = field(default_factory=dict[Op, int])
    _pass: str = ""

    def begin(self, key: Key) -> None:
        """Note who is about to make a change."""
        self._end()
        self._begun = key, len(self.moves.noted)

    def book(self, changes: list[Change], upcoming: Key | None = None) -> None:
        """Book what has moved, but for what was built for the change that comes next, if any."""
        self._end()
        count = self._begun[1] if self._begun is not None and self._begun[0] == upcoming else None
        taken, self._begun = self.moves.take(count), None
        booked: dict[int, list[Move]] = {}
        at = last = len(changes) - 1
        for move in taken:
            if move.op is not None:
                at = self._named.get(move.op, at) if move.nodes < 0 else last
            booked.setdefault(at, []).append(move)
        for ordinal, moves in booked.items() if changes else ():
            changes[ordinal] = _weighed(changes[ordinal], moves)

    def name(self, change: Change, replaced: Sequence[Op | Value]) -> None:
        """Note which ops a change named; they may go later."""
        if self.watch is not None:
            self.watch.begin(change, replaced, self.moves.noted)
        if change.pass_name != self._pass:
            self._pass = change.pass_name
            self._named.clear()
        self._named.update((op, change.ordinal) for op in replaced if isinstance(op, Op))

    def _end(self) -> None:
        if self.watch is not None:
            self.watch.end(self.moves.noted)


def _weighed(change: Change, moves: Sequence[Move]) -> Change:
    """The change with what moved in it; an op that came and went again was never made."""
    nodes = nbytes = 0
    for move in moves:
        nodes, nbytes = nodes - move.nodes, nbytes - move.nbytes
    return replace(
        change,
        made=(*change.made, *(op.label for op in came(moves))),
        nodes_saved=change.nodes_saved + nodes,
        weight_bytes_saved=change.weight_bytes_saved + nbytes,
    )
