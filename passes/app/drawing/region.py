"""A picture of some ops of a graph: what they read above them, what is read of them below."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ....core import Op, Value
from ....core.trust.region import seen_from_outside
from .picture import Box, Kind, Picture
from .wording import attributes, beginning, contents, ending, op_title, type_of

MOST_INPUTS = 8
"""Of an op that reads more from outside of the picture, as many are drawn, and how many more there are."""


def picture_of(ops: Sequence[Op], marked: Collection[Op] = (), seen: Collection[Value] = ()) -> Picture:
    """The ops with their attributes, constants, inputs and outputs; those `marked` stand out.

    All are of one graph. `seen` are values shown in any case, such as outputs of the graph that no op makes any more.
    Weights of more than a few elements are not read.
    """
    picture = Picture()
    made: dict[Value, int] = {}
    places = {op: picture.add(Box(Kind.OP, op_lines(op), op.label, op in marked)) for op in ops}
    for op, place in places.items():
        made.update(dict.fromkeys(op.outputs, place))
    for op, place in places.items():
        read = [v for v in (*op.inputs, *op.captures) if v is not None]
        fresh = list(dict.fromkeys(v for v in read if v not in made))
        made.update((v, picture.add(source(v))) for v in fresh[:MOST_INPUTS])
        for v in (v for v in read if v in made):
            picture.link(made[v], place, f"{v.name} {type_of(v)}".strip())
        if len(fresh) > MOST_INPUTS:
            picture.link(picture.add(Box(Kind.VALUE, (f"{len(fresh) - MOST_INPUTS} more",))), place)
    for v in seen:
        if v not in made:
            made[v] = picture.add(source(v))
    for v in seen_from_outside(ops[0].graph, ops) if ops else ():
        picture.link(made[v], picture.add(named(v)), type_of(v))
    return picture


def op_lines(op: Op) -> tuple[str, ...]:
    """Its type and attributes."""
    return (ending(op_title(op.domain, op.type)), *map(beginning, attributes(op)))


def source(value: Value) -> Box:
    """What ops read that no op of the picture makes."""
    if value.tensor is None:
        return named(value)
    return Box(Kind.CONSTANT, (ending(value.name), beginning(contents(value.tensor))), value.name)


def named(value: Value) -> Box:
    """A value that comes from outside, or goes there."""
    return Box(Kind.VALUE, tuple(filter(None, (ending(value.name), beginning(type_of(value))))), value.name)
