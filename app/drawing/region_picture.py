"""A picture of some ops of a graph: what they read above them, what is read of them below."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...core import Op, Value
from ...core.ir.subgraphs import enclosing_op
from .picture import Box, BoxKind, Picture
from .picture_text import attribute_lines, cut_end, cut_start, qualified_op_type, tensor_text, type_text

MAX_INPUTS = 8
"""Of an op that reads more from outside of the picture, as many are drawn, and how many more there are."""


@dataclass(frozen=True, slots=True)
class RegionContext:
    """What the ops of a picture stand in.

    `neighbours` are ops that are drawn by their type alone; of what they read from outside of the picture, the values
    that each has here. `excluded` are ops that count as not there. `describe_type` says the type of a value.
    """

    neighbours: Mapping[Op, Collection[Value]] = field(default_factory=dict[Op, Collection[Value]])
    excluded: Collection[Op] = ()
    describe_type: Callable[[Value], str] = type_text


def region_picture(
    ops: Sequence[Op],
    marked: Collection[Op | Value] = (),
    shown_values: Collection[Value] = (),
    context: RegionContext | None = None,
) -> Picture:
    """The ops with their attributes, constants, inputs and outputs; those `marked` stand out.

    `shown_values` are values shown in any case, such as outputs of the graph that no op makes any more.
    Weights of more than a few elements are not read.
    """
    context = context or RegionContext()
    picture = Picture()
    made: dict[Value, int] = {}
    places = {op: picture.add(Box(BoxKind.OP, op_lines(op), op.label, op in marked)) for op in ops}
    places |= {op: picture.add(Box(BoxKind.OP, op_lines(op)[:1], op.label)) for op in context.neighbours}
    for op, place in places.items():
        made.update(dict.fromkeys(op.outputs, place))
    for op, place in places.items():
        read = [v for v in (*op.inputs, *op.captures) if v is not None]
        wanted = context.neighbours.get(op)
        fresh = list(dict.fromkeys(v for v in read if v not in made and (wanted is None or v in wanted)))
        made.update((v, picture.add(_source_box(v, context, v in marked))) for v in fresh[:MAX_INPUTS])
        for v in (v for v in read if v in made):
            picture.link(made[v], place, f"{v.name} {context.describe_type(v)}".strip())
        if len(fresh) > MAX_INPUTS:
            picture.link(picture.add(Box(BoxKind.VALUE, (f"{len(fresh) - MAX_INPUTS} more",))), place)
    for v in shown_values:
        if v not in made:
            made[v] = picture.add(_source_box(v, context, v in marked))
    for v in _region_outputs(ops, context):
        picture.link(made[v], picture.add(_value_box(v, context)), context.describe_type(v))
    return picture


def _region_outputs(ops: Sequence[Op], context: RegionContext) -> Iterator[Value]:
    """What the ops make and others read, or their graph gives out; of the ops around them the latter alone."""
    inside = {*ops, *context.neighbours, *context.excluded}
    for op in ops:
        for v in op.outputs:
            if op.graph.is_output(v) or any(
                user not in inside and not _is_in_body_of(user, op, inside) for user in v.consumers
            ):
                yield v
    for op in context.neighbours:
        yield from filter(op.graph.is_output, op.outputs)


def _is_in_body_of(user: Op, op: Op, ops: Collection[Op]) -> bool:
    """Whether what reads a value of `op` is in a body of one of the ops."""
    return enclosing_op(op.graph, user) in ops


def op_lines(op: Op) -> tuple[str, ...]:
    """Its type and attributes."""
    return (cut_start(qualified_op_type(op.domain, op.type)), *map(cut_end, attribute_lines(op)))


def source_box(value: Value) -> Box:
    """What ops read that no op of the picture makes."""
    return _source_box(value, RegionContext(), marked=False)


def value_box(value: Value) -> Box:
    """A value that comes from outside, or goes there."""
    return _value_box(value, RegionContext())


def _source_box(value: Value, context: RegionContext, marked: bool) -> Box:
    if value.tensor is None:
        return replace(_value_box(value, context), marked=marked)
    return Box(BoxKind.CONSTANT, (cut_start(value.name), cut_end(tensor_text(value.tensor))), value.name, marked)


def _value_box(value: Value, context: RegionContext) -> Box:
    return Box(
        BoxKind.VALUE, tuple(_nonempty(cut_start(value.name), cut_end(context.describe_type(value)))), value.name
    )


def _nonempty(*texts: str) -> Iterable[str]:
    return filter(None, texts)
