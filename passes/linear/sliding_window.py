"""Where a convolution looks: kernel, strides, dilations and padding in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core import Op, Value, require


@dataclass(frozen=True, slots=True)
class Window:
    """For each spatial axis; `pads` has all begins, then all ends."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]

    @classmethod
    def point(cls, n: int) -> Window:
        """The window of one element, which moves by one along each of `n` axes."""
        return cls((1,) * n, (1,) * n, (1,) * n, (0,) * 2 * n)

    @property
    def span(self) -> tuple[int, ...]:
        """How far from the first the last tap is."""
        return tuple(d * (k - 1) for d, k in zip(self.dilations, self.kernel, strict=True))

    @property
    def output_growth(self) -> tuple[int, ...]:
        """By how much the output is larger than the input, before strides."""
        n = len(self.kernel)
        return tuple(self.pads[i] + self.pads[i + n] - r for i, r in enumerate(self.span))

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes that say so."""
        return {
            "kernel_shape": list(self.kernel),
            "strides": list(self.strides),
            "dilations": list(self.dilations),
            "pads": list(self.pads),
        }


def conv_window(conv: Op, w: Value, x: Value | None = None) -> Window:
    """The window of a Conv with weights `w`; declines where padding depends on an extent of `x` that is not known."""
    return parse_window(conv, w.static_shape[2:], x)


def parse_window(op: Op, kernel: Sequence[int], x: Value | None = None) -> Window:
    """The window of a Conv or a pool with that kernel."""
    n = len(kernel)
    strides = tuple(op.attr("strides") or [1] * n)
    dilations = tuple(op.attr("dilations") or [1] * n)
    pads = tuple(op.attr("pads") or [0] * 2 * n)
    require(len(strides) == len(dilations) == n and len(pads) == 2 * n, "the attributes do not fit the kernel")
    bare = Window(tuple(kernel), strides, dilations, (0,) * 2 * n)
    mode = op.attr("auto_pad", "NOTSET")
    if mode == "NOTSET":
        return Window(bare.kernel, strides, dilations, pads)
    if mode == "VALID":
        return bare
    require(mode in {"SAME_UPPER", "SAME_LOWER"}, f"auto_pad is {mode}")
    totals = [same_padding(x, i + 2, strides[i], reach) for i, reach in enumerate(bare.span)]
    less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
    begins, ends = (less, more) if mode == "SAME_UPPER" else (more, less)
    return Window(bare.kernel, strides, dilations, (*begins, *ends))


def same_padding(x: Value | None, axis: int, stride: int, span: int) -> int:
    """How much SAME padding there is in all (operator Conv, auto_pad): the output has ceil(extent / stride)."""
    if stride == 1 or span == 0:
        return span
    extent = None if x is None else x.shape[axis]
    require(isinstance(extent, int), "how much is padded depends on an unknown extent")
    assert isinstance(extent, int)
    return max((-(-extent // stride) - 1) * stride + span + 1 - extent, 0)


def union(a: Window, b: Window) -> Window:
    """The least window with the taps of both; declines where their outputs differ in extent or their taps in step."""
    require(a.strides == b.strides, "the strides differ")
    require(a.output_growth == b.output_growth, "the extents of the outputs differ")
    n = len(a.kernel)
    kernel, dilations, begins = [0] * n, [1] * n, [0] * n
    for i in range(n):
        step = a.dilations[i] if a.kernel[i] > 1 else b.dilations[i]
        require(b.kernel[i] == 1 or b.dilations[i] == step, "the dilations differ")
        begins[i] = max(a.pads[i], b.pads[i])
        last = max(a.span[i] - a.pads[i], b.span[i] - b.pads[i])
        require((a.pads[i] - b.pads[i]) % step == 0 and (last + begins[i]) % step == 0, "the taps do not coincide")
        kernel[i], dilations[i] = (last + begins[i]) // step + 1, step
    ends = [a.output_growth[i] + dilations[i] * (kernel[i] - 1) - begins[i] for i in range(n)]
    require(min(ends) >= 0 and min(begins) >= 0, "the padding is negative")
    return Window(tuple(kernel), a.strides, tuple(dilations), (*begins, *ends))


def tap_slices(inner: Window, outer: Window) -> tuple[slice, ...]:
    """Where the taps of `inner` lie among those of `outer`, which holds them all."""
    begins = [(o - i) // d for o, i, d in zip(outer.pads, inner.pads, outer.dilations, strict=False)]
    return tuple(slice(b, b + k) for b, k in zip(begins, inner.kernel, strict=True))
