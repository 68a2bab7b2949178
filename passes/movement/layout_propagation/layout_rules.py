"""Layouts, the orders in which the axes of a value are stored, and rewrites of single ops to other layouts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import Struct, field
from onnx import TensorProto, helper

from ....core import MatchFailure, Op, Value, broadcasts_to, require, same_extent
from ....core.ir.dtypes import DISCRETE_TYPES, FLOATS
from ....core.ir.expressions import Dim, Shape
from ....core.operators.declaration import Trait
from ....core.operators.effects import writes_inputs
from ....core.operators.operands import full_perm, normalize_axes, normalized_axis
from ....core.operators.table import ops_with
from ...support.operand_queries import Array, are_in_range, constant_numbers, known, operand, require_numpy_broadcasting

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


def perm_of(transpose: Op) -> Layout | None:
    """The perm of a Transpose; None where its default is unknown, or where it is not a permutation."""
    x: Value | None = transpose.input(0)
    perm = transpose.attr("perm")
    if not perm:
        shape = x.known_shape if x is not None else None
        return None if shape is None else tuple(full_perm(perm, len(shape)))
    return tuple(perm) if sorted(perm) == list(range(len(perm))) else None


Layouts = tuple[Layout | None, ...]


class LayoutRewrite(Struct, frozen=True):
    """An op in other layouts of its inputs and outputs; None keeps the layout.

    `unsqueezed_axes`: axes by which an operand of lower rank is unsqueezed first. `attrs` and `constants` (by input)
    replace the present attributes and constants. `swap_inputs`: the first two inputs change places. `gather_order`: the
    result, a shape, is put in order with a Gather. `extra_nodes`: the number of nodes that this takes besides the op.
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


class LayoutRequest(Struct, frozen=True):
    """An op with the layout of one input or (as ~0, ~1, ...) output given."""

    op: Op
    index: int
    layout: Layout

    def layout_at(self, inputs: Sequence[int] = (0,), outputs: Sequence[int] = (0,)) -> Layout:
        """The given layout; declines unless one of these inputs or outputs, all of one rank, has it."""
        require(self.index in inputs or ~self.index in outputs, "no layout follows from the layout of this operand")
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


ELEMENTWISE_OPS = ops_with(Trait.ELEMENTWISE)
BROADCASTING_OPS = ops_with(Trait.BROADCASTING) | {"PRelu"}
EXACT_OPS = ops_with(Trait.LAYOUT_INVARIANT)  # others differ in the last bit when elements change places
# Casts to these give other numbers beyond the range where onnxruntime has fewer elements left than it takes at once.
WRAPPING_CAST_TYPES = frozenset({TensorProto.UINT32, TensorProto.UINT64})


def same_layout(op: Op, layout: Layout, **rest: Any) -> LayoutRewrite:
    """The rewrite of an op whose first input and first output have the same layout."""
    return LayoutRequest(op, 0, layout).rewrite({0: layout}, {0: layout}, **rest)


def unary(op: Op, layout: Layout) -> LayoutRewrite:
    """Op(x) in the layout of x; its other operands are numbers."""
    wraps = op.type in {"Cast", "CastLike"} and op.outputs[0].dtype in WRAPPING_CAST_TYPES
    require(not wraps, "onnxruntime casts out-of-range numbers differently in vectorized code")
    return same_layout(op, layout, exact=op.type in EXACT_OPS)


def dropout(request: LayoutRequest) -> LayoutRewrite:
    """Dropout outside training, its mask included."""
    require(request.op.version >= 7, "it may drop elements")
    mode = request.op.input(2)
    require(mode is None or (mode.is_const and not mode.const.any()), "it may drop elements")
    layout = request.layout_at(outputs=(0, 1))
    return request.rewrite({0: layout}, {0: layout, 1: layout})


def broadcasting(request: LayoutRequest) -> LayoutRewrite:
    """Op(a, b, ...) in the layout of the result; operands of lower rank are moved and unsqueezed into theirs."""
    op = request.op
    require_numpy_broadcasting(op.version)
    values = [(i, v) for i, v in enumerate(op.inputs) if v is not None]
    rank = max(v.rank for _, v in values)
    lead = rank - len(request.layout)
    layout = (*range(lead), *(lead + axis for axis in request.layout))
    wanted: dict[int, Layout] = {}
    spread: dict[int, tuple[int, ...]] = {}
    for i, v in values:
        wanted[i], holes = broadcast_layout(v, layout)
        if holes:
            spread[i] = holes
    extra = sum(not v.is_const for i, v in values if i in spread)
    return request.rewrite(wanted, {0: layout}, unsqueezed_axes=spread, extra_nodes=extra, exact=op.type in EXACT_OPS)


def broadcast_layout(value: Value, layout: Layout) -> tuple[Layout, tuple[int, ...]]:
    """The layout of an operand that is broadcast to a value in `layout`, and the axes to unsqueeze."""
    rank = value.rank
    plain = tuple(range(rank))
    if all(d == 1 for d in value.shape) and (value.producer is None or rank < len(layout)):
        return plain, ()
    places = inverse(layout)[len(layout) - rank :]
    order = sorted(plain, key=places.__getitem__)
    first = min(places)
    holes = tuple(i - first for i in range(first, len(layout)) if i not in places)
    return tuple(order), holes


def _axis_attribute(op: Op, layout: Layout, default: int) -> dict[str, int]:
    """The attribute `axis` for a value in `layout`."""
    return {"axis": axes_in_layout([op.attr("axis", default)], layout)[0]}


def softmax(op: Op, layout: Layout) -> LayoutRewrite:
    """Softmax and LogSoftmax: along one axis; before opset 13, along that axis and all after it."""
    if op.version >= 13:
        return same_layout(op, layout, attrs=_axis_attribute(op, layout, -1), exact=False)
    start = normalized_axis(op, len(layout), 1)
    tail = range(start, len(layout))
    require(sorted(layout[start:]) == list(tail), "the axes from one on are reduced together")
    return same_layout(op, layout, exact=False)


def along_axis(request: LayoutRequest) -> LayoutRewrite:
    """Concat, GatherElements, LpNormalization, Split and TopK: all operands and results in one layout."""
    op = request.op
    require(op.type != "Concat" or "axis" in op.attrs, "the axis is missing")
    inputs = range({"Concat": len(op.inputs), "GatherElements": 2}.get(op.type, 1))
    outputs = range(len(op.outputs))
    layout = request.layout_at(inputs, outputs)
    attrs = _axis_attribute(op, layout, -1 if op.type in {"LpNormalization", "TopK"} else 0)
    wanted, made = dict.fromkeys(inputs, layout), dict.fromkeys(outputs, layout)
    return request.rewrite(wanted, made, attrs=attrs, exact=op.type != "LpNormalization")


def quantize(op: Op, layout: Layout) -> LayoutRewrite:
    """QuantizeLinear and DequantizeLinear, of a whole tensor or along an axis, not in blocks."""
    scale = operand(op, 1)
    require(not op.attr("block_size"), "the quantization is blocked")
    if scale.rank == 0 or op.version < 13:
        require(all(d == 1 for d in scale.shape), "it has one scale per channel")
        return same_layout(op, layout)
    require(scale.rank == 1, "the quantization is blocked")
    if scale.shape == (1,) and not -len(layout) <= op.attr("axis", 1) < len(layout):
        return same_layout(op, layout)
    return same_layout(op, layout, attrs=_axis_attribute(op, layout, 1))


def cum_sum(op: Op, layout: Layout) -> LayoutRewrite:
    """CumSum along a constant axis."""
    (axis,) = axes_in_layout(constant_input(op, 1), layout)
    kind = operand(op, 1).const
    return same_layout(op, layout, constants={1: np.full(kind.shape, axis, kind.dtype)}, exact=False)


def layer_norm(request: LayoutRequest) -> LayoutRewrite:
    """LayerNormalization and RMSNormalization, over last axes that stay where they are."""
    op, layout = request.op, request.layout_at((0,), (0, 1, 2))
    start = normalized_axis(op, len(layout), -1)
    require(layout[start:] == tuple(range(start, len(layout))), "it normalizes the last axes")
    return request.rewrite({0: layout}, dict.fromkeys(range(len(op.outputs)), layout), exact=False)


def batch_norm(op: Op, layout: Layout) -> LayoutRewrite:
    """BatchNormalization outside training, and InstanceNormalization, where the first two axes stay."""
    require(not writes_inputs(op) and not op.attr("training_mode"), "it is in training mode")
    require(op.version >= 9 or op.type != "BatchNormalization", "the normalized axes are unknown")
    require(layout[1] == 1 and layout[0] == 0, "the channel axis is fixed")
    return same_layout(op, layout, exact=False)


def matmul(request: LayoutRequest) -> LayoutRewrite:
    """MatMul: other batch axes, both factors transposed and exchanged, or other rows of one factor."""
    op = request.op
    a, b = operand(op, 0).rank, operand(op, 1).rank
    layout = request.layout_at((0, 1) if a == b else (0,))
    last = tuple(range(len(layout)))[-2:]
    if a == b >= 2:
        require(layout[-2:] in {last, last[::-1]}, "the matrices are the last two axes")
        return request.rewrite({0: layout, 1: layout}, {0: layout}, swap_inputs=layout[-2:] != last, exact=False)
    require(a > b == 2 and layout[-1] == last[-1], "it is a product with a vector")
    return request.rewrite({0: layout}, {0: layout}, exact=False)


def pad(op: Op, layout: Layout) -> LayoutRewrite:
    """Pad: constant pads are put in order; of others, since opset 18, the axes are named."""
    value = op.input(2)
    require(value is None or value.rank == 0 or value.shape == (1,), "the pad value is not one number")
    rank = len(layout)
    pads = operand(op, 1) if op.version >= 11 else None
    if op.version >= 18 and (op.input(3) is not None or (pads is not None and not pads.is_const)):
        axes = constant_input(op, 3) if op.input(3) is not None else range(rank)
        return same_layout(op, layout, constants={3: np.asarray(axes_in_layout(axes, layout), np.int64)})
    numbers = constant_numbers(op, "pads") or []
    require(len(numbers) == 2 * rank, "the pads do not cover all axes")
    ordered = [numbers[axis] for axis in layout] + [numbers[rank + axis] for axis in layout]
    return same_layout(op, layout, **attribute_or_constant(op, "pads", 1, ordered))


def slice_(op: Op, layout: Layout) -> LayoutRewrite:
    """Slice along constant axes."""
    axes = constant_numbers(op, "axes")
    if axes is None:
        axes = range(len(op.attr("starts"))) if op.version < 10 else range(operand(op, 1).static_shape[0])
    moved = axes_in_layout(axes, layout)
    if op.version < 10:
        return same_layout(op, layout, attrs={"axes": moved})
    kind = helper.tensor_dtype_to_np_dtype(operand(op, 1).dtype)  # axes have the type of starts
    return same_layout(op, layout, constants={3: np.asarray(moved, kind)})


def tile(op: Op, layout: Layout) -> LayoutRewrite:
    """Tile with constant repeats."""
    repeats = constant_input(op, 1)
    require(len(repeats) == len(layout), "the op does not have one number for each axis")
    return same_layout(op, layout, constants={1: np.asarray([repeats[a] for a in layout], np.int64)})


def expand(op: Op, layout: Layout) -> LayoutRewrite:
    """Expand to a constant shape, of the rank of the data."""
    extents = constant_input(op, 1)
    require(len(extents) <= operand(op, 0).rank, "the op raises the rank")
    full = [1] * (len(layout) - len(extents)) + extents
    # onnxruntime copies the elements behind the last expanded axis as one block: here, number by number.
    stretched = [old == 1 != new for old, new in zip(operand(op, 0).shape, full, strict=True)]
    require(not stretched[layout[-1]] or stretched[-1], "the innermost axis would be repeated")
    return same_layout(op, layout, constants={1: np.asarray([full[a] for a in layout], np.int64)})


def resize(op: Op, layout: Layout) -> LayoutRewrite:
    """Resize by constant scales or sizes; with linear and cubic interpolation, only of the last two of four axes."""
    require(op.version >= 11, "before opset 11, it is another operator")
    require(op.attr("coordinate_transformation_mode") != "tf_crop_and_resize", "the op crops")
    nearest = op.attr("mode") == "nearest"
    require(nearest or _keeps_leading_axes(op, layout), "onnxruntime interpolates along the last axes")
    if op.attr("axes") is not None:
        named = {"axes": axes_in_layout(op.attr("axes"), layout)}
        return same_layout(op, layout, attrs=named, exact=nearest)
    by = 3 if _is_given(op, 3) else 2
    numbers = operand(op, by).const
    require(numbers.shape == (len(layout),), "the op does not have one number for each axis")
    return same_layout(op, layout, constants={by: numbers[list(layout)]}, exact=nearest)


def _is_given(op: Op, index: int) -> bool:
    """Whether an input is given; an empty one counts as left out (operator Resize, version 11)."""
    value = op.input(index)
    return value is not None and value.known_shape != (0,)


def _keeps_leading_axes(op: Op, layout: Layout) -> bool:
    """Whether the first two of four axes, in the layout, are not resized."""
    x, y = operand(op, 0).shape, op.outputs[0].shape
    if len(layout) != 4:
        return False
    if _is_given(op, 2) and op.attr("axes") is None:
        scales = operand(op, 2).const
        return all(scales[axis] == 1 for axis in layout[:2])
    return all(broadcasts_to((x[axis],), (y[axis],)) for axis in layout[:2])


def size(request: LayoutRequest) -> LayoutRewrite:
    """Size: it is the same in all layouts."""
    return request.rewrite({0: request.layout_at((0,), ())}, {})


def shape(request: LayoutRequest) -> LayoutRewrite:
    """Shape: extents that are picked by number are picked by another; else a Gather puts them back in order."""
    op, layout = request.op, request.layout_at((0,), ())
    picked = inverse(layout)[slice(op.attr("start", 0), op.attr("end"))]
    require(picked, "the op has no outputs")
    result = op.outputs[0]
    shown = op.graph.is_output(result) or result in op.graph.pinned
    extra = shown or not all(is_constant_gather(user, result, len(picked)) for user in result.consumers)
    attrs = {"start": None, "end": None}
    return request.rewrite({0: layout}, {}, attrs=attrs, gather_order=picked, extra_nodes=int(extra))


def is_constant_gather(reader: Op, numbers: Value, count: int) -> bool:
    """Whether an op is a Gather of some of `count` numbers by constant indices."""
    if reader.type != "Gather" or reader.domain or reader.graph is not (numbers.producer or reader).graph:
        return False
    index = reader.inputs[1]
    if reader.inputs[0] is not numbers or index is None or not index.is_const or reader.attr("axis", 0) not in {0, -1}:
        return False
    return are_in_range(index.const, count)


AxisGroups = list[tuple[list[int], list[int]]]
"""Axes before an op, and the axes after it along which the same elements are, in their order."""


def group_axes(before: Shape, after: Shape) -> AxisGroups:
    """The axes before and after in the smallest groups with equal sizes; declines where those are unknown."""
    groups: AxisGroups = []
    i = j = 0
    while i < len(before) or j < len(after):
        if i < len(before) and j < len(after) and same_extent(before[i], after[j]):
            groups.append(([i], [j]))
            i, j = i + 1, j + 1
            continue
        old, new = _group_ends(before, after, i, j)
        groups.append((list(range(i, old)), list(range(j, new))))
        i, j = old, new
    return groups


def _group_ends(before: Shape, after: Shape, i: int, j: int) -> tuple[int, int]:
    """The ends of the shortest two runs of numbers that begin at `i` and `j` and have the same product."""
    old, new = i, j
    left = right = 1
    while old == i or new == j or left != right:
        if (left <= right or new == len(after)) and old < len(before):
            left *= _required_extent(before[old])
            old += 1
        elif new < len(after):
            right *= _required_extent(after[new])
            new += 1
        elif left == right and (old > i or new > j):
            break
        else:
            require(False, "the numbers of elements differ")
    return old, new


def _required_extent(d: Dim) -> int:
    return known(d if isinstance(d, int) and d > 0 else None, "an extent is unknown or 0")


def without_axes(rank: int, gone: Collection[int]) -> AxisGroups:
    """The groups of an op that removes axes."""
    left = iter(range(rank))
    return [([axis], [] if axis in gone else [next(left)]) for axis in range(rank)]


def grouped_layouts(groups: AxisGroups, layout: Layout, shape: Shape, *, forward: bool) -> tuple[Layout, Layout]:
    """The layouts before and after an op, given the first (`forward`) or the second layout, of a value of `shape`.

    Each group is held in one piece, in order. Groups that hold nothing, as axes of extent 1 do, go after the group that
    precedes them.
    """
    pairs = groups if forward else [(new, old) for old, new in groups]
    group_of = {axis: k for k, (own, _) in enumerate(pairs) for axis in own}
    order: list[int] = []
    held: dict[int, list[int]] = {}
    for axis in layout:
        k = group_of[axis]
        if shape[axis] != 1:
            require(k not in held or order[-1] == k, "merged axes do not stay adjacent")
            order += [k] if k not in held else []
            held.setdefault(k, []).append(axis)
    require(all(axes == sorted(axes) for axes in held.values()), "the order of merged axes changes")
    for k in range(len(pairs)):
        if k not in held:
            order.insert(order.index(k - 1) + 1 if k else 0, k)
    other = tuple(axis for k in order for axis in pairs[k][1])
    return (layout, other) if forward else (other, layout)


def regrouped(request: LayoutRequest, groups: AxisGroups) -> tuple[Layout, Layout]:
    """As `grouped_layouts`, where axes of extent 1 stay where they are."""
    layout = request.layout_at()
    return grouped_layouts(groups, layout, (None,) * len(layout), forward=request.index == 0)


def reduced_layouts(request: LayoutRequest, axes: Collection[int]) -> tuple[Layout, Layout]:
    """The layouts before and after a reduction of `axes`, which keeps them or not."""
    layout = request.layout_at()
    if request.op.attr("keepdims", 1):
        return layout, layout
    return regrouped(request, without_axes(operand(request.op).rank, axes))


def reduction(request: LayoutRequest) -> LayoutRewrite:
    """Reductions over constant axes."""
    op = request.op
    exact = operand(op, 0).dtype not in FLOATS
    # onnxruntime's answer to a NaN depends on where in memory it lies.
    require(exact or op.type not in {"ReduceMax", "ReduceMin"}, "the result for NaN depends on the layout")
    axes = constant_numbers(op)
    if not axes:
        require(not op.attr("noop_with_empty_axes", 0) and request.index == 0, "the op reduces no axis")
        return request.rewrite({0: request.layout}, {}, exact=exact)
    gone = normalize_axes(axes, operand(op, 0).rank)
    inner, outer = reduced_layouts(request, gone)
    moved = attribute_or_constant(op, "axes", 1, sorted(axes_in_layout(gone, inner)))
    return request.rewrite({0: inner}, {0: outer}, exact=exact, **moved)


def arg_reduction(request: LayoutRequest) -> LayoutRewrite:
    """ArgMax and ArgMin."""
    op = request.op
    axis = normalized_axis(op, operand(op, 0).rank)
    inner, outer = reduced_layouts(request, [axis])
    return request.rewrite({0: inner}, {0: outer}, attrs={"axis": inner.index(axis)})


def squeeze(request: LayoutRequest) -> LayoutRewrite:
    """Squeeze and Unsqueeze, by constant axes."""
    op, removes = request.op, request.op.type == "Squeeze"
    axes = constant_numbers(op) or []
    require(axes, "the op has no axes")
    rank = (operand(op) if removes else op.outputs[0]).rank
    changed = normalize_axes(axes, rank)
    groups = without_axes(rank, changed)
    inner, outer = regrouped(request, groups if removes else [(new, old) for old, new in groups])
    moved = attribute_or_constant(op, "axes", 1, sorted(axes_in_layout(changed, inner if removes else outer)))
    return request.rewrite({0: inner}, {0: outer}, **moved)


def gather(request: LayoutRequest) -> LayoutRewrite:
    """Gather along an axis, which the axes of the indices replace."""
    op = request.op
    axis, count = normalized_axis(op, operand(op).rank), operand(op, 1).rank
    places = [[a + (count - 1) * (a > axis)] for a in range(operand(op).rank)]
    places[axis] = list(range(axis, axis + count))
    inner, outer = regrouped(request, [([a], place) for a, place in enumerate(places)])
    # Taking rows from a table copies each at once; a transposed one would copy single numbers.
    is_lookup = operand(op).is_const and count > 0 and axis < len(inner) - 1
    require(not is_lookup or inner[-1] != axis, "it is a lookup of rows")
    return request.rewrite({0: inner}, {0: outer}, attrs={"axis": inner.index(axis)})


def reshape(request: LayoutRequest) -> LayoutRewrite:
    """Reshape to known extents, where merged and split axes stay adjacent."""
    op, layout, forward = request.op, request.layout_at(), request.index == 0
    before, after = operand(op).shape, op.outputs[0].shape
    given = before if forward else after
    inner, outer = grouped_layouts(group_axes(before, after), layout, given, forward=forward)
    extents = [d if isinstance(d, int) else -1 for d in after]
    require(0 not in extents and extents.count(-1) <= 1, "the target shape is not constant")
    return request.rewrite({0: inner}, {0: outer}, constants={1: np.asarray([extents[a] for a in outer], np.int64)})


def flatten(request: LayoutRequest) -> LayoutRewrite:
    """Flatten, where the axes that it merges stay together, in order."""
    op, layout = request.op, request.layout_at((0,), ())
    rank = len(layout)
    start = op.attr("axis", 1)
    require(-rank <= start <= rank, "the axis is out of range")
    start += rank * (start < 0)
    x = operand(op, 0).shape
    held = [a for a in layout if x[a] != 1]
    require(held == sorted(held), "the order of the merged axes changes")
    head = sum(a < start for a in held)
    at = layout.index(held[head]) if head < len(held) else rank
    return request.rewrite({0: layout}, {}, attrs={"axis": at})


def transpose(request: LayoutRequest) -> LayoutRewrite:
    """Transpose: the two layouts between which it is the identity."""
    perm, layout = known(perm_of(request.op), "its perm is unknown"), request.layout_at()
    require(len(perm) == len(layout), "its perm does not fit")
    if request.index == 0:
        return request.rewrite({0: layout}, {0: compose(inverse(perm), layout)})
    return request.rewrite({0: compose(perm, layout)}, {0: layout})


# The types that onnxruntime can transpose.
TRANSPOSABLE_TYPES = FLOATS | DISCRETE_TYPES

# Hardmax and DynamicQuantizeLinear have no rule: the result of onnxruntime for a NaN depends on its place in memory.
SAME_LAYOUT_RULES: Mapping[str, Callable[[Op, Layout], LayoutRewrite]] = MappingProxyType(
    {
        **dict.fromkeys(ELEMENTWISE_OPS, unary),
        **dict.fromkeys(("Softmax", "LogSoftmax"), softmax),
        **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), quantize),
        **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), batch_norm),
        "CumSum": cum_sum,
        "Expand": expand,
        "Pad": pad,
        "Resize": resize,
        "Slice": slice_,
        "Tile": tile,
    }
)
"""The rules by operator whose first input and first output have the same layout."""

LAYOUT_RULES: Mapping[str, Callable[[LayoutRequest], LayoutRewrite]] = MappingProxyType(
    {
        **dict.fromkeys(BROADCASTING_OPS, broadcasting),
        **dict.fromkeys(ops_with(Trait.REDUCTION), reduction),
        **dict.fromkeys(("ArgMax", "ArgMin"), arg_reduction),
        **dict.fromkeys(("Concat", "GatherElements", "LpNormalization", "Split", "TopK"), along_axis),
        **dict.fromkeys(("LayerNormalization", "RMSNormalization"), layer_norm),
        "Dropout": dropout,
        "Flatten": flatten,
        "Gather": gather,
        "MatMul": matmul,
        "Reshape": reshape,
        "Shape": shape,
        "Size": size,
        **dict.fromkeys(("Squeeze", "Unsqueeze"), squeeze),
        "Transpose": transpose,
    }
)
"""The rules of other operators."""


def apply_layout_rule(op: Op, index: int, layout: Layout, *, exact_only: bool) -> LayoutRewrite | None:
    """The rewrite of `op` if the value at `index` (an input; ~0, ~1 ... for outputs) has `layout`, or None."""
    if op.domain or (op.type not in SAME_LAYOUT_RULES and op.type not in LAYOUT_RULES):
        return None
    request = LayoutRequest(op, index, layout)
    try:
        same = SAME_LAYOUT_RULES.get(op.type)
        found = same(op, request.layout_at()) if same is not None else LAYOUT_RULES[op.type](request)
        if exact_only and not found.exact:
            return None
        for v, own in zip((*op.inputs, *op.outputs), (*found.input_layouts, *found.output_layouts), strict=True):
            if v is not None and own is not None and v.dtype not in TRANSPOSABLE_TYPES:
                return None
    except MatchFailure:
        return None
    return found
