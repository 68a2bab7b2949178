"""Folding of Pads into the padding of convolutions and pools."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from ...core import EXACT, Op, RewriteBuilder, Value, by_dtype, require, rule
from ...core.ir.dtypes import INTEGERS
from ...core.ir.expressions import is_known_le
from ..support.operand_queries import operand, pads_of, required_scalar
from .convolution import Window, conv_window, parse_window


@rule(
    lambda g, pad, conv: g.one_of("Conv", "ConvInteger", "QLinearConv")(g.Pad(...) @ pad, ...) @ conv,
    contract=by_dtype(INTEGERS, EXACT),
    group="fold-pad-into-conv",
)
def fold_pad_into_conv(g: RewriteBuilder, pad: Op, conv: Op) -> Value:
    """Conv(Pad(x, 0), w, b) => Conv(x, w, b), pads; so QLinearConv and ConvInteger, padded with their zero point"""
    w, zero = operand(conv, 3 if conv.type == "QLinearConv" else 1), conv.input(2)
    around = padded_window(conv_window(conv, w, pad.outputs[0]), pad, w.rank)
    number = 0 if conv.type == "Conv" or zero is None else required_scalar(zero)
    require(pad_value(pad) == number, "it does not pad with zeros")
    return getattr(g, conv.type)(operand(pad), *conv.inputs[1:], **attributes_with_pads(conv, around))


def padded_window(inner: Window, pad: Op, rank: int) -> Window:
    """The window `inner` on the input of `pad` instead of its output."""
    require(pad.attr("mode", "constant") == "constant", "it does not pad with a constant")
    pads = pads_of(pad, rank)
    before, after = pads[:rank], pads[rank:]
    require(not any((*before[:2], *after[:2])), "it pads the batch or the channels")
    more = (*before[2:], *after[2:])
    require(min(more) >= 0 and min(inner.pads) >= 0, "it cuts off")
    return Window(inner.kernel, inner.strides, inner.dilations, tuple(map(sum, zip(inner.pads, more, strict=True))))


def pad_value(pad: Op) -> float:
    """The number that a Pad pads with."""
    if pad.version < 11:
        return float(pad.attr("value", 0.0))
    value = pad.input(2)
    return 0.0 if value is None else float(required_scalar(value))


def attributes_with_pads(op: Op, around: Window) -> dict[str, Any]:
    """The attributes of `op` with other pads."""
    attrs = {name: value for name, value in op.attrs.items() if name != "auto_pad"}
    return {**attrs, "pads": list(around.pads)}


@rule(lambda g, x, pool, pad: g.AveragePool(g.Pad(x, ...) @ pad) @ pool, group="fold-pad-into-pool")
def fold_pad_into_average_pool(g: RewriteBuilder, x: Value, pool: Op, pad: Op) -> Value:
    """AveragePool(Pad(x, 0)) => AveragePool(x), pads that count"""
    inner = dense_window(pool)
    require(pool.version >= 7, "before opset 7 padding is never counted")
    require(pool.attr("count_include_pad", 0) == 1 or not any(inner.pads), "the pool does not count its own padding")
    around = padded_pool_window(inner, x, pad)
    require(pad_value(pad) == 0, "it does not pad with zeros")
    attrs = attributes_with_pads(pool, around)
    attrs["count_include_pad"] = 1
    return g.AveragePool(x, **attrs)


@rule(lambda g, x, pool, pad: g.MaxPool(g.Pad(x, ...) @ pad) @ pool, contract=EXACT, group="fold-pad-into-pool")
def fold_pad_into_max_pool(g: RewriteBuilder, x: Value, pool: Op, pad: Op) -> Value:
    """MaxPool(Pad(x, c)) => MaxPool(x), pads, of integers; c is the least there is"""
    # The result of onnxruntime for NaN and infinities depends on the place of the padding.
    require(x.dtype in (TensorProto.INT8, TensorProto.UINT8), "it is not of integers")
    around = padded_pool_window(dense_window(pool), x, pad)
    require(pad_value(pad) == (0 if x.dtype == TensorProto.UINT8 else -128), "a padded element may be the greatest")
    return g.MaxPool(x, outputs=1, **attributes_with_pads(pool, around))[0]


def dense_window(pool: Op) -> Window:
    """The window of a pool that holds a real element at every position, if no padding is wider than the kernel."""
    require(not pool.attr("ceil_mode", 0), "a last window may hang over the end")
    inner = parse_window(pool, pool.attr("kernel_shape") or [])
    require(bool(inner.kernel) and set(inner.dilations) <= {1}, "a window may step over all elements")
    return inner


def padded_pool_window(inner: Window, x: Value, pad: Op) -> Window:
    """The window with the padding of `pad`, narrower than the kernel as onnxruntime demands."""
    around = padded_window(inner, pad, len(inner.kernel) + 2)
    n = len(inner.kernel)
    require(all(p < inner.kernel[i % n] for i, p in enumerate(around.pads)), "a window might see padding alone")
    filled = all(d is not None and is_known_le(1, d) for d in x.shape[2:])
    require(filled, f"{x.name} may be empty")  # no pool takes that, but Pad does
    return around
