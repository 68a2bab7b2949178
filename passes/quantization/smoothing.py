"""SmoothQuant: outliers of activations moved to the weights that read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...core import Graph, Ledger, MatchFailure, require
from ...core.errors import UsageError
from ..support.operand_queries import Array, known, unless_declined
from .channel_scales import ScalableValue, bounded, channel_axis, divide, scalable_value, scalable_values


def smoothable_channels(graph: Graph) -> dict[str, int]:
    """The values that can be smoothed, by name, each with the axis over which its readers sum. O(ops)."""
    found: dict[str, int] = {}
    for v in (v for g in graph.with_subgraphs() for v in scalable_values(g.sorted_ops())):
        value = unless_declined(scalable_value, v)
        if value is not None:
            found[v.name] = channel_axis(value.read_by[0].op, v)
    return found


@dataclass(frozen=True, slots=True)
class SmoothActivations:
    """LayerNormalization(x, g, b) @ w => LayerNormalization(x, g / s, b / s) @ (s * w), s for each channel of x

    s = max |x|^alpha / max |w|^(1 - alpha) (Xiao et al. 2022, arXiv 2211.10438, equation 4). `maxima` are the absolute
    maxima of the channels of values, by name (see `smoothable_channels`). So behind RMSNormalization, Mul, Add of a
    constant, and weights. Ranges are to be calibrated anew.
    """

    maxima: Mapping[str, Array] = field(default_factory=dict[str, Array], compare=False, repr=False)
    alpha: float = 0.5
    name: str = "smooth-activations"

    def __post_init__(self) -> None:
        """Raise UsageError for an alpha out of range."""
        if not 0 <= self.alpha <= 1:
            raise UsageError(f"alpha={self.alpha} is not between 0 and 1")

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Smooth each value with maxima in a change named after it. O(ops + weights)."""
        changes = 0
        for v in (v for g in graph.with_subgraphs() for v in scalable_values(g.sorted_ops()) if v.name in self.maxima):
            try:
                value = scalable_value(v)
                scales = self._scales(value)
            except MatchFailure as why:
                ledger.record_decline(self.name, v.name, str(why))
                continue
            if ledger.request_change(self.name, v.name, value.ops, exact=False):
                divide([(value, scales)])
                changes += 1
        return changes

    def _scales(self, value: ScalableValue) -> Array:
        """The scales for the channels of a value; 1 for one that is 0, or not read."""
        channels = value.made_by[0].channels
        given = known(self.maxima.get(value.value.name), "it has no maxima")
        activations = np.asarray(given, np.float64).reshape(-1)
        # Each channel of the source may be several in a row of the value.
        require(activations.size % channels == 0, f"{activations.size} maxima are given for {channels} channels")
        activations = activations.reshape(channels, -1).max(axis=1, initial=0.0)
        require(bool(np.isfinite(activations).all()), "a maximum is not finite")
        weights = np.max([c.largest(c.sizes()) for c in value.read_by], axis=0)
        is_used = (activations > 0) & (weights > 0)
        scales = np.where(is_used, activations, 1) ** self.alpha / np.where(is_used, weights, 1) ** (1 - self.alpha)
        return np.where(is_used, bounded(scales), 1.0)
