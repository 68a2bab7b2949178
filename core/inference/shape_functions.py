"""Output shapes of operators, symbolic ones too, by the documentation of each operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..errors import MatchFailure, require
from ..ir import expressions as sym
from ..ir.dims import Dim, Shape, merge_dim
from ..ir.expressions import Expr, SymInt, is_known_le, is_known_nonnegative, least_of
from ..ir.op import Op
from ..ir.op_schemas import input_names
from ..operators.declaration import Trait
from ..operators.table import ops_with
from .input_queries import (
    INT32_MAX,
    full_perm,
    input_dims,
    input_elements,
    input_shape,
    integer_list,
    normalize_axes,
    normalized_axis,
    pad_amounts,
    queried_dims,
    slice_bounds,
    slice_range,
)

MULTIDIRECTIONAL_BROADCAST_OPSET = 8  # of the variadic operators, the last to broadcast in both directions


def same_extent(a: Dim, b: Dim) -> bool:
    """Whether two dims are known to be equal. Two unknown ones are not."""
    return a is not None and a == b


def broadcasts_to(small: Shape, big: Shape) -> bool:
    """Whether broadcasting `small` with `big` is known to give `big`."""
    if len(small) > len(big):
        return False
    return all(s == 1 or same_extent(s, b) for s, b in zip(small[::-1], big[::-1], strict=False))


def broadcast(shapes: Sequence[Shape | None]) -> Shape | None:
    """The shape that ONNX's multidirectional broadcasting gives; None where a rank is unknown."""
    out: list[Dim] = []
    for shape in shapes:
        if shape is None:
            return None
        out = [1] * (len(shape) - len(out)) + out
        for i, d in enumerate(reversed(shape), 1):
            out[-i] = broadcast_dim(out[-i], d)
    return tuple(out)


def broadcast_dim(a: Dim, b: Dim) -> Dim:
    """The extent of two that are broadcast; None if it depends on which of them is 1."""
    if b in {a, 1} or _is_capped(b, a):
        return a
    if _is_capped(a, b):
        return b
    if a == 1 or (isinstance(b, int) and not isinstance(a, int)):
        return b
    return a if isinstance(a, int) else None


def same_extent_if_broadcast(a: Dim, b: Dim) -> bool:
    """Whether two dims are known to be equal wherever they can be broadcast, as d and min(d, 2) are."""
    return same_extent(a, b) or _is_capped(a, b) or _is_capped(b, a)


def _is_capped(cap: Dim, d: Dim) -> bool:
    """Whether `cap` is the least of `d` and of extents above 1. If one of these is the least, `d` is above 1 too."""
    if not isinstance(cap, Expr) or d is None:
        return False
    cases = least_of(cap)
    return d in cases and all(case == d or is_known_le(2, case) for case in cases)


def _transpose(op: Op) -> list[Shape]:
    x = input_shape(op)
    perm = full_perm(op.attr("perm"), len(x))
    require(sorted(perm) == list(range(len(x))), "its perm does not fit the rank")
    return [tuple(x[i] for i in perm)]


def _reshape(op: Op) -> list[Shape]:
    target: tuple[SymInt, ...] = tuple(op.attr("shape")) if op.version < 5 else input_elements(op, 1)
    x = input_shape(op)
    out: list[Dim] = []
    for i, e in enumerate(target):
        copied = e == 0 and not op.attr("allowzero", 0)
        require(not copied or i < len(x), "it copies a dim that the input does not have")
        out.append(x[i] if copied else e if is_known_nonnegative(e) else None)
    if target.count(-1) == 1:
        at = target.index(-1)
        out[at] = _inferred_reshape_dim(x, [*out[:at], *out[at + 1 :]])
    return [tuple(out)]


def _inferred_reshape_dim(whole: Shape, others: Sequence[Dim]) -> Dim:
    """The dim at -1, from the input shape and all other dims."""
    if None in whole or None in others or 0 in others:
        return None
    left, taken = list(whole), list(others)
    for d in others:  # equal dims cancel, symbolic ones too
        if d in left:
            left.remove(d)
            taken.remove(d)
    elements, by = (sym.prod(d for d in dims if d is not None) for dims in (left, taken))
    exact = sym.divide(elements, by)
    return sym.floor_divide(elements, by) if exact is None else exact


def _flatten(op: Op) -> list[Shape]:
    x = input_dims(op)
    axis = int(op.attr("axis", 1))
    require(-len(x) <= axis <= len(x), "its axis does not fit the rank")
    axis += len(x) * (axis < 0)
    return [(sym.prod(x[:axis]), sym.prod(x[axis:]))]


def _squeeze(op: Op) -> list[Shape]:
    x, axes = input_shape(op), integer_list(op, "axes")
    if axes is None:
        require(all(isinstance(d, int) for d in x), "which dims are 1 is unknown")
        return [tuple(d for d in x if d != 1)]
    removed = normalize_axes(axes, len(x))
    return [tuple(d for i, d in enumerate(x) if i not in removed)]


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
            out[i] = merge_dim(here, d) if i != axis else None if here is None or d is None else sym.add(here, d)
    return [tuple(out)]


def _split(op: Op) -> list[Shape]:
    x = input_shape(op)
    axis, n = normalized_axis(op, len(x)), len(op.outputs)
    sizes: tuple[Dim, ...]
    if (op.version < 13 and op.attr("split")) or (op.version >= 13 and op.input(1) is not None):
        sizes = tuple(op.attr("split")) if op.version < 13 else input_elements(op, 1)
        require(len(sizes) == n, "the numbers of sizes and outputs differ")
    else:
        sizes = _equal_parts(x[axis], n)
    return [(*x[:axis], s, *x[axis + 1 :]) for s in sizes]


def _equal_parts(extent: Dim, pieces: int) -> tuple[Dim, ...]:
    """Equal parts; the last one is smaller if the extent is not divisible (operator Split, num_outputs)."""
    if extent is None:
        return (None,) * pieces
    if not isinstance(extent, int):
        return (sym.divide(extent, pieces),) * pieces
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
        from_end = isinstance(start, int) and (start == -1 or start >= INT32_MAX)
        return extent if step == -1 and from_end and isinstance(end, int) and end <= -INT32_MAX else None
    first, last = _clamp_bound(extent, start), _clamp_bound(extent, end)
    if first is None or last is None:
        return None
    span = sym.subtract(last, first) if is_known_le(first, last) else sym.maximum(sym.subtract(last, first), 0)
    return sym.floor_divide(sym.add(span, step - 1), step)


def _clamp_bound(extent: SymInt, bound: SymInt) -> SymInt | None:
    """A bound of a Slice, clamped to 0 ... extent; None if it is unknown whether it counts from the end."""
    if isinstance(bound, int):
        if abs(bound) >= INT32_MAX:
            return extent if bound > 0 else 0
        return sym.minimum(bound, extent) if bound >= 0 else sym.maximum(sym.add(extent, bound), 0)
    return sym.minimum(bound, extent) if is_known_nonnegative(bound) else None


def _pad(op: Op) -> list[Shape]:
    x = input_shape(op)
    amounts = pad_amounts(op, len(x))
    padded = zip(x, amounts[: len(x)], amounts[len(x) :], strict=True)
    return [tuple(None if d is None else sym.add(d, sym.add(before, after)) for d, before, after in padded)]


def _expand(op: Op) -> list[Shape]:
    target = input_elements(op, 1)
    require(all(map(is_known_nonnegative, target)), "its target shape is unknown")
    return [broadcast([input_shape(op), target]) or ()]


def _tile(op: Op) -> list[Shape]:
    x, times = input_shape(op), input_elements(op, 1)
    require(op.version >= 6 and len(times) == len(x), "its repeats do not fit the rank")
    return [tuple(None if d is None else sym.multiply(d, n) for d, n in zip(x, times, strict=True))]


def _gather(op: Op) -> list[Shape]:
    x, indices = input_shape(op, 0), input_shape(op, 1)
    axis = normalized_axis(op, len(x))
    return [(*x[:axis], *indices, *x[axis + 1 :])]


def _constant_of_shape(op: Op) -> list[Shape]:
    target = input_elements(op, 0)
    return [tuple(e if is_known_nonnegative(e) else None for e in target)]


def _range(op: Op) -> list[Shape]:
    ends = [input_elements(op, i) for i in range(3)]
    require(all(len(e) == 1 for e in ends), "its bounds are not scalars")
    (start,), (limit,), (step,) = ends
    if not isinstance(step, int) or step == 0:
        raise MatchFailure("its step is computed")
    span = sym.subtract(limit, start) if step > 0 else sym.subtract(start, limit)
    count = sym.floor_divide(sym.add(span, abs(step) - 1), abs(step))
    return [(None if count is None else sym.maximum(count, 0),)]


def _depth_and_space(op: Op) -> list[Shape]:
    n, c, h, w = input_dims(op)
    block = int(op.attr("blocksize"))
    if op.type == "DepthToSpace":
        return [(n, sym.floor_divide(c, block * block), sym.multiply(h, block), sym.multiply(w, block))]
    return [(n, sym.multiply(c, block * block), sym.floor_divide(h, block), sym.floor_divide(w, block))]


def _resize(op: Op) -> list[Shape]:
    """Resize and Upsample to sizes or by integer scales."""
    x = input_shape(op)
    names = input_names(op.type, op.domain, op.version)
    sizes, scales = (op.input(names.index(name)) if name in names else None for name in ("sizes", "scales"))
    plain = op.attr("keep_aspect_ratio_policy", "stretch") == "stretch"
    axes = normalize_axes([int(a) for a in op.attr("axes") or range(len(x))], len(x))
    out = list(x)
    if sizes is not None and plain:
        wanted = input_elements(op, names.index("sizes"))
        require(len(wanted) == len(axes) and all(map(is_known_nonnegative, wanted)), "its sizes do not fit the axes")
        for axis, size in zip(axes, wanted, strict=True):
            out[axis] = size
        return [tuple(out)]
    if scales is None or scales.tensor is None or scales.tensor.size != len(axes):
        raise MatchFailure("its scales are unknown")
    for axis, scale in zip(axes, scales.const.reshape(-1).tolist(), strict=True):
        d = x[axis]
        require(isinstance(d, int) or scale == int(scale), "a scale of a symbolic dim is not an integer")
        out[axis] = None if d is None else int(d * scale) if isinstance(d, int) else sym.multiply(d, int(scale))
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
    # One row for each dim. For a scalar there is none in ONNX and one in onnxruntime, so it is unknown.
    "NonZero": lambda op: [(len(input_shape(op)) or None, None)],
    "Shape": lambda op: [(len(queried_dims(op)),)],
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _depth_and_space),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
}


SAME_PADDING = frozenset({"SAME_UPPER", "SAME_LOWER"})


def _convolution_shapes(op: Op) -> tuple[Shape, Shape]:
    """The shapes of the input and of the filter."""
    x, w = input_shape(op), input_shape(op, 1)
    require(len(x) == len(w) > 2, "the filter has another rank")
    return x, w


def _conv(op: Op) -> list[Shape]:
    x, w = _convolution_shapes(op)
    return [(x[0], w[0], *_window_extents(op, x[2:], w[2:]))]


def _pool(op: Op) -> list[Shape]:
    """AveragePool, MaxPool and LpPool."""
    x, kernel = input_shape(op), tuple(op.attr("kernel_shape") or ())
    require(kernel and len(x) == len(kernel) + 2, "its window has another rank")
    if op.attr("auto_pad", "NOTSET") in SAME_PADDING and any(d != 1 for d in op.attr("dilations") or ()):
        return [(*x[:2], *[None] * len(kernel))]  # onnxruntime pads as if nothing were dilated
    return [(*x[:2], *_window_extents(op, x[2:], kernel))]


def _conv_transpose(op: Op) -> list[Shape]:
    x, w = _convolution_shapes(op)
    spatial = len(x) - 2
    channels = None if w[1] is None else sym.multiply(w[1], int(op.attr("group", 1)))
    out: list[Dim] = [None] * spatial
    if stated := op.attr("output_shape"):
        out = list(stated[-spatial:])
    elif op.attr("auto_pad", "NOTSET") not in SAME_PADDING:  # of which versions of ONNX and onnxruntime disagree
        extra = op.attr("output_padding") or [0] * spatial
        for i, (extent, kernel, stride, dilation, padding) in enumerate(_windows(op, x[2:], w[2:])):
            if extent is not None and isinstance(kernel, int):
                rest = extra[i] + (kernel - 1) * dilation + 1 - padding - stride
                out[i] = sym.add(sym.multiply(extent, stride), rest)
    return [(x[0], channels, *out)]


def _window_extents(op: Op, extents: Shape, kernels: Shape) -> list[Dim]:
    """The output extents of windows of the sizes `kernels`."""
    is_same = op.attr("auto_pad", "NOTSET") in SAME_PADDING
    out: list[Dim] = []
    for extent, kernel, stride, dilation, padding in _windows(op, extents, kernels):
        if extent is None or not isinstance(kernel, int):
            raise MatchFailure("an extent is unknown")
        if is_same:
            out.append(sym.floor_divide(sym.add(extent, stride - 1), stride))
            continue
        span = sym.add(extent, padding - dilation * (kernel - 1) - 1)
        left = sym.floor_divide(span, stride)
        # Of a last window that is not full, versions of ONNX and onnxruntime disagree where it lies in the padding.
        is_whole = not op.attr("ceil_mode", 0) or stride == 1 or (isinstance(span, int) and span % stride == 0)
        out.append(sym.add(left, 1) if left is not None and is_whole else None)
    return out


def _windows(op: Op, extents: Shape, kernels: Shape) -> Iterable[tuple[Dim, Dim, int, int, int]]:
    """Extent, kernel, stride, dilation and padding at both ends of each spatial axis."""
    n = len(extents)
    strides, dilations = op.attr("strides") or [1] * n, op.attr("dilations") or [1] * n
    pads = op.attr("pads") if op.attr("auto_pad", "NOTSET") != "VALID" else None
    padding = [sum(ends) for ends in zip(pads[:n], pads[n:], strict=False)] if pads else [0] * n
    require(n == len(strides) == len(dilations) == len(padding), "its attributes do not fit the rank")
    return zip(extents, kernels, strides, dilations, padding, strict=True)


def _matmul(op: Op) -> list[Shape]:
    """MatMul, as numpy.matmul defines it."""
    a, b = input_shape(op), input_shape(op, 1)
    batch = broadcast([a[:-2], b[:-2]])
    if not a or not b or batch is None:
        raise MatchFailure("a factor is a scalar")
    return [(*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))]


def _broadcast(op: Op) -> list[Shape]:
    shape = broadcast([v.recorded_type[1] for v in op.inputs if v is not None])
    if shape is None or op.graph.opsets.get("", 0) < MULTIDIRECTIONAL_BROADCAST_OPSET:
        raise MatchFailure("the broadcast shape is unknown")
    return [shape]


SHAPE_FUNCTIONS: dict[str, Callable[[Op], list[Shape]]] = {
    **dict.fromkeys(ops_with(Trait.BROADCASTING), _broadcast),
    **dict.fromkeys(ops_with(Trait.SAME_SHAPE | Trait.SAME_DTYPE), lambda op: [input_shape(op)]),
    **DATA_MOVEMENT_SHAPES,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _pool),
    "MatMul": _matmul,
}
