"""Pictures of each change of a run, taken just before it is made and just after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ....core import Graph, Op, Value
from ....core.changes import Change
from ....core.ir.moves import Move
from ....core.witness import came, went
from ..drawing.picture import Picture
from .scene import beside, drawn, is_there, makers_of, readers_of

MOST = 20_000
"""The changes that are drawn. Half of it is for the first that come, half is kept for rules that come later."""
SOME, FEW = 50, 3
"""As many of each rule are drawn while there is room for them, and always."""


@dataclass(slots=True)
class _Shot:
    """What the last picture was of: the ops of the change, what they made and held, and what those around read."""

    ops: list[Op]
    made: dict[Value, Graph]
    inner: dict[Op, None]
    around: dict[Op, tuple[Value | None, ...]]
    picture: Picture


@dataclass(slots=True)
class Album:
    """A witness of a run. `pictures` by ordinal, before and after; `fell` are the ops that went with each change."""

    pictures: dict[int, tuple[Picture, Picture]] = field(default_factory=dict[int, tuple[Picture, Picture]])
    fell: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    _by: Counter[str] = field(default_factory=Counter[str])
    _shot: _Shot | None = None

    def before(self, change: Change, replaced: Sequence[Op | Value], moves: Sequence[Move]) -> None:
        """Draw what is about to be replaced; of a pass that did not ask before, what it took away."""
        self._by[change.by] += 1
        self._shot = None
        if self._by[change.by] > self._allowed():
            return
        built = came(moves)
        ops = [op for op in replaced if isinstance(op, Op)] or went(moves)
        values = [v for v in replaced if isinstance(v, Value)]
        readers = [op for v in values for op in readers_of(v)]
        around = dict.fromkeys([*readers, *beside(ops, built)])
        inner = dict.fromkeys(inside for op in ops for g in op.subgraphs for inside in g.ops())
        picture = drawn(ops, {*ops, *values}, dict.fromkeys(around, values), values, built)
        made = {v: op.graph for op in ops for v in op.outputs}
        self._shot = _Shot(ops, made, inner, {op: (*op.inputs, *op.captures) for op in around}, picture)

    def _allowed(self) -> int:
        """The changes of one rule that may be drawn, now that there are so many pictures."""
        if len(self.pictures) < MOST // 2:
            return MOST
        return SOME if len(self.pictures) < MOST else FEW

    def after(self, change: Change, moves: Sequence[Move]) -> None:
        """Draw what was made, in the same surroundings."""
        if fallen := went(moves):
            self.fell[change.ordinal] = tuple(op.label for op in fallen)
        if self._shot is not None:
            self.pictures[change.ordinal] = self._shot.picture, _afterwards(self._shot, came(moves))
            self._shot = None


def _afterwards(shot: _Shot, built: list[Op]) -> Picture:
    homes = {op.graph for op in shot.ops if op in op.graph} | {op.graph for op in shot.around}
    made = [op for op in built if is_there(op)]
    made += [op for op in shot.inner if op.graph in homes and is_there(op)]  # it was in a body, and is not any more
    stayed = [op for op in shot.ops if is_there(op) and op not in made]
    there = [op for op in shot.around if is_there(op) and op not in made]
    freed = {v: graph for v, graph in shot.made.items() if v.producer is None}  # constants by now
    new: dict[Op, Collection[Value]] = {
        op: [v for v in (*op.inputs, *op.captures) if v is not None and (v not in shot.around[op] or v in freed)]
        for op in there
    }
    near = dict.fromkeys([*makers_of(v for values in new.values() for v in values), *beside(made)])
    new |= {op: () for op in near if op not in new and op not in made and op not in stayed and is_there(op)}
    left = [v for v, graph in freed.items() if graph.is_output(v)]
    constants = {v for values in new.values() for v in values if v.tensor is not None}
    return drawn([*made, *stayed], {*made, *constants, *left}, new, left)
