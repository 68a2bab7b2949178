"""Generators for operators over axes: reductions, cumulative sums, softmax, normalization."""

from __future__ import annotations

from .generator import OpSite
from .model_builder import TypedValue


def draw_axis(site: OpSite, x: TypedValue) -> int:
    """An axis of `x`, sometimes counted from the end."""
    rank = max(len(x.shape), 1)
    axis = site.choices.draw_below(rank)
    return axis - rank if site.choices.draw_below(2) else axis


def draw_axes(site: OpSite, rank: int) -> list[int]:
    """One or more axes out of `rank`, sometimes counted from the end."""
    axes = site.choices.subset(range(max(rank, 1)))
    if site.choices.one_in(4):
        axes = axes[::-1]
    return [a - max(rank, 1) for a in axes] if site.choices.draw_below(2) else axes


def reduce(site: OpSite) -> None:
    """A reduction over some axes, or over all."""
    x = site.first_operand(1)
    site.parameter("axes", lambda: draw_axes(site, len(x.shape)))
    site.parameter("keepdims", lambda: site.choices.draw_below(2), 1)
    site.parameter("noop_with_empty_axes", lambda: site.choices.draw_below(2), 0)


def arg_reduce(site: OpSite) -> None:
    """ArgMax and ArgMin."""
    x = site.first_operand(1)
    site.parameter("axis", lambda: draw_axis(site, x))
    site.parameter("keepdims", lambda: site.choices.draw_below(2))
    site.parameter("select_last_index", lambda: site.choices.draw_below(2))


def softmax(site: OpSite) -> None:
    """Softmax and other operators with one axis."""
    x = site.first_operand(1)
    site.parameter("axis", lambda: draw_axis(site, x))


def cumulative(site: OpSite) -> None:
    """CumSum and CumProd."""
    x = site.first_operand(1)
    site.parameter("axis", lambda: draw_axis(site, x))
    site.parameter("exclusive", lambda: site.choices.draw_below(2))
    site.parameter("reverse", lambda: site.choices.draw_below(2))


def top_k(site: OpSite) -> None:
    """TopK."""
    x = site.first_operand(1)
    dim = x.dim_at(site.parameter("axis", lambda: draw_axis(site, x), -1))
    site.parameter("K", lambda: [1 + site.choices.draw_below(max(dim, 1))], needed=True)
    site.parameter("largest", lambda: site.choices.draw_below(2))
    site.output_count = 2


def batch_norm(site: OpSite) -> None:
    """BatchNormalization with statistics for each channel."""
    x = site.first_operand(2, 4)
    for i in range(1, 5):
        if site.wants_input(i):
            site.operand(i, x.shape[1:2], positive=i == 4)
    site.parameter("epsilon", lambda: site.choices.pick((0.5, 1e-3, 0.0)))
    site.parameter("momentum", lambda: 0.5)
    if site.parameter("training_mode", lambda: int(site.choices.one_in(4)), 0):
        site.output_count = 3


def layer_norm(site: OpSite) -> None:
    """LayerNormalization and RMSNormalization: weights for all dims from the axis on."""
    x = site.first_operand(1)
    rank = len(x.shape)
    axis = site.parameter("axis", lambda: draw_axis(site, x), -1)
    site.parameter("epsilon", lambda: site.choices.pick((0.5, 1e-3)))
    shape = x.shape[axis:] if -rank <= axis < rank else ()
    for i in (1, 2):
        if site.wants_input(i):
            site.operand(i, shape)


def channel_norm(site: OpSite) -> None:
    """InstanceNormalization, GroupNormalization: a scale and a bias for each channel."""
    x = site.first_operand(3, 4)
    if site.op_type == "GroupNormalization":
        site.attrs["num_groups"] = 1
    site.add_remaining_operands(x.shape[1:2])


def lp_norm(site: OpSite) -> None:
    """LpNormalization."""
    softmax(site)
    site.parameter("p", lambda: 1 + site.choices.draw_below(2))


def reverse_sequence(site: OpSite) -> None:
    """ReverseSequence."""
    x = site.first_operand(2)
    batch: int = site.parameter("batch_axis", lambda: site.choices.draw_below(2), 1)
    site.parameter("time_axis", lambda: 1 - batch, 0)
    times, count = x.dim_at(1 - batch), x.dim_at(batch)
    site.parameter("sequence_lens", lambda: [site.choices.draw_below(times + 1) for _ in range(count)])
