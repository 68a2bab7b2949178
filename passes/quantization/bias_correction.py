"""Bias correction: the mean errors of quantized linear ops subtracted from their biases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from math import prod
from typing import NamedTuple

import numpy as np

from ...core import ChangeLog, Graph, MatchFailure, Op, RewriteBuilder, Value, require
from ...core.operators.quantization import dequantize
from ..arithmetic.value_ranges import CLAMPS
from ..cleanup.quantization import quantization
from ..linear.convolution import CONVOLUTIONS, group_count
from ..linear.products import Product
from ..support.operand_queries import Array, has_one_use, known, operand, required_producer, unless_declined
from .channel_scales import LINEAR_OPS, replace_input
from .static_groups import quantized_bias

MAX_INT32 = 1 << 30


class LayerPair(NamedTuple):
    """A linear op of a model and the op that replaced it in the quantized model."""

    original: Op
    quantized: Op

    @property
    def name(self) -> str:
        """The name of the result of the quantized op."""
        return self.quantized.outputs[0].name


def layer_pairs(original: Graph, quantized: Graph) -> list[LayerPair]:
    """The linear ops with constant weights that two models share, by the names of values behind them. O(ops)."""
    made: dict[str, Op] = {}
    for op in linear_ops(original):
        made.update((v.name, op) for v in values_behind(op))
    pairs: list[LayerPair] = []
    for op in linear_ops(quantized):
        found = next((made[v.name] for v in values_behind(op) if v.name in made), None)
        if found is not None and found.type == op.type:
            pairs.append(LayerPair(found, op))
    return pairs


def linear_ops(graph: Graph) -> Iterator[Op]:
    """The linear ops of a graph, and of those in it, whose weights are constant or dequantized, in order."""
    for op in (op for g in graph.with_subgraphs() for op in g.sorted_ops()):
        if op.type in LINEAR_OPS and not op.domain and effective_numbers(op.input(1)) is not None:
            yield op


def values_behind(op: Op) -> Iterator[Value]:
    """The result of an op, and the same with a bias, clamped, quantized, dequantized, if nothing else is between."""
    v = op.outputs[0]
    yield v
    waiting = {*CLAMPS, "QuantizeLinear", "DequantizeLinear"}
    while v.consumers and all((r.type in waiting or is_bias(r, v)) and not r.domain for r in v.consumers):
        kinds = {r.type for r in v.consumers}
        if len(v.consumers) > 1:  # several may dequantize the same integers
            yield from (r.outputs[0] for r in v.consumers if kinds == {"DequantizeLinear"})
            return
        waiting -= kinds & {*CLAMPS}
        v = next(iter(v.consumers)).outputs[0]
        yield v


def is_bias(op: Op, v: Value) -> bool:
    """Whether an op adds numbers that do not vary to `v`."""
    if op.type != "Add" or op.domain or len(op.inputs) != 2:
        return False
    other = op.inputs[op.inputs[0] is v]
    return other is not None and effective_numbers(other) is not None


def effective_numbers(v: Value | None) -> Array | None:
    """The numbers of a constant, or of one behind DequantizeLinear, in float64; None for a computed value."""
    if v is None:
        return None
    if v.is_const:
        return v.const.astype(np.float64) if v.const.dtype.kind == "f" else None
    maker = v.producer
    if maker is None or maker.type != "DequantizeLinear" or maker.domain:
        return None
    given = [i.const for i in maker.inputs if i is not None and i.is_const]
    if len(given) < len(maker.inputs):
        return None
    integers, scales, *zeros = given
    along = {"axis": maker.attr("axis", 1), "block_size": maker.attr("block_size", 0)}
    return dequantize(integers, scales.astype(np.float64), *zeros, **along)


def operand_channels(pairs: Iterable[LayerPair]) -> dict[str, int]:
    """The operands of the layers in the original model, by name, each with the axis of its channels."""
    return {operand(pair.original).name: 1 if pair.original.type in CONVOLUTIONS else -1 for pair in pairs}


def mean_weights(op: Op) -> Array:
    """The weights of a linear op summed over their kernel, (groups, outputs, inputs); times alpha."""
    found = effective_numbers(op.input(1))
    if found is None:
        raise MatchFailure(f"the weights of {op.label} are computed")
    if op.type in CONVOLUTIONS:
        groups = group_count(op, operand(op, 1))
        sums = found.reshape(groups, found.shape[0] // groups, found.shape[1], -1).sum(axis=-1)
        # Of the taps of a ConvTranspose, an element gets one for each stride, on average.
        return sums if op.type == "Conv" else sums.swapaxes(1, 2) / prod(op.attr("strides") or [1])
    require(found.ndim == 2, f"the weights of {op.label} are not a matrix")
    p = Product.of(op)
    require(not p.trans_a, f"{op.label} sums over rows")
    return (found if p.trans_b else found.T)[np.newaxis] * p.alpha


def mean_errors(pairs: Sequence[LayerPair], means: Mapping[str, Array]) -> dict[str, Array]:
    """The mean error that the rounded weights of each layer cause, by the name of its result and output channel.

    `means` are the means of operands in the original model, by name and channel (see `operand_channels`; Nagel et al.
    2019, arXiv 1906.04721, section 4.2). An error that the operand brings is not the layer's own, so that all biases
    can be corrected at once. Differences of measured means of results are no better: with padding, the part of the
    operand's error cannot be told from them.
    """
    errors: dict[str, Array] = {}
    for pair in pairs:
        x = means.get(operand(pair.original).name)
        error = None if x is None else unless_declined(mean_error, pair, x)
        if error is not None:
            errors[pair.name] = error
    return errors


def mean_error(pair: LayerPair, means: Array) -> Array:
    """The error that the rounded weights of a layer cause, for operands with these means, but for padding."""
    exact, rounded = mean_weights(pair.original), mean_weights(pair.quantized)
    groups, _, inputs = rounded.shape
    require(exact.shape == rounded.shape, f"{pair.name} has weights of another shape in the original")
    require(means.size == groups * inputs, f"{means.size} means are given for {groups * inputs} channels")
    return ((rounded - exact) @ means.astype(np.float64).reshape(groups, inputs, 1)).reshape(-1)


@dataclass(frozen=True, slots=True)
class CorrectBiases:
    """x @ w + b => x @ w + (b - error), the mean error of each output channel

    Of Conv, ConvTranspose and Gemm, and of MatMul with an Add of a constant behind. `errors` are by the name of the
    result of the op in this model: see `mean_errors`.
    """

    errors: Mapping[str, Array] = field(default_factory=dict[str, Array], compare=False, repr=False)
    name: str = "correct-biases"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Correct the bias of each op with an error in a change named after its result. O(ops)."""
        changes = 0
        for op in list(linear_ops(graph)):
            place = op.outputs[0].name
            if place not in self.errors or not change_log.may_change(self.name, place, exact=False):
                continue
            build = RewriteBuilder(op.graph, op)
            try:
                user, index, bias = corrected_bias(build, op, self.errors[place])
                change_log.require_change(self.name, place, (op,), exact=False)
            except MatchFailure as why:
                op.graph.discard(build.added_ops[::-1])
                for v in build.constants:
                    op.graph.drop_initializer(v)
                change_log.record_decline(self.name, place, str(why))
                continue
            replace_input(user, index, bias)
            changes += 1
        return changes


def corrected_bias(g: RewriteBuilder, op: Op, error: Array) -> tuple[Op, int, Value]:
    """The op that adds the bias of a linear op, the index of that input, and the new bias."""
    require(bool(np.isfinite(error).all()), "the error is not finite")
    channels = prod(mean_weights(op).shape[:2])
    require(error.size == channels, f"{error.size} errors are given for {channels} channels")
    if op.type == "MatMul":
        return corrected_addend(g, op, error)
    beta = float(op.attr("beta", 1.0)) if op.type == "Gemm" else 1.0
    require(beta != 0, "its bias is not used")
    b = op.input(2)
    if b is not None:
        return op, 2, shifted(g, b, -error / beta)
    scales = bias_scales(op)
    return op, 2, g.const(-error, like=op.outputs[0]) if scales is None else quantized_bias(g, -error, scales)


def bias_scales(op: Op) -> Array | None:
    """The scales of an int32 bias, in float32: scales of the operand times scales of the weights; None for floats."""
    x, w = (operand(op, i).producer for i in range(2))
    if x is None or w is None or {x.type, w.type} != {"DequantizeLinear"}:
        return None
    scale, scales = quantization(x).scales, quantization(w).scales
    require(scale.size == 1 and scales.ndim < 2, f"{op.label} is quantized in blocks")
    return (scale.reshape(()) * scales).astype(np.float32)


def corrected_addend(g: RewriteBuilder, product: Op, error: Array) -> tuple[Op, int, Value]:
    """As `corrected_bias`, of the Add of a constant that alone reads a product, perhaps quantized between."""
    unclamped = takewhile(lambda v: v.producer is not None and v.producer.type not in CLAMPS, values_behind(product))
    adds = ((v, r) for v in unclamped for r in v.consumers if is_bias(r, v))
    last, add = known(next(adds, None), f"{product.label} has no bias")
    require(has_one_use(last), f"{product.label} has other readers than its bias")
    index = 1 - add.inputs.index(last)
    c = operand(add, index)
    numbers = effective_numbers(c)
    require(
        numbers is not None and numbers.ndim > 0 and numbers.shape[-1] == error.size, f"{product.label} has no bias"
    )
    return add, index, shifted(g, c, -error)


def shifted(g: RewriteBuilder, bias: Value, by: Array) -> Value:
    """A bias plus a number for each index of its last axis, as floats, or as integers with the scales that it has."""
    numbers = effective_numbers(bias)
    if numbers is None:
        raise MatchFailure(f"{bias.name} is computed")
    wanted = numbers + by
    if bias.is_const:
        return g.const(wanted, like=bias)
    require(wanted.shape == numbers.shape, f"{bias.name} has not one number for each channel")
    maker = required_producer(bias, "DequantizeLinear")
    given = quantization(maker)
    require(given.scales.ndim == 0 or given.scales.shape == wanted.shape, f"{bias.name} is quantized in another form")
    limits = np.iinfo(operand(maker).const.dtype)
    low, high = max(limits.min, -MAX_INT32), min(limits.max, MAX_INT32)
    integers = np.clip(np.rint(wanted / given.scales) + given.zeros, low, high)
    return g.DequantizeLinear(g.const(integers, like=operand(maker)), operand(maker, 1), maker.input(2), **maker.attrs)
