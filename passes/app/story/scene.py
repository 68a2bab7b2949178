"""The surroundings of a change in the graph: the ops that it is about, and those next to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from ....core import Op, Value
from ....core.ir.nesting import holder
from ....core.rewrite import is_seen
from ..drawing.picture import Box, Kind, Picture
from ..drawing.region import Setting, picture_of
from ..drawing.wording import stated_type

MOST = 24
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
    return list(islice(filter(is_there, found), max(MOST - len(ops), 0)))


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
    shown = list(islice(ops, MOST))
    room = dict(islice(_linked(shown, around).items(), MOST - len(shown)))
    hidden = {*unseen, *islice(ops, MOST, None)}
    picture = picture_of(shown, marked, list(islice(seen, MOST)), Setting(room, hidden, stated_type))
    if len(ops) > MOST:
        picture.add(Box(Kind.VALUE, (f"and {len(ops) - MOST} more ops",)))
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
