"""Cross-layer equalization: channels of alike size in the weights before and behind a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core import Graph, Ledger, MatchFailure, Op, require
from ..support.operand_queries import Array
from .channel_scales import LINEAR_OPS, ScalableValue, bounded, divide, scalable_value, scalable_values

MAX_ROUNDS = 30
LEAST_CHANGE = 0.01  # of a scale, relative: a smaller one is not made


@dataclass(frozen=True, slots=True)
class EqualizeChannels:
    """Relu(x @ u + b) @ v => Relu(x @ (u / s) + b / s) @ (s * v), s = sqrt(max |u| / max |v|) for each channel

    So for Conv, of groups too, and Gemm, through what scales with its operand: LeakyRelu, pools, Flatten, Add of a
    constant (Nagel et al. 2019, arXiv 1906.04721, section 4.1). Ranges of values between are to be calibrated anew.
    """

    name: str = "equalize-channels"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Equalize all pairs together, each in a change named after the value between. O(ops + weights)."""
        values: list[ScalableValue] = []
        for v in (v for g in graph.with_subgraphs() for v in scalable_values(g.sorted_ops())):
            try:
                found = scalable_value(v)
                require(found.source.type in LINEAR_OPS, f"{found.source.label} has no weights")
            except MatchFailure as why:
                ledger.record_decline(self.name, v.name, str(why))
                continue
            if ledger.may_change(self.name, v.name, exact=False):
                values.append(found)
        changed: list[tuple[ScalableValue, Array]] = []
        for value, scales in zip(values, equalizing_scales(values), strict=True):
            if np.abs(np.log(scales)).max(initial=0) < np.log1p(LEAST_CHANGE):
                ledger.record_decline(self.name, value.value.name, "its channels are alike")
            elif ledger.request_change(self.name, value.value.name, value.ops, exact=False):
                changed.append((value, scales))
        divide(changed)
        return len(changed)


def equalizing_scales(values: Sequence[ScalableValue]) -> list[Array]:
    """The scales for each value with which, repeated over all values, weights are alike: equation 11 of the paper.

    1 for a channel that a weight does not use.
    """
    sizes: dict[Op, Array] = {}
    for c in (c for value in values for c in (value.made_by[0], *value.read_by)):
        if c.op not in sizes:
            sizes[c.op] = c.sizes()
    found = [np.ones(value.made_by[0].channels) for value in values]
    for _ in range(MAX_ROUNDS):
        change = 0.0
        for i, value in enumerate(values):
            made = value.made_by[0]
            first = made.largest(sizes[made.op])
            second = np.max([c.largest(sizes[c.op]) for c in value.read_by], axis=0)
            is_used = (first > 0) & (second > 0)
            step = np.sqrt(np.where(is_used, first, 1) / np.where(is_used, second, 1))
            step = bounded(found[i] * step) / found[i]
            found[i] = found[i] * step
            sizes[made.op] = sizes[made.op] / made.factors(step)
            for c in value.read_by:
                sizes[c.op] = sizes[c.op] * c.factors(step)
            change = max(change, float(np.abs(np.log(step)).max(initial=0)))
        if change < LEAST_CHANGE:
            break
    return found
