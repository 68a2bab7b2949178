"""Weights of a quantized model, rounded for the inputs that they have in the float model: GPTQ layer by layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import inf, prod
from time import monotonic
from typing import NamedTuple

import numpy as np

from ...core import ChangeLog, Graph, MatchFailure, Op, RewriteBuilder, Value, require
from ...core.calibration.statistics import Gram, Rows, ValueStatistics
from ...core.ir.graph import FRESH_NAME_MARK
from ..arithmetic.value_ranges import CLAMPS
from ..cleanup.quantization import quantization
from ..linear.convolution import CONVOLUTIONS, group_count
from ..linear.products import PRODUCTS, Product
from ..support.operand_queries import Array, operand, required_producer, unless_declined
from .channel_scales import replace_input
from .weight_rounding import Grid, Rounded, float_weights, gptq, shrunk_gram
from .weights import stored_axis

MAX_COLUMNS = 4608  # of a layer: its Gram matrix takes 170 MB, the inverse of that seconds
HALF, TINIEST_HALF = 2**-11, 2**-25  # by which scales differ at most that are stored as halves afterwards
BYTES_AT_ONCE = 512 << 20  # of the Gram matrices in memory


class IntegerWeights(NamedTuple):
    """The weights of an op as integers: the op that reads them, the scales that they have, and their zero point.

    The scales of weights behind Cast and Mul are of their own shape; others have one for all, or for each channel.
    """

    reader: Op
    scales: Array
    zero: int

    @classmethod
    def of(cls, op: Op) -> IntegerWeights:
        """Read those behind DequantizeLinear, or behind Cast and Mul; declines others, and blocks."""
        maker = required_producer(operand(op, 1), "DequantizeLinear", "Mul", "Reshape")
        if maker.type == "Reshape":
            maker = required_producer(operand(maker), "Mul")
        if maker.type == "Mul":
            scales = operand(maker, 1)
            stored = scales if scales.is_const else operand(required_producer(scales, "Cast"))
            found = cls(required_producer(operand(maker), "Cast"), stored.const.astype(np.float64), 0)
        else:
            scales, zeros, blocks, *_ = quantization(maker)
            require(blocks is None or not blocks[1], "its weights are quantized in blocks")
            require(bool((zeros == zeros.reshape(-1)[0]).all()), "its weights have several zero points")
            found = cls(maker, scales, int(zeros.reshape(-1)[0]))
        integers = operand(found.reader)
        require(integers.is_const and integers.const.dtype.kind in "iu", "its weights are computed, or no integers")
        return found

    @property
    def integers(self) -> Array:
        """The integers."""
        return operand(self.reader).const


class LayerPair(NamedTuple):
    """A Conv or a product of a model, and the op that has integer weights in its place in the quantized model.

    `names` are those by which the latter is found.
    """

    original: Op
    quantized: Op
    names: tuple[str, ...]


def rows_of(op: Op) -> Rows:
    """The rows of the operand of a convolution or a product that its weights are multiplied with."""
    w = operand(op, 1)
    if op.type == "Conv":
        sizes = {name: tuple(op.attr(name) or ()) for name in ("strides", "dilations", "pads")}
        shape, auto_pad = w.static_shape, op.attr("auto_pad", "NOTSET")
        return Rows(prod(shape[1:]), group_count(op, w), shape[2:], **sizes, auto_pad=auto_pad)
    if (
        op.type == "ConvTranspose"
    ):  # each element of its kernel is a product of its own: where they overlap, errors add up
        groups = group_count(op, w)
        return Rows(w.static_shape[0] // groups, groups, (1,) * (w.rank - 2))
    p = Product.of(op)
    require(w.rank == 2 and not p.trans_a, f"{op.label} multiplies no rows with a matrix")
    return Rows(p.extents[0])


class RoundedLayer(NamedTuple):
    """The integers of the weights of a layer, and the scales for which they were chosen."""

    integers: Array
    scales: Array


def layer_pairs(original: Graph, quantized: Graph) -> list[LayerPair]:
    """The layers that two models share, by the names of values behind them. O(ops)."""
    known = [op for op in layers(original) if operand(op, 1).is_const]
    stems = Counter(stem(op.outputs[0].name) for op in known)
    made: dict[str, tuple[Op, tuple[str, ...]]] = {}
    for op in known:
        first = stem(op.outputs[0].name)
        names = (*(v.name for v in values_behind(op)), *([first] if stems[first] == 1 else []))
        made.update((name, (op, names)) for name in names)
    pairs: list[LayerPair] = []
    for op in layers(quantized):
        found = next((made[name] for name in names_behind(op) if name in made), None)
        if found is not None and (
            found[0].type == op.type or {found[0].type, op.type} <= {*PRODUCTS}
        ):  # Gemm of MatMul
            pairs.append(LayerPair(found[0], op, found[1]))
    return pairs


def stem(name: str) -> str:
    """The name from which the name of a new value was made."""
    return name.partition(FRESH_NAME_MARK)[0]


def layers(graph: Graph) -> Iterator[Op]:
    """The convolutions and products of a graph, and of those in it, in order."""
    for op in (op for g in graph.with_subgraphs() for op in g.sorted_ops()):
        if op.type in (*CONVOLUTIONS, *PRODUCTS) and not op.domain:
            yield op


def values_behind(op: Op) -> Iterator[Value]:
    """The result of an op, and the same with a bias, clamped, quantized, dequantized, if nothing else is between."""
    v: Value | None = op.outputs[0]
    waiting = {*CLAMPS, "QuantizeLinear", "DequantizeLinear"}
    while v is not None:
        yield v
        readers = [r for r in v.consumers if not r.domain]
        if len(v.consumers) > 1:  # several may dequantize the same integers
            yield from (r.outputs[0] for r in readers if r.type == "DequantizeLinear")
            return
        known = [r for r in readers if r.type in waiting or is_bias(r, v)]
        waiting -= {r.type for r in known} & {*CLAMPS}
        v = known[0].outputs[0] if known else None


def names_behind(op: Op) -> Iterator[str]:
    """The names of these values; the last is the name from which the name of the result was made."""
    yield from (v.name for v in values_behind(op))
    yield stem(op.outputs[0].name)


def is_bias(op: Op, v: Value) -> bool:
    """Whether an op adds numbers that do not vary to `v`."""
    if op.type != "Add" or op.domain or len(op.inputs) != 2:
        return False
    other = operand(op, int(op.inputs[0] is v))
    maker = other.producer
    is_dequantized = maker is not None and maker.type == "DequantizeLinear" and not maker.domain
    return other.is_const or (maker is not None and is_dequantized and operand(maker).is_const)


Collect = Callable[[Mapping[str, Collection[Rows]]], Mapping[str, ValueStatistics]]
"""The statistics of values of the original model, by name, with Gram matrices of these rows."""


def rounded_layers(pairs: Iterable[LayerPair], collect: Collect, until: float = inf) -> dict[str, RoundedLayer]:
    """The weights of layers rounded by GPTQ, with the scales that they have, by the names of all values behind them.

    Layers that share weights are rounded for the inputs of all. Those of more than MAX_COLUMNS are left out, and those
    that are not begun before `until`, a time of `monotonic`.
    """
    by_weights: dict[Value, list[tuple[LayerPair, Rows]]] = {}
    for pair in pairs:
        rows = unless_declined(rows_of, pair.original)
        if rows is not None and rows.columns <= MAX_COLUMNS:
            by_weights.setdefault(operand(pair.original, 1), []).append((pair, rows))
    found: dict[str, RoundedLayer] = {}
    for part in _parts(list(by_weights.values())):
        if monotonic() > until:
            break
        wanted: dict[str, set[Rows]] = {}
        for pair, rows in (entry for group in part for entry in group):
            wanted.setdefault(operand(pair.original).name, set()).add(rows)
        statistics = collect(wanted)
        for group in part:
            known = [(statistics.get(operand(pair.original).name), rows) for pair, rows in group]
            grams = [s.grams[rows] for s, rows in known if s is not None and rows in s.grams]
            for pair, _ in group if grams and monotonic() <= until else ():
                layer = unless_declined(rounded_layer, pair, grams)
                if layer is not None:
                    found |= dict.fromkeys(pair.names, layer)
    return found


def _parts(groups: Sequence[list[tuple[LayerPair, Rows]]]) -> Iterator[list[list[tuple[LayerPair, Rows]]]]:
    """The groups in parts, each with Gram matrices of BYTES_AT_ONCE, or one group."""
    part: list[list[tuple[LayerPair, Rows]]] = []
    room = BYTES_AT_ONCE
    for group in groups:
        size = sum(rows.gram_bytes for _, rows in group)
        if part and size > room:
            yield part
            part, room = [], BYTES_AT_ONCE
        part, room = [*part, group], room - size
    if part:
        yield part


def rounded_layer(pair: LayerPair, grams: Sequence[Gram]) -> RoundedLayer:
    """The weights of a layer rounded by GPTQ, to integers no larger than the largest it has."""
    found, original = IntegerWeights.of(pair.quantized), pair.original
    exact = in_matrices(original, float_weights(operand(original, 1)) * float(original.attr("alpha", 1.0)))
    groups, columns, outputs = exact.shape
    shape = operand(pair.quantized, 1).static_shape  # blocks have other dims
    integers = in_matrices(pair.quantized, found.integers.reshape(shape))
    require(integers.shape == exact.shape, "the weights have other shapes")
    require(all(g.sums.shape == (groups, columns, columns) for g in grams), "the Gram matrices have other shapes")
    steps = np.where(found.scales > 0, found.scales, 1)  # one of zeros may be 0 as a half
    if steps.ndim != found.integers.ndim:
        axis = stored_axis(pair.quantized)
        require(steps.size in {1, shape[axis]}, "its scales are of other channels")
        steps = steps.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
    scales = in_matrices(pair.quantized, np.broadcast_to(steps, found.integers.shape).reshape(shape))
    zeros = np.full((1, outputs), found.zero)
    limit = int(np.abs(found.integers.astype(np.int64) - found.zero).max(initial=0))
    grid = Grid(found.zero - limit, found.zero + limit, found.zero)
    count = sum(g.rows for g in grams)
    sums = reduce(np.add, (g.sums for g in grams))
    rounded = [gptq(w, grid, shrunk_gram(g, count), (s, zeros)) for w, g, s in zip(exact, sums, scales, strict=True)]
    return RoundedLayer(of_matrices(pair.quantized, rounded, found.integers), found.scales)


def in_matrices(op: Op, weights: Array) -> Array:
    """The weights of a convolution or a product as (groups, elements of rows, outputs)."""
    if op.type in CONVOLUTIONS:
        groups = int(op.attr("group", 1))
        found = weights.reshape(groups, len(weights) // groups, -1)
        return found.swapaxes(1, 2) if op.type == "Conv" else found
    return (weights.T if op.attr("transB", 0) else weights)[np.newaxis]


def of_matrices(op: Op, rounded: Sequence[Rounded], like: Array) -> Array:
    """The integers of groups in the shape and the type of weights of a convolution or a product."""
    found = np.stack([r.integers for r in rounded])
    turned = found.swapaxes(1, 2) if op.type == "Conv" or op.attr("transB", 0) else found
    return turned.reshape(like.shape).astype(like.dtype)


@dataclass(frozen=True, slots=True)
class RoundLayers:
    """Conv(x, DequantizeLinear(w)) => Conv(x, DequantizeLinear(v)), v the integers of the least error of the result

    So for Gemm, MatMul, and weights behind Cast and Mul. `layers` are by the names of values behind the op: see
    `rounded_layers`.
    """

    layers: Mapping[str, RoundedLayer] = field(default_factory=dict[str, RoundedLayer], compare=False, repr=False)
    name: str = "round-layers"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Replace the integers of each layer in a change named after its result. O(ops)."""
        changes = 0
        for op in list(layers(graph)):
            layer = next((self.layers[name] for name in names_behind(op) if name in self.layers), None)
            place = op.outputs[0].name
            if layer is None or not change_log.may_change(self.name, place, exact=False):
                continue
            try:
                found = IntegerWeights.of(op)
                is_same = found.scales.shape == layer.scales.shape and found.integers.shape == layer.integers.shape
                is_same = is_same and np.allclose(layer.scales, found.scales, HALF, TINIEST_HALF)
                require(is_same, "the weights have another shape, or other scales")
                change_log.require_change(self.name, place, (op,), exact=False)
            except MatchFailure as why:
                change_log.record_decline(self.name, place, str(why))
                continue
            new = RewriteBuilder(found.reader.graph, found.reader).const(layer.integers)
            replace_input(found.reader, 0, new)
            changes += 1
        return changes
