"""Output shapes of data-movement operators, symbolic ones too, by the documentation of each operator."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import Declined, require
from ..ir.dims import Dim, Shape, merge_dim
from ..ir.expressions import (
    SymInt,
    add,
    divide,
    floor_divide,
    is_known_le,
    is_known_nonnegative,
    maximum,
    minimum,
    multiply,
    prod,
    subtract,
)
from ..ir.op import Op
from .broadcasting import broadcast
from .input_queries import (
    INT32_MAX,
    input_dims,
    input_elements,
    input_shape,
    integer_list,
    normalize_axes,
    normalized_axis,
    slice_bounds,
    slice_range,
)


def _transpose(op: Op) -> list[Shape]:
    x = input_shape(op)
    perm = [int(i) for i in op.attr("perm") or range(len(x))[::-1]]
    require(sorted(perm) == list(range(len(x))), "its perm does not fit the rank")
    return [tuple(x[i] for i in perm)]


def _reshape(op: Op) -> list[Shape]:
    asked: tuple[SymInt, ...] = tuple(op.attr("shape")) if op.version < 5 else input_elements(op, 1)
    x = input_shape(op)
    out: list[Dim] = []
    for i, e in enumerate(asked):
        copied = e == 0 and not op.attr("allowzero", 0)
        require(not copied or i < len(x), "it copies a dim that the input does not have")
        out.append(x[i] if copied else e if is_known_nonnegative(e) else None)
    if asked.count(-1) == 1 and None not in x:
        out[asked.index(-1)] = _inferred_reshape_dim(x, [d for i, d in enumerate(out) if i != asked.index(-1)])
    return [tuple(out)]


def _inferred_reshape_dim(whole: Shape, others: list[Dim]) -> Dim:
    """The dim at -1, from the input shape and all other dims."""
    if None in others or 0 in others:
        return None
    left, taken = list(whole), list(others)
    for d in others:  # equal dims cancel, symbolic ones too
        if d in left:
            left.remove(d)
            taken.remove(d)
    elements = prod(d for d in left if d is not None)
    by = prod(d for d in taken if d is not None)
    exact = divide(elements, by)
    return floor_divide(elements, by) if exact is None else exact


def _flatten(op: Op) -> list[Shape]:
    x = input_dims(op)
    axis = int(op.attr("axis", 1))
    require(-len(x) <= axis <= len(x), "its axis does not fit the rank")
    axis += len(x) * (axis < 0)
    return [(prod(x[:axis]), prod(x[axis:]))]


def _squeeze(op: Op) -> list[Shape]:
    x, axes = input_shape(op), integer_list(op, "axes")
    if axes is None:
        require(all(isinstance(d, int) for d in x), "which dims are 1 is unknown")
        return [tuple(d for d in x if d != 1)]
    gone = normalize_axes(axes, len(x))
    return [tuple(d for i, d in enumerate(x) if i not in gone)]


def _unsqueeze(op: Op) -> list[Shape]:
    x, axes = input_shape(op), integer_list(op, "axes") or []
    rank = len(x) + len(axes)
    new, rest = normalize_axes(axes, rank), iter(x)
    return [tuple(1 if i in new else next(rest) for i in range(rank))]


def _concat(op: Op) -> list[Shape]:
    shapes = [input_shape(op, i) for i in range(len(op.inputs))]
    require(len({len(s) for s in shapes}) == 1, "the ranks differ")
    axis = normalized_axis(op, len(shapes[0]), 1)
    out: list[Dim] = list(shapes[0])
    for s in shapes[1:]:
        for i, d in enumerate(s):
            here = out[i]
            out[i] = merge_dim(here, d) if i != axis else None if here is None or d is None else add(here, d)
    return [tuple(out)]


def _split(op: Op) -> list[Shape]:
    x = input_shape(op)
    axis, n = normalized_axis(op, len(x)), len(op.outputs)
    sizes: tuple[Dim, ...]
    if (op.version < 13 and op.attr("split")) or (op.version >= 13 and op.input(1) is not None):
        sizes = tuple(op.attr("split")) if op.version < 13 else input_elements(op, 1)
        require(len(sizes) == n, "the numbers of sizes and outputs differ")
    else:
        sizes = _even_split(x[axis], n)
    return [(*x[:axis], s, *x[axis + 1 :]) for s in sizes]


def _even_split(extent: Dim, pieces: int) -> tuple[Dim, ...]:
    """Equal parts; the last one is smaller if the extent is not divisible (operator Split, num_outputs)."""
    if extent is None:
        return (None,) * pieces
    if not isinstance(extent, int):
        exact = divide(extent, pieces)
        return (exact,) * pieces
    each = -(-extent // pieces)
    return (*[each] * (pieces - 1), max(extent - each * (pieces - 1), 0))


def _slice(op: Op) -> list[Shape]:
    x = input_shape(op)
    out = list(x)
    for axis, (start, end, step) in slice_bounds(op, len(x)).items():
        extent = x[axis]
        out[axis] = None if extent is None else slice_extent(extent, start, end, step)
    return [tuple(out)]


def slice_extent(extent: SymInt, start: SymInt, end: SymInt, step: int) -> Dim:
    """The output extent of a Slice along an axis of `extent`; None if it is unknown."""
    if isinstance(extent, int) and isinstance(start, int) and isinstance(end, int):
        run = slice_range(extent, start, end, step)
        return None if run is None else len(run)
    if step < 0:
        whole = (
            isinstance(end, int)
            and end <= -INT32_MAX
            and isinstance(start, int)
            and (start == -1 or start >= INT32_MAX)
        )
        return extent if whole and step == -1 else None
    first, last = _clamp_bound(extent, start), _clamp_bound(extent, end)
    if first is None or last is None:
        return None
    span = subtract(last, first) if is_known_le(first, last) else maximum(subtract(last, first), 0)
    return floor_divide(add(span, step - 1), step)


def _clamp_bound(extent: SymInt, bound: SymInt) -> SymInt | None:
    """A bound of a Slice, clamped to 0 ... extent; None if it is unknown whether it counts from the end."""
    if isinstance(bound, int):
        if abs(bound) >= INT32_MAX:
            return extent if bound > 0 else 0
        return minimum(bound, extent) if bound >= 0 else maximum(add(extent, bound), 0)
    return minimum(bound, extent) if is_known_nonnegative(bound) else None


def _pad(op: Op) -> list[Shape]:
    x = input_shape(op)
    name = "paddings" if op.version < 2 else "pads"
    amounts = tuple(op.attr(name)) if op.version < 11 else input_elements(op, 1)
    axes = integer_list(op, "axes") if op.version >= 18 else None
    places = list(range(len(x))) if axes is None else normalize_axes(axes, len(x))
    require(len(amounts) == 2 * len(places), "its pads do not fit the rank")
    out = list(x)
    for i, axis in enumerate(places):
        here = out[axis]
        out[axis] = None if here is None else add(here, add(amounts[i], amounts[i + len(places)]))
    return [tuple(out)]


def _expand(op: Op) -> list[Shape]:
    asked = input_elements(op, 1)
    require(all(map(is_known_nonnegative, asked)), "its target shape is unknown")
    shape = broadcast([input_shape(op), asked])
    assert shape is not None
    return [shape]


def _tile(op: Op) -> list[Shape]:
    x, times = input_shape(op), input_elements(op, 1)
    require(op.version >= 6 and len(times) == len(x), "its repeats do not fit the rank")
    return [tuple(None if d is None else multiply(d, n) for d, n in zip(x, times, strict=True))]


def _gather(op: Op) -> list[Shape]:
    x, indices = input_shape(op, 0), input_shape(op, 1)
    axis = normalized_axis(op, len(x))
    return [(*x[:axis], *indices, *x[axis + 1 :])]


def _constant_of_shape(op: Op) -> list[Shape]:
    asked = input_elements(op, 0)
    return [tuple(e if is_known_nonnegative(e) else None for e in asked)]


def _range(op: Op) -> list[Shape]:
    ends = [input_elements(op, i) for i in range(3)]
    require(all(len(e) == 1 for e in ends), "its bounds are no scalars")
    (start,), (limit,), (step,) = ends
    if not isinstance(step, int) or step == 0:
        raise Declined("its step is computed")
    span = subtract(limit, start) if step > 0 else subtract(start, limit)
    return [(maximum(_ceil_divide(span, abs(step)), 0),)]


def _ceil_divide(a: SymInt, b: int) -> SymInt:
    quotient = floor_divide(add(a, b - 1), b)
    assert quotient is not None
    return quotient


def _nonzero(op: Op) -> list[Shape]:
    """One row for each dim. For a scalar there is none in ONNX and one in onnxruntime, so it is unknown."""
    return [(len(input_shape(op)) or None, None)]


def _shape(op: Op) -> list[Shape]:
    return [(len(input_shape(op)[slice(int(op.attr("start", 0)), op.attr("end"))]),)]


def _depth_to_space(op: Op) -> list[Shape]:
    n, c, h, w = input_dims(op)
    block = int(op.attr("blocksize"))
    return [(n, floor_divide(c, block * block), multiply(h, block), multiply(w, block))]


def _space_to_depth(op: Op) -> list[Shape]:
    n, c, h, w = input_dims(op)
    block = int(op.attr("blocksize"))
    return [(n, multiply(c, block * block), floor_divide(h, block), floor_divide(w, block))]


def _resize(op: Op) -> list[Shape]:
    """Resize and Upsample to sizes or by integer scales."""
    x = input_shape(op)
    named = {i.name: op.input(n) for n, i in enumerate(op.schema.inputs)} if op.schema is not None else {}
    sizes, scales = named.get("sizes"), named.get("scales")
    plain = op.attr("keep_aspect_ratio_policy", "stretch") == "stretch"
    axes = normalize_axes([int(a) for a in op.attr("axes") or range(len(x))], len(x))
    out = list(x)
    if sizes is not None and plain:
        wanted = input_elements(op, [i.name for i in op.schema.inputs].index("sizes")) if op.schema is not None else ()
        require(len(wanted) == len(axes) and all(map(is_known_nonnegative, wanted)), "its sizes do not fit the axes")
        for axis, size in zip(axes, wanted, strict=True):
            out[axis] = size
        return [tuple(out)]
    require(scales is not None and scales.tensor is not None and scales.tensor.size == len(axes), "scales are unknown")
    assert scales is not None
    for axis, scale in zip(axes, scales.const.reshape(-1).tolist(), strict=True):
        d = x[axis]
        require(isinstance(d, int) or scale == int(scale), "a scale of a symbolic dim is no integer")
        out[axis] = None if d is None else int(d * scale) if isinstance(d, int) else multiply(d, int(scale))
    return [tuple(out)]


DATA_MOVEMENT_SHAPES: dict[str, Callable[[Op], list[Shape]]] = {
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Expand": _expand,
    "Tile": _tile,
    "Gather": _gather,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "NonZero": _nonzero,
    "Shape": _shape,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Resize": _resize,
    "Upsample": _resize,
}
