"""Generators for convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence

from .generator import OpSite
from .model_builder import GenerationError, Shape

AUTO_PADS = ("SAME_UPPER", "SAME_LOWER", "VALID")


def spatial_shape(site: OpSite) -> Shape:
    """The shape of the first input: a batch, channels and one to three more dims."""
    return site.first_operand(3).shape


def kernel_sizes(site: OpSite, dims: Shape, *, same: bool) -> list[int]:
    """Kernel sizes, odd ones for outputs of the size of the input."""
    sizes = (1, 3) if same else (1, 2, 3)
    return [site.choices.pick([k for k in sizes if k <= max(d, 1)]) for d in dims]


def strides_and_pads(site: OpSite, kernel: Sequence[int], *, same: bool, dilated: bool = True) -> None:
    """Strides, pads and dilations."""
    n = len(kernel)
    if same:
        pads = [k // 2 for k in kernel]
        if any(pads):
            site.parameter("pads", lambda: pads + pads, needed=True)
        return
    site.parameter("strides", lambda: [1 + site.choices.draw_below(2) for _ in kernel])
    if dilated:
        site.parameter("dilations", lambda: [1 + site.choices.draw_below(2) for _ in kernel])
    if site.choices.one_in(4):
        site.parameter("auto_pad", lambda: site.choices.pick(AUTO_PADS))
    else:
        site.parameter("pads", lambda: [site.choices.draw_below(2) for _ in range(2 * n)])


def conv(site: OpSite) -> None:
    """Conv, ConvInteger and QLinearConv: a weight that fits the input; scales and zero points are scalars."""
    x = spatial_shape(site)
    _batch, channels, *dims = x
    same = site.choices.draw_below(2) == 0
    index = 3 if site.op_type == "QLinearConv" else 1
    settled = site.existing_operand(index)
    group = site.parameter("group", lambda: site.choices.pick(group_counts(channels)), 1)
    kernel = list(settled.shape[2:]) if settled else kernel_sizes(site, tuple(dims), same=same)
    if len(kernel) != len(dims):
        raise GenerationError("the weight is of another rank")
    wished = site.hint.shape[1] if len(site.hint.shape) > 1 else channels
    out = site.choices.pick([m for m in (wished, group, 2 * group, 1, 2, 3) if m and m % group == 0])
    w = site.operand(index, (out, channels // max(group, 1), *kernel)).shape
    if site.choices.draw_below(2):
        site.parameter("kernel_shape", lambda: kernel)
    strides_and_pads(site, kernel, same=same)
    bias = {"Conv": 2, "FusedConv": 2, "QLinearConv": 8}.get(site.op_type, 0)
    if bias and site.wants_input(bias):
        site.operand(bias, w[:1])
    site.add_remaining_operands(())


def conv_transpose(site: OpSite) -> None:
    """ConvTranspose, whose weight has the input channels first."""
    _batch, channels, *dims = spatial_shape(site)
    settled = site.existing_operand(1)
    group = site.parameter("group", lambda: site.choices.pick(group_counts(channels)), 1)
    kernel = list(settled.shape[2:]) if settled else kernel_sizes(site, tuple(dims), same=False)
    out = site.choices.pick((1, 2, 3))
    w = site.operand(1, (channels, out, *kernel)).shape
    if site.choices.draw_below(2):
        site.parameter("kernel_shape", lambda: kernel)
    strides = site.parameter("strides", lambda: [1 + site.choices.draw_below(2) for _ in kernel], [1])
    if max(strides, default=1) > 1:
        site.parameter("output_padding", lambda: [site.choices.draw_below(2) for _ in kernel])
    site.parameter("pads", lambda: [site.choices.draw_below(2) for _ in range(2 * len(kernel))])
    if site.wants_input(2):
        site.operand(2, (w[1] * group,))


def pool(site: OpSite) -> None:
    """AveragePool, MaxPool and LpPool."""
    dims = spatial_shape(site)[2:]
    same = site.choices.draw_below(4) == 0
    kernel = site.parameter("kernel_shape", lambda: kernel_sizes(site, dims, same=same), needed=True)
    if kernel is None:
        kernel = site.attrs["kernel_shape"] = kernel_sizes(site, dims, same=same)
    if len(kernel) != len(dims):
        raise GenerationError("the window is of another rank")
    if site.choices.one_in(3):
        site.parameter("pads", lambda: [min(k - 1, site.choices.draw_below(2)) for k in (*kernel, *kernel)])
        site.parameter("strides", lambda: [1 + site.choices.draw_below(2) for _ in kernel])
    else:
        padded = all(k > 1 for k in kernel)
        strides_and_pads(site, kernel, same=same or not padded, dilated=site.op_type != "LpPool")
    site.parameter("ceil_mode", lambda: site.choices.draw_below(2))
    site.parameter("count_include_pad", lambda: site.choices.draw_below(2))


def global_pool(site: OpSite) -> None:
    """GlobalAveragePool and other global pooling."""
    spatial_shape(site)


def group_counts(channels: int) -> list[int]:
    """Valid numbers of groups of the channels."""
    return [1, *(d for d in range(2, channels + 1) if channels % d == 0)]
