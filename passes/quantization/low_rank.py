"""Weights of low rank: a convolution or a product becomes two narrow ones, with the least error on data.

For inputs with the Gram matrix G, the best weights of rank r in place of w are w @ q @ q.T: q are the eigenvectors of
the r largest eigenvalues of w.T @ G @ w, the Gram matrix of the results. The error is the sum of the other eigenvalues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf, sqrt
from time import monotonic

import numpy as np
from msgspec import Struct

from ...core import ChangeLog, Graph, Op, RewriteBuilder
from ...core.calibration.statistics import Gram, ValueStatistics
from ...core.ir.dtypes import HALF_OR_SINGLE
from ..linear.convolution import group_count
from ..linear.products import PRODUCTS
from ..support.operand_queries import Array, operand
from .channel_scales import replace_input
from .layer_rounding import in_matrices
from .pruning import bias_place, damped_grams, kernel_step, linear_ops, multiplications_of, row_gram

LARGEST = 0.9  # of the multiplications of a layer, which two ops may have; above it the second op takes what they save
PRICES = 1e-15, 1e15  # of all multiplications, in errors relative to the power of results
HALVINGS = 100  # of the ratio of these prices


class LayerFactors(Struct, frozen=True):
    """Weights `first` @ `second` for a layer, and what to add to its bias; None for nothing.

    They are (elements of rows, rank) and (rank, outputs).
    """

    first: Array
    second: Array
    shift: Array | None


class LayerRank(Struct, frozen=True):
    """The rank of the weights of the layer that computes a value, and the rank that they can have."""

    value: str
    rank: int
    full: int


class LowRankPlan(Struct, frozen=True):
    """The weights of layers by the names of their results, and the `share` of the multiplications that is left."""

    share: float
    factors: Mapping[str, LayerFactors]

    @property
    def ranks(self) -> tuple[LayerRank, ...]:
        """The ranks of the layers, in model order."""
        return tuple(
            LayerRank(name, len(found.second), min(len(found.first), found.second.shape[1]))
            for name, found in self.factors.items()
        )


class LayerSpectrum:
    """The errors of a layer with some `ranks`, relative to its power, and its `shares` of all multiplications.

    The last one is the layer as it is, with a `share`.
    """

    def __init__(self, op: Op, gram: Gram, share: float) -> None:
        self.op = op
        (self.weights,) = in_matrices(op, operand(op, 1).const.astype(np.float64))
        (self.means,) = gram.totals / max(gram.rows, 1)
        rows, columns = self.weights.shape
        basis, turned = np.linalg.qr(self.weights.T) if columns > rows else (np.eye(columns), self.weights.T)
        powers, vectors = np.linalg.eigh(turned @ damped_grams(op, gram)[0] @ turned.T)
        self.directions = basis @ vectors[:, ::-1]
        lost = np.cumsum(np.maximum(powers, 0.0))[::-1]  # by rank, from 0
        self.full = min(rows, columns)
        step, most = kernel_step(self.full), LARGEST * rows * columns / (rows + columns)
        self.ranks = [*(r for r in range(step, self.full, step) if r <= most), self.full]
        self.errors = np.append(lost[self.ranks[:-1]], 0.0) / (lost[0] or 1.0)
        self.shares = np.array([r * (rows + columns) / (rows * columns) for r in self.ranks[:-1]] + [1.0]) * share

    def best(self, price: float) -> int:
        """The index of the rank with the least error plus price of multiplications."""
        return int(np.argmin(self.errors + price * self.shares))

    def factors(self, rank: int) -> LayerFactors:
        """The weights of a rank."""
        kept = self.directions[:, :rank]
        first = self.weights @ kept
        shift = self.means @ (self.weights - first @ kept.T) if bias_place(self.op) is not None else None
        return LayerFactors(first, kept.T, shift)


def factorable_ops(graph: Graph) -> Iterator[Op]:
    """The convolutions and products whose constant weights nothing else uses."""
    for op in linear_ops(graph):
        w = operand(op, 1)
        is_alone = len(w.consumers) == 1 and op.inputs.count(w) == 1 and not graph.is_output(w)
        is_whole = op.type in PRODUCTS or (op.type == "Conv" and group_count(op, w) == 1)
        if is_whole and is_alone and w.dtype in HALF_OR_SINGLE:
            yield op


class LowRank:
    """The layers of a graph whose weights can be of low rank, with what that costs and saves.

    `statistics` have the Gram matrices of the inputs of `factorable_ops`, and the numbers of elements of the results of
    `linear_ops`. After `until`, a time of `monotonic`, no further layers are decomposed, and the others stay.
    """

    def __init__(self, graph: Graph, statistics: Mapping[str, ValueStatistics], until: float = inf) -> None:
        self.total = sum(multiplications_of(op, statistics) for op in linear_ops(graph))
        self.layers: list[LayerSpectrum] = []
        for op in factorable_ops(graph):
            gram = row_gram(op, statistics)
            if gram is not None and monotonic() <= until:
                self.layers.append(LayerSpectrum(op, gram, multiplications_of(op, statistics) / (self.total or 1.0)))

    def plan(self, share: float) -> LowRankPlan:
        """The ranks with which at most this share of the multiplications is left, or the least possible one.

        Each layer has the rank of the least error plus one price for each multiplication, the lowest that suffices.
        """

        def left(price: float) -> float:
            saved = sum(layer.shares[-1] - layer.shares[layer.best(price)] for layer in self.layers)
            return float(1 - saved)

        low, high = PRICES
        for _ in range(HALVINGS):
            middle = sqrt(low * high)
            low, high = (low, middle) if left(middle) <= share else (middle, high)
        chosen = [(layer, layer.ranks[layer.best(high)]) for layer in self.layers]
        factors = {layer.op.outputs[0].name: layer.factors(rank) for layer, rank in chosen if rank < layer.full}
        return LowRankPlan(left(high), factors)


@dataclass(frozen=True, slots=True)
class FactorLayers:
    """x @ w => x @ u @ v, u and v narrower, such that the product is nearly the same on data

    So for Gemm, and for Conv, whose second one is 1 x 1. `plan` is of a `LowRank` of the same graph.
    """

    plan: LowRankPlan = field(compare=False, repr=False)
    name: str = "factor-layers"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Replace each layer of the plan in a change named after its result. O(ops + weights)."""
        changes = 0
        for op in linear_ops(graph):
            place = op.outputs[0].name
            found = self.plan.factors.get(place)
            if found is not None and change_log.request_change(self.name, place, (op,), exact=False):
                replace_layer(graph, op, found)
                changes += 1
        return changes


def replace_layer(graph: Graph, op: Op, found: LayerFactors) -> None:
    """Replace a convolution or a product by two, with the weights and the bias of `found`."""
    g, x, w, place = RewriteBuilder(graph, op), operand(op), operand(op, 1), bias_place(op)
    if found.shift is not None and place is not None:
        old = place[0].input(place[1])
        bias = found.shift if old is None else old.const.astype(np.float64) + found.shift
        replace_input(*place, g.const(bias, like=w))
    u, v = found.first, found.second
    if op.type == "Conv":
        u = u.T.reshape(-1, *w.static_shape[1:])
        v = v.T.reshape(*v.T.shape, *[1] * (w.rank - 2))
    elif op.attr("transB", 0):
        v = v.T
    first, second = (g.const(np.ascontiguousarray(a), like=w) for a in (u, v))
    if op.type == "Conv":
        made = g.Conv(g.Conv(x, first, **op.attrs), second, op.input(2))
    else:
        inner = g.MatMul(x, first)
        made = g.MatMul(inner, second) if op.type == "MatMul" else g.Gemm(inner, second, op.input(2), **op.attrs)
    graph.take_over(made, op.outputs[0])
    graph.discard([op])
