"""The surroundings of a change in the graph: the ops that it is about, and those next to them.

Pictures of each change of a run, taken just before it is made and just after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ...core import Graph, Op, Value
from ...core.ir.mutation_log import Move
from ...core.ir.subgraphs import holder
from ...core.rewriting.changes import Change
from ...core.rewriting.driver import is_seen
from ...core.rewriting.observer import came, went
from ..drawing.picture import Box, Kind, Picture
from ..drawing.picture_text import stated_type
from ..drawing.region_picture import Setting, picture_of

MOST_OPS = 24
"""The ops of a picture; of a larger region, how many more there are."""
MOST_BESIDE = 4
"""Of what reads one value, as many are drawn; a constant or shape may be read everywhere."""


def is_there(op: Op) -> bool:
    """Whether an op stands in its graph, and anything looks at what it makes."""
    return op in op.graph and (not op.outputs or is_seen(op))


def beside(ops: Collection[Op], unseen: Collection[Op] = ()) -> list[Op]:
    """What feeds the ops and what reads of them, as far as there is room for it in a picture."""
    inside = {*ops, *unseen}
    found = dict.fromkeys(op for op in _beside(ops) if op not in inside)
    return list(islice(filter(is_there, found), max(MOST_OPS - len(ops), 0)))


def _beside(ops: Iterable[Op]) -> Iterator[Op]:
    for op in ops:
        yield from makers_of((*op.inputs, *op.captures))
        for v in op.outputs:
            yield from islice(readers_of(v, op), MOST_BESIDE)


def makers_of(values: Iterable[Value | None]) -> Iterator[Op]:
    """The ops that make them."""
    for v in values:
        if v is not None and v.producer is not None:
            yield v.producer


def readers_of(value: Value, maker: Op | None = None) -> Iterator[Op]:
    """The ops that read a value; what is in a body stands for the op of the maker's graph that holds it."""
    for user in value.uses:
        outer = holder(maker.graph, user) if maker is not None else user
        if outer is not None:
            yield outer


def drawn(
    ops: Collection[Op],
    marked: Collection[Op | Value],
    around: dict[Op, Collection[Value]],
    seen: Collection[Value] = (),
    unseen: Collection[Op] = (),
) -> Picture:
    """The picture, which says so where there is more, or nothing."""
    shown = list(islice(ops, MOST_OPS))
    room = dict(islice(_linked(shown, around).items(), MOST_OPS - len(shown)))
    hidden = {*unseen, *islice(ops, MOST_OPS, None)}
    picture = picture_of(shown, marked, list(islice(seen, MOST_OPS)), Setting(room, hidden, stated_type))
    if len(ops) > MOST_OPS:
        picture.add(Box(Kind.VALUE, (f"and {len(ops) - MOST_OPS} more ops",)))
    if not picture.boxes:
        picture.add(Box(Kind.VALUE, ("nothing is left here",)))
    return picture


def _linked(ops: Collection[Op], around: dict[Op, Collection[Value]]) -> dict[Op, Collection[Value]]:
    """Those around that have a line to something; all, if there would be nothing to see without them."""
    made = {v for op in (*ops, *around) for v in op.outputs}
    read = {v for op in (*ops, *around) for v in (*op.inputs, *op.captures)}
    linked = {
        op: values
        for op, values in around.items()
        if values or not read.isdisjoint(op.outputs) or not made.isdisjoint((*op.inputs, *op.captures))
    }
    return linked if ops or linked else around


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
