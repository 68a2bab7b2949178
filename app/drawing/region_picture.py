"""A picture of some ops of a graph: what they read above them, what is read of them below."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...core import Op, Value
from ...core.ir.subgraphs import holder
from .picture import Box, Kind, Picture
from .picture_text import attributes, beginning, contents, ending, op_title, type_of

MOST_INPUTS = 8
"""Of an op that reads more from outside of the picture, as many are drawn, and how many more there are."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What the ops of a picture stand in.

    `around` are ops that are drawn by their type alone; of what they read from outside of the picture, the values
    that each has here. `unseen` are ops that count as not there. `told` says the type of a value.
    """

    around: Mapping[Op, Collection[Value]] = field(default_factory=dict[Op, Collection[Value]])
    unseen: Collection[Op] = ()
    told: Callable[[Value], str] = type_of


def picture_of(
    ops: Sequence[Op],
    marked: Collection[Op | Value] = (),
    seen: Collection[Value] = (),
    setting: Setting | None = None,
) -> Picture:
    """The ops with their attributes, constants, inputs and outputs; those `marked` stand out.

    `seen` are values shown in any case, such as outputs of the graph that no op makes any more.
    Weights of more than a few elements are not read.
    """
    setting = setting or Setting()
    picture = Picture()
    made: dict[Value, int] = {}
    places = {op: picture.add(Box(Kind.OP, op_lines(op), op.label, op in marked)) for op in ops}
    places |= {op: picture.add(Box(Kind.OP, op_lines(op)[:1], op.label)) for op in setting.around}
    for op, place in places.items():
        made.update(dict.fromkeys(op.outputs, place))
    for op, place in places.items():
        read = [v for v in (*op.inputs, *op.captures) if v is not None]
        wanted = setting.around.get(op)
        fresh = list(dict.fromkeys(v for v in read if v not in made and (wanted is None or v in wanted)))
        made.update((v, picture.add(_source(v, setting, v in marked))) for v in fresh[:MOST_INPUTS])
        for v in (v for v in read if v in made):
            picture.link(made[v], place, f"{v.name} {setting.told(v)}".strip())
        if len(fresh) > MOST_INPUTS:
            picture.link(picture.add(Box(Kind.VALUE, (f"{len(fresh) - MOST_INPUTS} more",))), place)
    for v in seen:
        if v not in made:
            made[v] = picture.add(_source(v, setting, v in marked))
    for v in _given_out(ops, setting):
        picture.link(made[v], picture.add(_named(v, setting)), setting.told(v))
    return picture


def _given_out(ops: Sequence[Op], setting: Setting) -> Iterator[Value]:
    """What the ops make and others read, or their graph gives out; of the ops around them the latter alone."""
    inside = {*ops, *setting.around, *setting.unseen}
    for op in ops:
        for v in op.outputs:
            if op.graph.is_output(v) or any(user not in inside and not _is_in(user, op, inside) for user in v.uses):
                yield v
    for op in setting.around:
        yield from filter(op.graph.is_output, op.outputs)


def _is_in(user: Op, op: Op, ops: Collection[Op]) -> bool:
    """Whether what reads a value of `op` is in a body of one of the ops."""
    return holder(op.graph, user) in ops


def op_lines(op: Op) -> tuple[str, ...]:
    """Its type and attributes."""
    return (ending(op_title(op.domain, op.type)), *map(beginning, attributes(op)))


def source(value: Value) -> Box:
    """What ops read that no op of the picture makes."""
    return _source(value, Setting(), marked=False)


def named(value: Value) -> Box:
    """A value that comes from outside, or goes there."""
    return _named(value, Setting())


def _source(value: Value, setting: Setting, marked: bool) -> Box:
    if value.tensor is None:
        return replace(_named(value, setting), marked=marked)
    return Box(Kind.CONSTANT, (ending(value.name), beginning(contents(value.tensor))), value.name, marked)


def _named(value: Value, setting: Setting) -> Box:
    return Box(Kind.VALUE, tuple(_words(ending(value.name), beginning(setting.told(value)))), value.name)


def _words(*texts: str) -> Iterable[str]:
    return filter(None, texts)
