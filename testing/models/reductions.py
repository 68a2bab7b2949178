"""Operators over axes: reductions, running sums, softmax, normalization."""

from __future__ import annotations

from .generator import Site
from .model_builder import Known


def axis_of(site: Site, x: Known) -> int:
    """An axis of `x`, counted from the end at times."""
    rank = max(len(x.shape), 1)
    axis = site.choices.below(rank)
    return axis - rank if site.choices.below(2) else axis


def axes_of(site: Site, rank: int) -> list[int]:
    """One or more axes out of `rank`, counted from the end at times."""
    axes = site.choices.some(range(max(rank, 1)))
    if site.choices.one_in(4):
        axes = axes[::-1]
    return [a - max(rank, 1) for a in axes] if site.choices.below(2) else axes


def reduce(site: Site) -> None:
    """A reduction over some axes, or over all."""
    x = site.main(1)
    site.parameter("axes", lambda: axes_of(site, len(x.shape)))
    site.parameter("keepdims", lambda: site.choices.below(2), 1)
    site.parameter("noop_with_empty_axes", lambda: site.choices.below(2), 0)


def arg(site: Site) -> None:
    """ArgMax and ArgMin."""
    x = site.main(1)
    site.parameter("axis", lambda: axis_of(site, x))
    site.parameter("keepdims", lambda: site.choices.below(2))
    site.parameter("select_last_index", lambda: site.choices.below(2))


def along(site: Site) -> None:
    """Softmax and what else has one axis."""
    x = site.main(1)
    site.parameter("axis", lambda: axis_of(site, x))


def running(site: Site) -> None:
    """CumSum and CumProd."""
    x = site.main(1)
    site.parameter("axis", lambda: axis_of(site, x))
    site.parameter("exclusive", lambda: site.choices.below(2))
    site.parameter("reverse", lambda: site.choices.below(2))


def top(site: Site) -> None:
    """TopK."""
    x = site.main(1)
    dim = x.along(site.parameter("axis", lambda: axis_of(site, x), -1))
    site.parameter("K", lambda: [1 + site.choices.below(max(dim, 1))], needed=True)
    site.parameter("largest", lambda: site.choices.below(2))
    site.outputs = 2


def batch_norm(site: Site) -> None:
    """BatchNormalization with statistics for each channel."""
    x = site.main(2, 4)
    for i in range(1, 5):
        if site.takes(i):
            site.operand(i, x.shape[1:2], positive=i == 4)
    site.parameter("epsilon", lambda: site.choices.pick((0.5, 1e-3, 0.0)))
    site.parameter("momentum", lambda: 0.5)
    if site.parameter("training_mode", lambda: int(site.choices.one_in(4)), 0):
        site.outputs = 3


def layer_norm(site: Site) -> None:
    """LayerNormalization and RMSNormalization: weights for all dims from the axis on."""
    x = site.main(1)
    rank = len(x.shape)
    axis = site.parameter("axis", lambda: axis_of(site, x), -1)
    site.parameter("epsilon", lambda: site.choices.pick((0.5, 1e-3)))
    shape = x.shape[axis:] if -rank <= axis < rank else ()
    for i in (1, 2):
        if site.takes(i):
            site.operand(i, shape)


def channel_norm(site: Site) -> None:
    """InstanceNormalization, GroupNormalization: a scale and a bias for each channel."""
    x = site.main(3, 4)
    if site.type == "GroupNormalization":
        site.attrs["num_groups"] = 1
    site.fill(x.shape[1:2])


def lp_norm(site: Site) -> None:
    """LpNormalization."""
    along(site)
    site.parameter("p", lambda: 1 + site.choices.below(2))


def reverse(site: Site) -> None:
    """ReverseSequence."""
    x = site.main(2)
    batch: int = site.parameter("batch_axis", lambda: site.choices.below(2), 1)
    site.parameter("time_axis", lambda: 1 - batch, 0)
    times, count = x.along(1 - batch), x.along(batch)
    site.parameter("sequence_lens", lambda: [site.choices.below(times + 1) for _ in range(count)])
