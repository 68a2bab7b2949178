"""Shapes of what slides a window over its input: Conv, ConvTranspose and the poolings (their operators' formulas)."""

from __future__ import annotations

from ..ir.dims import Dim, Shape
from ..ir.expressions import add, floor_divide, multiply
from ..ir.op import Op

SAME_PADDING = frozenset({"SAME_UPPER", "SAME_LOWER"})


def conv_shape(op: Op) -> Shape | None:
    """The shape of Conv(x, w)."""
    x, w = _recorded_input_shape(op, 0), _recorded_input_shape(op, 1)
    if x is None or w is None or len(x) != len(w) or len(x) < 3:
        return None
    spatial = _window_extents(op, x[2:], w[2:])
    return None if spatial is None else (x[0], w[0], *spatial)


def pool_shape(op: Op) -> Shape | None:
    """The shape of AveragePool, MaxPool and LpPool of x."""
    x, kernel = _recorded_input_shape(op, 0), op.attr("kernel_shape")
    if x is None or kernel is None or len(x) != len(kernel) + 2:
        return None
    if op.attr("auto_pad", "NOTSET") in SAME_PADDING and any(d != 1 for d in op.attr("dilations") or ()):
        return (x[0], x[1], *[None] * len(kernel))  # onnxruntime pads as if nothing were dilated
    spatial = _window_extents(op, x[2:], tuple(kernel))
    return None if spatial is None else (x[0], x[1], *spatial)


def conv_transpose_shape(op: Op) -> Shape | None:
    """The shape of ConvTranspose(x, w)."""
    x, w = _recorded_input_shape(op, 0), _recorded_input_shape(op, 1)
    if x is None or w is None or len(x) != len(w) or len(x) < 3:
        return None
    spatial = len(x) - 2
    channels = None if w[1] is None else multiply(w[1], int(op.attr("group", 1)))
    asked = op.attr("output_shape")
    if asked:
        return (x[0], channels, *asked[-spatial:])
    mode = op.attr("auto_pad", "NOTSET")
    if mode in SAME_PADDING:
        return (x[0], channels, *[None] * spatial)  # there were several opinions on it
    strides, dilations, pads = _window_attributes(op, spatial)
    if mode == "VALID":
        pads = [0] * 2 * spatial
    extra = op.attr("output_padding") or [0] * spatial
    out: list[Dim] = []
    for i, (extent, kernel) in enumerate(zip(x[2:], w[2:], strict=True)):
        if extent is None or not isinstance(kernel, int):
            out.append(None)
            continue
        rest = extra[i] + (kernel - 1) * dilations[i] + 1 - pads[i] - pads[i + spatial] - strides[i]
        out.append(add(multiply(extent, strides[i]), rest))
    return (x[0], channels, *out)


def _window_extents(op: Op, extents: Shape, kernels: Shape) -> Shape | None:
    """The extents that windows of those `kernels` leave."""
    strides, dilations, pads = _window_attributes(op, len(extents))
    mode = op.attr("auto_pad", "NOTSET")
    out: list[Dim] = []
    for i, (extent, kernel) in enumerate(zip(extents, kernels, strict=True)):
        if extent is None or not isinstance(kernel, int):
            return None
        if mode in SAME_PADDING:
            out.append(floor_divide(add(extent, strides[i] - 1), strides[i]))
            continue
        padded = 0 if mode == "VALID" else pads[i] + pads[i + len(extents)]
        span = add(extent, padded - dilations[i] * (kernel - 1) - 1)
        left = floor_divide(span, strides[i])
        # Of a last window that is not full, versions of ONNX and onnxruntime disagree where it lies in the padding.
        is_whole = not op.attr("ceil_mode", 0) or strides[i] == 1 or (isinstance(span, int) and span % strides[i] == 0)
        out.append(add(left, 1) if left is not None and is_whole else None)
    return tuple(out)


def _window_attributes(op: Op, spatial: int) -> tuple[list[int], list[int], list[int]]:
    """Strides, dilations and pads, their defaults spelled out."""
    ones = [1] * spatial
    return op.attr("strides") or ones, op.attr("dilations") or ones, op.attr("pads") or [0] * 2 * spatial


def _recorded_input_shape(op: Op, index: int) -> Shape | None:
    value = op.input(index)
    return value.recorded_type[1] if value is not None else None
