"""Pictures of ops, with inputs at the top and outputs at the bottom."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from ...core import Op, Value
from ...core.ir.graph import enclosing_op
from ...core.ir.op_schemas import qualified_op_type
from .picture import Box, BoxKind, Picture
from .picture_text import attribute_lines, cut_end, cut_start, tensor_text, type_text

MAX_INPUTS = 8
"""The number of inputs from outside the picture that are drawn for an op; further ones are only counted."""


def region_picture(
    ops: Sequence[Op],
    marked: Collection[Op | Value] = (),
    shown_values: Collection[Value] = (),
    neighbours: Mapping[Op, Collection[Value]] | None = None,
    excluded: Collection[Op] = (),
    *,
    declared: bool = False,
) -> Picture:
    """Draw ops with their attributes, constants, inputs and outputs; those `marked` are highlighted.

    `shown_values` are always shown, for example graph outputs that no op produces any more. `neighbours` are drawn only
    with their type, each with the given inputs from outside the picture. `excluded` ops are not counted as consumers.
    `declared`: show no inferred types. Weights of more than a few elements are not read.
    """
    neighbours = neighbours or {}
    picture = Picture()
    made: dict[Value, int] = {}
    indices = {op: picture.add(Box(BoxKind.OP, op_lines(op), op.label, op in marked)) for op in ops}
    indices |= {op: picture.add(Box(BoxKind.OP, op_lines(op)[:1], op.label)) for op in neighbours}
    for op, index in indices.items():
        made.update(dict.fromkeys(op.outputs, index))
    for op, index in indices.items():
        read = [v for v in (*op.inputs, *op.captures) if v is not None]
        wanted = neighbours.get(op)
        fresh = list(dict.fromkeys(v for v in read if v not in made and (wanted is None or v in wanted)))
        made.update((v, picture.add(source_box(v, v in marked, declared))) for v in fresh[:MAX_INPUTS])
        for v in (v for v in read if v in made):
            picture.link(made[v], index, f"{v.name} {type_text(v, declared=declared)}".strip())
        if len(fresh) > MAX_INPUTS:
            picture.link(picture.add(Box(BoxKind.VALUE, (f"{len(fresh) - MAX_INPUTS} more",))), index)
    for v in shown_values:
        if v not in made:
            made[v] = picture.add(source_box(v, v in marked, declared))
    for v in _region_outputs(ops, neighbours, {*ops, *neighbours, *excluded}):
        picture.link(made[v], picture.add(value_box(v, declared)), type_text(v, declared=declared))
    return picture


def _region_outputs(ops: Iterable[Op], neighbours: Iterable[Op], inside: Collection[Op]) -> Iterator[Value]:
    """Yield the results of ops that other ops read or the graph outputs; for neighbours, only the graph outputs."""
    for op in ops:
        for v in op.outputs:
            if op.graph.is_output(v) or any(
                user not in inside and enclosing_op(op.graph, user) not in inside for user in v.consumers
            ):
                yield v
    for op in neighbours:
        yield from filter(op.graph.is_output, op.outputs)


def op_lines(op: Op) -> tuple[str, ...]:
    """The type and attributes of an op."""
    return (cut_start(qualified_op_type(op.domain, op.type)), *map(cut_end, attribute_lines(op)))


def source_box(value: Value, marked: bool = False, declared: bool = False) -> Box:
    """A value without a producer in the picture: a constant with its elements, or an input."""
    if value.tensor is None:
        return replace(value_box(value, declared), marked=marked)
    return Box(BoxKind.CONSTANT, (cut_start(value.name), cut_end(tensor_text(value.tensor))), value.name, marked)


def value_box(value: Value, declared: bool = False) -> Box:
    """An input or output of the picture, with its type."""
    lines = cut_start(value.name), cut_end(type_text(value, declared=declared))
    return Box(BoxKind.VALUE, tuple(filter(None, lines)), value.name)
