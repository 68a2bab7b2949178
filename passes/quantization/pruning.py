"""Structured pruning: channels, neurons and heads are removed, and weights fitted so that others stand in for them.

Which ones is decided by the inputs that layers have on data. A layer computes x @ w; without some columns of x, the
least squares fit v of x[kept] @ v to x @ w needs only the Gram matrix of x, and so does its error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import inf, prod
from time import monotonic
from typing import Any

import numpy as np
from msgspec import Struct
from networkx.utils import UnionFind

from ...core import ChangeLog, Graph, Op, RewriteBuilder, Value
from ...core.calibration.statistics import Gram, Rows, ValueStatistics
from ...core.ir.graph import invalidate_inference
from ...core.operators.operands import normalized_axis, slice_bounds
from ..linear.convolution import CONVOLUTIONS
from ..support.operand_queries import Array, has_n_consumers, known_extent, operand, unless_declined
from .channel_scales import replace_input
from .channels import FIXED, ChannelClasses, Reader
from .layer_rounding import MAX_COLUMNS, in_matrices, is_bias, rows_of
from .weight_rounding import shrunk_gram

LINEAR = (*CONVOLUTIONS, "Gemm", "MatMul")
STEPS = {32: 8, 16: 4}  # of what is left of at least so many channels, as kernels compute as many at once
LEAST_ROUND, ROUNDS = 8, 16  # channels of a round: at least so many, and a sixteenth of a group
LEAST_PART = 8  # of a group: an eighth stays at least
DAMPING = 1e-6  # of the mean of the diagonal, so that constant columns can be inverted


class FittedWeights(Struct, frozen=True):
    """The weights of a layer for the channels that are left, and what to add to its bias; None for nothing."""

    weights: Array
    shift: Array | None


class RemovedChannels(Struct, frozen=True):
    """The number of removed channels that begin at a value; heads and neurons are channels, too."""

    value: str
    removed: int
    channels: int


class PruningPlan(Struct, frozen=True):
    """The classes of channels to remove, and the `share` of the multiplications that is left.

    `fitted` are the weights of layers by the names of their results.
    """

    share: float
    classes: frozenset[int]
    fitted: Mapping[str, FittedWeights]
    removed: tuple[RemovedChannels, ...]


@dataclass
class ChannelGroup:
    """Classes of channels that the same weights make: candidates for removal in the `order` of least harm.

    `errors`: of the layers that read them, relative to the power of their results, without the first 1, 2, ...
    """

    value: str
    classes: list[int]
    order: list[int] = field(default_factory=list[int])
    errors: list[float] = field(default_factory=list[float])

    @property
    def step(self) -> int:
        """The number of classes that are removed at a time."""
        return kernel_step(len(self.classes))

    @property
    def sizes(self) -> list[int]:
        """The numbers of classes that may be removed: a multiple of the step is left."""
        count, step = len(self.classes), self.step
        least = max(1, count // LEAST_PART)
        kept = range((count - 1) // step * step, least - 1, -step)
        return [count - k for k in kept if count - k <= len(self.order)]


class LayerFit:
    """The weights of a reader, and the Gram matrices of its inputs, centred if it has a bias."""

    def __init__(self, classes: ChannelClasses, reader: Reader, gram: Gram) -> None:
        op, self.reader = reader.op, reader
        w = operand(op, 1)
        per_group = classes.roots(reader.labels)[: len(reader.labels) // reader.groups]
        self.columns = np.repeat(per_group, prod(w.static_shape[2:]) if op.type == "Conv" else 1)
        self.weights = in_matrices(op, w.const.astype(np.float64))
        self.means = gram.totals / max(gram.rows, 1)
        self.is_centred = bias_place(op) is not None
        self.grams = damped_grams(op, gram)
        self.power = float((self.weights * (self.grams @ self.weights)).sum()) or 1.0

    def fitted(self, removed: Collection[int]) -> FittedWeights:
        """The weights for the columns that are left, in the form of the op."""
        kept = ~np.isin(self.columns, [*removed])
        inner = self.grams[:, kept][:, :, kept]
        found = np.linalg.solve(inner, self.grams[:, kept] @ self.weights)
        shift = (self.means[:, None] @ self.weights - self.means[:, None, kept] @ found).reshape(-1)
        op, w = self.reader.op, operand(self.reader.op, 1)
        turned = found.swapaxes(1, 2) if op.type == "Conv" or op.attr("transB", 0) else found
        shape = [*w.static_shape]
        shape[self.reader.axis] = -1
        return FittedWeights(turned.reshape(shape), shift if self.is_centred else None)


def damped_grams(op: Op, gram: Gram) -> Array:
    """The Gram matrices of the inputs of a layer, shrunk so that they can be inverted; centred if it has a bias."""
    means = gram.totals / max(gram.rows, 1)
    products = gram.rows * means[:, :, None] * means[:, None] if bias_place(op) is not None else 0.0
    grams = np.stack([shrunk_gram(g, gram.rows) for g in gram.sums - products])
    for g in grams:
        np.einsum("ii->i", g)[:] += DAMPING * np.trace(g) / len(g) or 1.0
    return grams


def inverse(gram: Array) -> Array:
    """The inverse of a Gram matrix."""
    return np.linalg.inv(gram)


def bias_place(op: Op) -> tuple[Op, int] | None:
    """The op and the input that add a bias to a Conv or a product: its own, or the Add behind; None if none can."""
    if op.type != "MatMul":
        is_plain = op.attr("alpha", 1.0) == op.attr("beta", 1.0) == 1
        bias = op.input(2)
        is_alone = bias is None or (bias.is_const and len(bias.consumers) == 1 and bias.rank == 1)
        return (op, 2) if is_plain and is_alone else None
    y = op.outputs[0]
    add = next(iter(y.consumers), None)
    if add is None or not has_n_consumers(y) or not is_bias(add, y):
        return None
    index = int(add.inputs[0] is y)
    bias = operand(add, index)
    is_alone = bias.is_const and len(bias.consumers) == 1 and bias.rank == 1 and bias.shape[0] == y.shape[-1]
    return (add, index) if is_alone else None


def input_rows(layers: Iterable[Op]) -> dict[str, set[Rows]]:
    """The rows of the inputs of layers, by name, of which `Pruning` and `LowRank` need the Gram matrices."""
    found: dict[str, set[Rows]] = {}
    for op in layers:
        rows = unless_declined(rows_of, op)
        if rows is not None and rows.columns <= MAX_COLUMNS:
            found.setdefault(operand(op).name, set()).add(rows)
    return found


def row_gram(op: Op, statistics: Mapping[str, ValueStatistics]) -> Gram | None:
    """The Gram matrices of the inputs of a layer; None if there are none, or the weights are not finite."""
    rows, found = unless_declined(rows_of, op), statistics.get(operand(op).name)
    is_finite = np.isfinite(operand(op, 1).const).all()
    return found.grams.get(rows) if rows is not None and found is not None and is_finite else None


def linear_ops(graph: Graph) -> list[Op]:
    """The convolutions and products with constant weights of a graph."""
    ops = (op for op in graph.sorted_ops() if op.type in LINEAR and not op.domain)
    return [op for op in ops if operand(op, 1).is_const and operand(op, 1).rank >= 2]


def multiplications_of(op: Op, statistics: Mapping[str, ValueStatistics]) -> float:
    """The multiplications of a convolution or a product in a sample, by the number of elements of its results."""
    w, found = operand(op, 1), statistics.get(op.outputs[0].name)
    elements = 0.0 if found is None else found.count / max(found.samples, 1)
    outputs = {"Conv": 0, "ConvTranspose": 1}.get(op.type, 0 if op.attr("transB", 0) else w.rank - 1)
    return elements * prod(w.static_shape) / w.static_shape[outputs]


def kernel_step(channels: int) -> int:
    """The number of channels of which a multiple is left of so many."""
    return next((step for count, step in STEPS.items() if channels >= count), 1)


class Pruning:
    """The channels of a graph that can be removed, with what their removal costs and saves.

    `statistics` have the Gram matrices of `input_rows` of the ops that read them, and the numbers of elements of the
    results of `linear_ops`. After `until`, a time of `monotonic`, no further channels are ranked, and those without a
    rank stay.
    """

    def __init__(self, graph: Graph, statistics: Mapping[str, ValueStatistics], until: float = inf) -> None:
        self.until = until
        self.classes = ChannelClasses(graph)
        self._linear: list[tuple[float, list[Array]]] = []  # multiplications, and the classes along axes of weights
        for op in linear_ops(graph):
            axes = [self.classes.roots(labels) for labels in self.classes.of(operand(op, 1)) if labels is not None]
            self._linear.append((multiplications_of(op, statistics), axes))
        self.total = self.multiplications(())
        self._fits: dict[Op, LayerFit] = {}
        for r in self.classes.readers:
            gram = row_gram(r.op, statistics)
            if gram is not None:
                self._fits[r.op] = LayerFit(self.classes, r, gram)
        self.groups = [g for g in self._groups(graph) if g.sizes]

    def multiplications(self, removed: Collection[int]) -> float:
        """The multiplications of convolutions and products with weights in a sample, without some classes."""
        gone = self._mask(removed)
        return sum(count * prod(1 - float(gone[axis].mean()) for axis in axes) for count, axes in self._linear)

    def _mask(self, removed: Collection[int]) -> Array:
        mask = np.zeros(self.classes.count, bool)
        mask[[*removed]] = True
        return mask

    @cached_property
    def _axes(self) -> list[Array]:
        """The classes along each axis of all values with a class that may be removed."""
        axes = (labels for found in self.classes.axes.values() for labels in found if labels is not None)
        return list({a.tobytes(): a for a in map(self.classes.roots, axes) if a.any()}.values())

    def _groups(self, graph: Graph) -> Iterator[ChannelGroup]:
        """The groups of classes: all along one axis of a constant, but for the axes over which readers sum."""
        together: UnionFind[int] = UnionFind()
        summed = {(operand(r.op, 1), r.axis) for r in self.classes.readers}
        for v, axes in self.classes.axes.items():
            for i, labels in enumerate(axes):
                roots = [] if labels is None else sorted({*self.classes.roots(labels).tolist()} - {FIXED})
                if roots and v.is_const and (v, i) not in summed:
                    together.union(*roots)
        named: dict[int, str] = {}
        for v in (op.outputs[0] for op in linear_ops(graph)):
            for labels in (a for a in self.classes.of(v) if a is not None):
                for c in {*self.classes.roots(labels).tolist()}.intersection(together):
                    named.setdefault(together[c], v.name)
        members = defaultdict[int, list[int]](list)
        for c in together:
            members[together[c]].append(c)
        for key, found in members.items():
            made = ChannelGroup(named.get(key, ""), sorted(found))
            self._rank(made)
            yield made

    def _rank(self, group: ChannelGroup) -> None:
        """Order the classes of a group by the harm of their removal, if all that reads them has Gram matrices.

        In rounds: of the classes of least harm, half are removed one at a time, before the harms of all others change.
        """
        reading = [r for r in self.classes.readers if np.isin(self.classes.roots(r.labels), group.classes).any()]
        if not group.value or not reading or monotonic() > self.until or not all(r.op in self._fits for r in reading):
            return
        fits = [self._fits[r.op] for r in reading]
        states = [
            EliminationState(w, inverse(g), fit.columns, fit.power)
            for fit in fits
            for w, g in zip(fit.weights, fit.grams, strict=True)
        ]
        axes = [axis for axis in self._axes if np.isin(axis, group.classes).all()]
        left, most = np.array(group.classes), len(group.classes) - max(1, len(group.classes) // LEAST_PART)
        count = max(LEAST_ROUND, len(group.classes) // ROUNDS)

        def least(among: Array, states: Iterable[EliminationState], gone: Iterable[int]) -> Iterator[int]:
            """Those of least harm first, without the last channel of any axis."""
            harms = np.sum([s.harms(among) for s in states], axis=0)
            for c in among[np.argsort(harms, kind="stable")].tolist():
                if not any(np.isin(axis, [*group.order, *gone, c]).all() for axis in axes):
                    yield c

        while len(group.order) < most and monotonic() <= self.until:
            near = np.array([*islice(least(left, states, ()), 2 * count)], left.dtype)
            parts, gone = [s.only(near) for s in states], list[int]()
            while len(gone) < count and (c := next(least(near, parts, gone), None)) is not None:
                gone.append(c)
                near = near[near != c]
                error = sum(p.remove(np.array([c])) for p in parts)
                group.errors.append(error + (group.errors[-1] if group.errors else 0.0))
            if not gone:
                break
            group.order += gone
            left = np.setdiff1d(left, gone)
            for s in states:
                s.remove(np.array(gone))

    def plan(self, share: float) -> PruningPlan:
        """The classes to remove so that at most this share of the multiplications is left, or the least possible one.

        Of all groups, the next step is the one with the least error of layers for what it saves.
        """
        removed: set[int] = set()
        sizes = {g.value: [0, *g.sizes] for g in self.groups}
        first = {g.value: self.multiplications(g.order[: g.sizes[0]]) for g in self.groups}
        savings = {g.value: max((self.total - first[g.value]) / g.sizes[0], 1e-9) for g in self.groups}
        while self.multiplications(removed) > share * self.total:
            best: tuple[float, ChannelGroup, int] | None = None
            for g in self.groups:
                now, *later = sizes[g.value]
                for count in later:
                    error = g.errors[count - 1] - (g.errors[now - 1] if now else 0.0)
                    price = error / ((count - now) * savings[g.value])
                    if best is None or price < best[0]:
                        best = price, g, count
            if best is None:
                break
            _, group, count = best
            removed |= {*group.order[:count]}
            sizes[group.value] = [n for n in sizes[group.value] if n >= count]
        return self.plan_without(removed)

    def plan_without(self, removed: Collection[int]) -> PruningPlan:
        """The plan that removes some classes."""
        gone = self._mask(removed)
        fits = [fit for fit in self._fits.values() if gone[fit.columns].any()]
        fitted = {fit.reader.op.outputs[0].name: fit.fitted(removed) for fit in fits}
        counts = [RemovedChannels(g.value, int(gone[g.classes].sum()), len(g.classes)) for g in self.groups]
        share = self.multiplications(removed) / (self.total or 1.0)
        return PruningPlan(share, frozenset(removed), fitted, tuple(c for c in counts if c.removed))


class EliminationState:
    """The best fit of a layer, and the inverse of its Gram matrix, for the columns that are left."""

    def __init__(self, weights: Array, inverse: Array, columns: Array, power: float) -> None:
        self.weights, self.inverse, self.columns, self.power = weights, inverse, columns, power

    def harms(self, classes: Array) -> Array:
        """The error that the removal of each class alone adds."""
        found = np.zeros(len(classes))
        places = np.argsort(self.columns, kind="stable")
        columns = self.columns[places]
        first = np.searchsorted(columns, classes)
        counts = np.searchsorted(columns, classes, "right") - first
        for count in sorted({*counts.tolist()} - {0}):
            which = np.flatnonzero(counts == count)
            at = places[first[which][:, None] + np.arange(count)]
            w, h = self.weights[at], self.inverse[at[:, :, None], at[:, None]]
            found[which] = (w * np.linalg.solve(h, w)).sum(axis=(1, 2)) / self.power
        return found

    def only(self, classes: Array) -> EliminationState:
        """The state of the columns of some classes, in which these can be removed as well."""
        at = np.flatnonzero(np.isin(self.columns, classes))
        return EliminationState(self.weights[at], self.inverse[np.ix_(at, at)], self.columns[at], self.power)

    def remove(self, classes: Array) -> float:
        """Remove the columns of classes, and return the error that this adds."""
        gone = np.isin(self.columns, classes)
        if not gone.any():
            return 0.0
        w, h = self.weights[gone], self.inverse[gone]
        inner = np.linalg.solve(h[:, gone], np.hstack([w, h[:, ~gone]]))
        error = float((w * inner[:, : w.shape[1]]).sum()) / self.power
        across = h[:, ~gone].T
        self.weights = self.weights[~gone] - across @ inner[:, : w.shape[1]]
        self.inverse = self.inverse[~gone][:, ~gone] - across @ inner[:, w.shape[1] :]
        self.columns = self.columns[~gone]
        return error


@dataclass(frozen=True, slots=True)
class PruneChannels:
    """Relu(x @ w) @ v => Relu(x @ w[:, kept]) @ u, u such that the product is nearly the same on data

    So for Conv, Gemm and heads of Attention, through residuals, concatenations and other ops. `plan` is of a `Pruning`
    of the same graph.
    """

    plan: PruningPlan = field(compare=False, repr=False)
    name: str = "prune-channels"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Remove all channels of the plan in one change, as the weights are fitted to all of them. O(ops + weights)."""
        places = [found.value for found in self.plan.removed]
        if not places or not change_log.request_change(self.name, places[0], linear_ops(graph), exact=False):
            return 0
        Removal(graph, self.plan).apply()
        return 1


class Removal:
    """The channels that are left in each value of a graph, and how its ops change."""

    def __init__(self, graph: Graph, plan: PruningPlan) -> None:
        self.graph, self.plan = graph, plan
        self.classes = ChannelClasses(graph)
        gone = np.zeros(self.classes.count, bool)
        gone[[*plan.classes]] = True
        self.kept: dict[Value, list[Array | None]] = {}
        for v, axes in self.classes.axes.items():
            masks = [None if labels is None else ~gone[self.classes.roots(labels)] for labels in axes]
            self.kept[v] = [None if mask is None or mask.all() else mask for mask in masks]

    def apply(self) -> None:
        """Cut the constants, and tell ops how many channels there are."""
        constants = self._constants()
        edits = {op: edit for op in self.graph.sorted_ops() if (edit := self._edit(op)) is not None}
        for v in (v for v, masks in self.kept.items() if v.producer is not None and any(m is not None for m in masks)):
            v.reset()
        for (op, i), array in constants.items():
            like = operand(op, 1 if op.input(i) is None else i)
            replace_input(op, i, RewriteBuilder(self.graph, op).const(np.ascontiguousarray(array), like=like))
        for op, (inputs, attrs) in edits.items():
            g = RewriteBuilder(self.graph, op)
            made = getattr(g, op.type)(op.inputs[0], *(inputs or op.inputs[1:]), outputs=len(op.outputs), **attrs)
            for new, old in zip(made, op.outputs, strict=True):
                self.graph.take_over(new, old)
            self.graph.discard([op])
        invalidate_inference(self.graph.ops())

    def _mask(self, v: Value, axis: int) -> Array | None:
        masks = self.kept.get(v, [])
        return masks[axis] if -len(masks) <= axis < len(masks) else None

    def _cut(self, v: Value, array: Array, done: int | None = None) -> Array:
        """The elements of a constant that are left; those along the axis `done` are left already."""
        for axis, mask in enumerate(self.kept[v]):
            array = array if mask is None or axis == done else np.compress(mask, array, axis)
        return array

    def _constants(self) -> dict[tuple[Op, int], Array]:
        """The constants that change, by the ops and inputs that read them."""
        found: dict[tuple[Op, int], Array] = {}
        axes = {r.op: r.axis for r in self.classes.readers}
        for op in self.graph.sorted_ops():
            for i, v in enumerate(op.inputs):
                if v is not None and v.is_const and any(mask is not None for mask in self.kept.get(v, [])):
                    found[op, i] = self._cut(v, v.const)
        for op in linear_ops(self.graph):
            fitted = self.plan.fitted.get(op.outputs[0].name)
            if fitted is None:
                continue
            found[op, 1] = self._cut(operand(op, 1), fitted.weights, axes[op])
            place = bias_place(op)
            if fitted.shift is not None and place is not None:
                old, mask = place[0].input(place[1]), self._mask(op.outputs[0], 1 if op.type == "Conv" else -1)
                bias = fitted.shift if old is None else old.const + fitted.shift
                found[place] = bias if mask is None else bias[mask]
        return found

    def _edit(self, op: Op) -> tuple[list[Array], dict[str, Any]] | None:
        """The inputs behind the first of an op, if they change, and its attributes; None for one that stays."""
        x, y, attrs = op.input(0), op.outputs[0], dict(op.attrs)
        if x is None or op.domain:
            return None
        mask = self._mask(x, 1)
        if op.type == "Conv" and mask is not None and attrs.get("group", 1) > 1:
            is_depthwise = operand(op, 1).static_shape[1] == 1
            return ([], attrs | {"group": int(mask.sum())}) if is_depthwise else None
        if op.type == "Attention" and x.rank == 3 and (mask := self._mask(x, 2)) is not None:
            heads = round(attrs["q_num_heads"] * mask.mean())
            return [], attrs | {"q_num_heads": heads, "kv_num_heads": heads}
        if op.type == "Split" and (mask := self._mask(x, axis := normalized_axis(op, x.rank))) is not None:
            ends = np.cumsum([known_extent(v, axis) for v in op.outputs])
            sizes = [int(part.sum()) for part in np.split(mask, ends[:-1])]
            return [np.array(sizes, np.int64)], {"axis": axis}
        if op.type == "Slice" and any(m is not None for m in self.kept.get(x, [])):
            bounds = {axis: self._bounds(x, axis, *found) for axis, found in slice_bounds(op, x.rank).items()}
            starts, ends, steps = zip(*bounds.values(), strict=True)
            return [np.array(part, np.int64) for part in (starts, ends, [*bounds], steps)], attrs
        if op.type == "Reshape" and any(m is not None for m in (*self.kept.get(x, []), *self.kept.get(y, []))):
            extents = [d if (m := self._mask(y, i)) is None else int(m.sum()) for i, d in enumerate(y.shape)]
            given = operand(op, 1).const.tolist()
            shape = [d if isinstance(d, int) and n != -1 else n for n, d in zip(given, extents, strict=True)]
            return [np.array(shape, np.int64)], attrs
        return None

    def _bounds(self, x: Value, axis: int, start: Any, end: Any, step: int) -> tuple[int, int, int]:
        mask = self._mask(x, axis)
        if mask is None:
            return start, end, step
        taken = range(len(mask))[start:end]
        return int(mask[: taken.start].sum()), int(mask[: taken.stop].sum()), step
