"""Zeros padded in front of a convolution are its own padding."""

from __future__ import annotations

from ...core import EXACT, ROUNDING, Build, Op, RulePass, Value, require, rule
from ..operands import number_in, pads_of
from .windows import Window, window


@rule(lambda g, x, w, conv, pad, rest, b=None: g.Conv(g.Pad(x, *rest) @ pad, w, b) @ conv, contract=ROUNDING)
def fold_pad_into_conv(
    g: Build, x: Value, w: Value, b: Value | None, rest: tuple[Value | None, ...], conv: Op, pad: Op
) -> Value:
    """Conv(Pad(x, 0), w, b) => Conv(x, w, b), pads"""
    around = padded(window(conv, w, pad.outputs[0]), pad, w.rank)
    require(fill_of(pad) == 0, "it does not pad with zeros")
    made: Value = g.Conv(x, w, b, **with_pads(conv, around))
    return made


@rule(
    lambda g, x, x_scale, x_zero, w, after, conv, pad, rest: (
        g.QLinearConv(g.Pad(x, *rest) @ pad, x_scale, g.const(x_zero), w, *after) @ conv
    ),
    contract=EXACT,
)
def fold_pad_into_quantized_conv(
    g: Build,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    w: Value,
    after: tuple[Value | None, ...],
    conv: Op,
    pad: Op,
    rest: tuple[Value | None, ...],
) -> Value:
    """QLinearConv(Pad(x, zero point), ...) => QLinearConv(x, ...), pads"""
    around = padded(window(conv, w, pad.outputs[0]), pad, w.rank)
    require(fill_of(pad) == number_in(x_zero), "it does not pad with zeros")
    made: Value = g.QLinearConv(x, x_scale, x_zero, w, *after, **with_pads(conv, around))
    return made


@rule(lambda g, x, w, after, conv, pad, rest: g.ConvInteger(g.Pad(x, *rest) @ pad, w, *after) @ conv, contract=EXACT)
def fold_pad_into_integer_conv(
    g: Build,
    x: Value,
    w: Value,
    after: tuple[Value | None, ...],
    conv: Op,
    pad: Op,
    rest: tuple[Value | None, ...],
) -> Value:
    """ConvInteger(Pad(x, zero point), w, ...) => ConvInteger(x, w, ...), pads"""
    around = padded(window(conv, w, pad.outputs[0]), pad, w.rank)
    zero = after[0] if after else None
    require(fill_of(pad) == (0 if zero is None else number_in(zero)), "it does not pad with zeros")
    made: Value = g.ConvInteger(x, w, *after, **with_pads(conv, around))
    return made


def padded(inner: Window, pad: Op, rank: int) -> Window:
    """The window `inner` on what `pad` is given instead of what it gives."""
    require(pad.attr("mode", "constant") == "constant", "it does not pad with a constant")
    pads = pads_of(pad, rank)
    before, after = pads[:rank], pads[rank:]
    require(not any((*before[:2], *after[:2])), "it pads the batch or the channels")
    more = (*before[2:], *after[2:])
    require(min(more) >= 0 and min(inner.pads) >= 0, "it cuts off")
    return Window(inner.kernel, inner.strides, inner.dilations, tuple(map(sum, zip(inner.pads, more, strict=True))))


def fill_of(pad: Op) -> float:
    """The number that a Pad pads with."""
    if pad.version < 11:
        return float(pad.attr("value", 0.0))
    value = pad.input(2)
    return 0.0 if value is None else float(number_in(value))


def with_pads(op: Op, around: Window) -> dict[str, object]:
    """The attributes of `op` with other pads."""
    attrs = {name: value for name, value in op.attrs.items() if name != "auto_pad"}
    return {**attrs, "pads": list(around.pads)}


FOLD_PAD_INTO_CONV = RulePass(
    "fold-pad-into-conv", (fold_pad_into_conv, fold_pad_into_quantized_conv, fold_pad_into_integer_conv)
)
