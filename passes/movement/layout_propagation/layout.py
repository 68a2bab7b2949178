"""Layouts, the orders in which the axes of a value are stored, and rewrites of single ops to other layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....core import Op, Value, require
from ....core.operators.operands import full_perm, normalize_axes
from ...support.operand_queries import Array, operand

Layout = tuple[int, ...]


def inverse(layout: Layout) -> Layout:
    """The position of each axis of the value in the layout."""
    return tuple(sorted(range(len(layout)), key=layout.__getitem__))


def compose(first: Sequence[int], second: Sequence[int]) -> Layout:
    """The perm of Transpose(Transpose(x, first), second)."""
    return tuple(first[i] for i in second)


def is_identity(layout: Sequence[int]) -> bool:
    """Whether nothing is moved."""
    return all(place == axis for place, axis in enumerate(layout))


def renumbered(order: Sequence[int]) -> Layout:
    """`order` with its numbers replaced by 0, 1, 2 ... in their order of size: the layout of the axes that are left."""
    rank_of = {axis: i for i, axis in enumerate(sorted(order))}
    return tuple(rank_of[axis] for axis in order)


def perm_of(transpose: Op) -> Layout | None:
    """The perm of a Transpose; None where its default is unknown, or where it is not a permutation."""
    x: Value | None = transpose.input(0)
    perm = transpose.attr("perm")
    if not perm:
        shape = x.known_shape if x is not None else None
        return None if shape is None else tuple(full_perm(perm, len(shape)))
    return tuple(perm) if sorted(perm) == list(range(len(perm))) else None


Layouts = tuple[Layout | None, ...]


@dataclass(frozen=True, slots=True)
class LayoutRewrite:
    """An op in other layouts of its inputs and outputs; None keeps the layout.

    `unsqueezed_axes`: axes by which an operand of lower rank is unsqueezed first. `attrs` and `constants` (by input)
    replace the present ones. `swap_inputs`: the first two inputs change places. `gather_order`: the result, a shape, is
    put in order with a Gather. `extra_nodes`: the number of nodes that this takes besides the op.
    """

    input_layouts: Layouts
    output_layouts: Layouts
    exact: bool = True
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    constants: Mapping[int, Array] = field(default_factory=dict[int, Array])
    unsqueezed_axes: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    swap_inputs: bool = False
    gather_order: Layout | None = None
    extra_nodes: int = 0


@dataclass(frozen=True, slots=True)
class LayoutRequest:
    """An op with the layout of one input or (as ~0, ~1, ...) output given."""

    op: Op
    index: int
    layout: Layout

    def layout_at(self, inputs: Sequence[int] = (0,), outputs: Sequence[int] = (0,)) -> Layout:
        """The given layout; declines unless one of these inputs or outputs, all of one rank, has it."""
        require(self.index in inputs or ~self.index in outputs, "the layout does not depend on that of this operand")
        return self.layout

    def rewrite(self, inputs: Mapping[int, Layout], outputs: Mapping[int, Layout], **rest: Any) -> LayoutRewrite:
        """The rewrite with these layouts; all other values keep theirs."""
        return LayoutRewrite(_layouts_of(inputs, self.op.inputs), _layouts_of(outputs, self.op.outputs), **rest)


def _layouts_of(layouts: Mapping[int, Layout], values: Sequence[Value | None]) -> Layouts:
    """The layouts of values, None for those that keep theirs or are left out."""
    wanted = (layouts.get(i) if v is not None and v.name else None for i, v in enumerate(values))
    return tuple(None if own is None or is_identity(own) else own for own in wanted)


def axes_in_layout(axes: Sequence[int], layout: Layout) -> list[int]:
    """The positions of `axes` in a layout, in the order given."""
    places = inverse(layout)
    return [places[a] for a in normalize_axes(list(axes), len(layout))]


def constant_input(op: Op, index: int) -> list[int]:
    """A constant input as a list of integers."""
    return [int(i) for i in operand(op, index).const.reshape(-1)]


def attribute_or_constant(op: Op, name: str, index: int, numbers: Sequence[int]) -> dict[str, Any]:
    """`numbers` as the attribute or the constant of a `LayoutRewrite`, whichever the operator takes."""
    spec = op.schema
    if spec is not None and name in spec.attributes:
        return {"attrs": {name: list(numbers)}}
    return {"constants": {index: np.asarray(numbers, np.int64)}}
