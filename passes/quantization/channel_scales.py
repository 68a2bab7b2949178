"""Moving of scales, one for each channel, from a value to the constants that make it and read it.

SmoothQuant moves outliers of activations to the weights that read them; AWQ makes the weights larger that read large
activations, so that rounding does them less harm; cross-layer equalization gives channels alike sizes in the weights
before and behind a value.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, prod

import numpy as np
from msgspec import Struct
from onnx import TensorProto

from ...core import ChangeLog, Graph, MatchFailure, Op, QuantizationSpec, RewriteBuilder, Value, require, same_extent
from ...core.errors import UsageError
from ...core.ir.expressions import as_integers
from ...core.ir.op import replaced
from ...core.operators.operands import full_perm, normalized_axis
from ..linear.convolution import CONVOLUTIONS, INPUT_AXIS, OUTPUT_AXIS, group_count
from ..linear.products import Product
from ..support.operand_queries import (
    BROADCASTING_OPSET,
    Array,
    constant_numbers,
    has_one_use,
    known,
    known_extent,
    normalized_axes,
    operand,
    required_producer,
    unless_declined,
)
from .weight_rounding import rounded_weights
from .weights import weight_grid

LINEAR_OPS = (*CONVOLUTIONS, "Gemm", "MatMul")
NORMS = ("LayerNormalization", "RMSNormalization")
# f(x / s) = f(x) / s for every s > 0, whatever the channel.
HOMOGENEOUS_OPS = ("Abs", "Identity", "LeakyRelu", "Neg", "PRelu", "Relu")
POOLS = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")
MAX_STEPS = 16  # ops between a value and the one that is scaled
MAX_SCALE = 1e6
SMALLEST, LARGEST = 1e-20, 1e20  # of the maxima of constants: scaled twice, they are normal numbers


def bounded(scales: Array) -> Array:
    """Positive scales, within what no constant overflows at."""
    return np.clip(scales, 1 / MAX_SCALE, MAX_SCALE)


class ChannelOperand(Struct, frozen=True):
    """A constant operand of an op, and where its channels are.

    Reshaped to `view`, one number for each channel, reshaped to `dims`, broadcasts along its channels. Each channel of
    the value is `repeats` of these in a row.
    """

    op: Op
    index: int
    view: tuple[int, ...]
    dims: tuple[int, ...]
    repeats: int = 1

    @property
    def constant(self) -> Value:
        """The operand."""
        return operand(self.op, self.index)

    @property
    def channels(self) -> int:
        """The number of channels of the value."""
        return prod(self.dims) // self.repeats

    def sizes(self) -> Array:
        """The absolute values of a weight as viewed, in float64; of each kernel the largest."""
        found = np.abs(self.constant.const.astype(np.float64)).reshape(self.view)
        return found.max(axis=tuple(range(3, found.ndim)), keepdims=True, initial=0.0)

    def largest(self, sizes: Array) -> Array:
        """The maximum for each channel of the value of `sizes`, which has the dims of the view or 1."""
        others = tuple(i for i, d in enumerate(self.dims) if d == 1)
        return sizes.max(axis=others, initial=0.0).reshape(-1, self.repeats).max(axis=1)

    def factors(self, per_channel: Array) -> Array:
        """Numbers for each channel, to broadcast to the view of the constant."""
        return np.repeat(per_channel, self.repeats).reshape(self.dims)


class ScalableValue(Struct, frozen=True):
    """A value whose channels can be divided by scales: in the constants `made_by`, if those `read_by` are multiplied.

    The first of `made_by` is the weight, the scale or the factor of the op that makes it, before what leads to it.
    """

    value: Value
    made_by: Sequence[ChannelOperand]
    read_by: Sequence[ChannelOperand]

    @property
    def source(self) -> Op:
        """The op that makes it."""
        return self.made_by[0].op

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops whose constants change."""
        return tuple(dict.fromkeys(c.op for c in (*self.made_by, *self.read_by)))


def scalable_value(v: Value) -> ScalableValue:
    """Read the constants around a value; declines one whose channels cannot be scaled."""
    home = None if v.producer is None else v.producer.graph
    require(home is not None and not home.is_output(v) and v not in home.pinned, f"{v.name} is an input or output")
    read_by = [reading_weights(reader, v) for reader in v.consumers]
    require(bool(read_by), f"{v.name} is not read")
    axes = {channel_axis(r.op, v) for r in read_by}
    require(len(axes) == 1, f"the products read other channels of {v.name}")
    made_by, repeats = making_constants(v, axes.pop())
    repeated = [ChannelOperand(r.op, r.index, r.view, r.dims, repeats) for r in read_by]
    channels = {c.channels for c in (*made_by, *repeated)}
    require(len(channels) == 1, f"the numbers of channels around {v.name} differ")
    for c in (scaled.constant for scaled in (*made_by, *repeated)):
        require(len(c.consumers) == 1, f"{c.name} is used elsewhere")
        require(c.dtype == TensorProto.FLOAT, f"{c.name} is not of single precision")
        most = float(np.abs(c.const).max(initial=0))
        require(most == 0 or SMALLEST < most < LARGEST, f"{c.name} has numbers out of range")
    return ScalableValue(v, made_by, repeated)


def channel_axis(op: Op, v: Value) -> int:
    """The axis of `v` over which a linear op sums."""
    return 1 if op.type in CONVOLUTIONS else v.rank - 1


def reading_weights(op: Op, v: Value) -> ChannelOperand:
    """The weights of a linear op that reads `v`; declines any other op."""
    require(op.type in LINEAR_OPS and not op.domain, f"{op.label}, no product with weights, reads {v.name}")
    w = operand(op, 1)
    require(op.inputs[0] is v and op.inputs.count(v) == 1 and w.is_const, f"{op.label} has no constant weights")
    require(not op.attr("transA", 0), f"{op.label} sums over the rows of {v.name}")
    return weights_by_channel(op, outputs=False)


def weights_by_channel(op: Op, *, outputs: bool) -> ChannelOperand:
    """The constant weights of a linear op by output or input channel."""
    w = operand(op, 1)
    require(w.is_const, f"the weights of {op.label} are computed")
    shape = w.static_shape
    require(0 not in shape, f"{w.name} is empty")
    if op.type in CONVOLUTIONS:
        groups = group_count(op, w)
        view = (groups, shape[0] // groups, *shape[1:])
        axis = (OUTPUT_AXIS if outputs else INPUT_AXIS)[op.type]
        return ChannelOperand(op, 1, view, tuple(d if i in {0, axis} else 1 for i, d in enumerate(view)))
    require(len(shape) == 2, f"{w.name} is not a matrix")
    is_last = outputs != bool(op.type == "Gemm" and op.attr("transB", 0))
    return ChannelOperand(op, 1, shape, (1, shape[1]) if is_last else (shape[0], 1))


def making_constants(v: Value, axis: int) -> tuple[list[ChannelOperand], int]:
    """The constants that scale `v` along `axis`, its source first, and how often each channel is repeated.

    For an elementwise product of two computed values, the constants of one factor are returned.
    """
    biases: list[ChannelOperand] = []
    repeats, start = 1, v
    for _ in range(MAX_STEPS):
        op = required_producer(v, *LINEAR_OPS, *NORMS, *HOMOGENEOUS_OPS, *POOLS, "Add", "Flatten", "Mul", "ReduceMean",
                               "Reshape", "Transpose")  # fmt: skip
        require(start.producer is not None and op.graph is start.producer.graph, f"{v.name} is computed outside")
        require(v is start or has_one_use(v), f"{v.name} is used elsewhere")
        if op.type == "Mul" and not any(x is not None and x.is_const for x in op.inputs):
            made_by, repeated = making_factor(op, axis)
            return [*made_by, *biases], repeats * repeated
        if op.type in (*LINEAR_OPS, *NORMS, "Mul"):
            return [*source_constants(op, axis), *biases], repeats
        if op.type == "Add":
            bias = constant_along(op, axis)
            biases.append(bias)
            v = operand(op, 1 - bias.index)
        elif op.type in {"Flatten", "Reshape"}:
            repeats *= merged_extent(op, axis)
            v = operand(op)
        else:
            axis = axis_before(op, axis)
            v = operand(op)
    return known(None, f"no weights are near {start.name}")


def making_factor(op: Op, axis: int) -> tuple[list[ChannelOperand], int]:
    """`making_constants` of the first factor of a Mul that has some and is not used elsewhere."""
    out = op.outputs[0]
    full = (x for x in op.inputs if x is not None and x.rank == out.rank and has_one_use(x))
    factors = (x for x in full if x.producer is not None and same_extent(x.shape[axis], out.shape[axis]))
    found = (unless_declined(making_constants, x, axis) for x in factors)
    return known(next((f for f in found if f is not None), None), f"no factor of {op.label} can be scaled")


def axis_before(op: Op, axis: int) -> int:
    """The axis of the operand of a homogeneous op, a pool or a Transpose that becomes `axis`."""
    if op.type == "Transpose":
        return full_perm(op.attr("perm"), operand(op).rank)[axis]
    if op.type in POOLS:
        require(axis == 1 and not any(o.name for o in op.outputs[1:]), f"{op.label} pools over the channels")
    if op.type == "ReduceMean":
        axes = constant_numbers(op)
        is_pool = axes is not None and axis not in normalized_axes(axes, operand(op).rank)
        require(is_pool and op.attr("keepdims", 1) == 1, f"{op.label} averages over the channels")
    require(op.type != "Identity" or op.outputs[0].type is None, f"{op.label} is not of a tensor")
    return axis


def merged_extent(op: Op, axis: int) -> int:
    """The elements of each channel in a row of an op that flattens all axes but the first; declines other ops."""
    x, out = operand(op), op.outputs[0]
    require(axis == 1 and out.rank == 2 and x.rank >= 2, f"{op.label} does not make rows of channels")
    extents = as_integers(x.shape[1:])
    require(extents is not None and same_extent(x.shape[0], out.shape[0]), f"{op.label} may not make rows of channels")
    extents = known(extents, "an extent is unknown")
    require(out.shape[1] == prod(extents) != 0, f"{op.label} does not make rows of channels")
    return prod(extents[1:])


def source_constants(op: Op, axis: int) -> list[ChannelOperand]:
    """The constants of an op that scale its output along `axis`."""
    rank = op.outputs[0].rank
    if op.type == "Mul":
        return [constant_along(op, axis)]
    if op.type in NORMS:
        x = operand(op)
        require(axis == rank - 1 == normalized_axis(op, x.rank, -1), f"{op.label} is not over the channels")
        require(not any(v.name for v in op.outputs[1:]), f"{op.label} gives statistics as well")
        return [vector(op, i, known_extent(x, axis)) for i in range(1, len(op.inputs))]
    require(axis == (1 if op.type in CONVOLUTIONS else rank - 1), f"{op.label} does not make the channels")
    weights = weights_by_channel(op, outputs=True)
    if op.input(2) is None:
        return [weights]
    return [weights, vector(op, 2, weights.channels)]


def vector(op: Op, index: int, channels: int) -> ChannelOperand:
    """An operand of one number for each channel, along its last axis."""
    c = operand(op, index)
    require(c.is_const, f"{c.name} is computed")
    shape = c.static_shape
    require(bool(shape) and shape[-1] == channels, f"{c.name} has not one number for each channel")
    return ChannelOperand(op, index, shape, (*[1] * (len(shape) - 1), channels))


def constant_along(op: Op, axis: int) -> ChannelOperand:
    """The constant of an Add or Mul that has one number for each index of an axis of the other operand."""
    require(op.version >= BROADCASTING_OPSET and len(op.inputs) == 2, f"{op.label} does not broadcast by rule")
    index = 1 if operand(op, 1).is_const else 0
    c, x = operand(op, index), operand(op, 1 - index)
    require(c.is_const and not x.is_const, f"{op.label} is not of one constant")
    shape, at = c.static_shape, axis - x.rank
    require(len(shape) <= x.rank and -at <= len(shape), f"{c.name} has not one number for each channel")
    dims = tuple(d if i == len(shape) + at else 1 for i, d in enumerate(shape))
    require(dims[at] == known_extent(x, axis), f"{c.name} has not one number for each channel")
    return ChannelOperand(op, index, shape, dims)


def scalable_values(graph: Graph) -> list[Value]:
    """The values that linear ops with constant weights read, in a graph and those in it, each once. O(ops)."""
    found: dict[Value, None] = {}
    for op in (op for g in graph.with_subgraphs() for op in g.sorted_ops() if op.type in LINEAR_OPS and not op.domain):
        x, w = op.input(0), op.input(1)
        if x is not None and not x.is_const and w is not None and w.is_const:
            found[x] = None
    return list(found)


def divide(by: Iterable[tuple[ScalableValue, Array]]) -> None:
    """Divide values by scales, one for each channel, in the constants that make them; their readers multiply."""
    wanted: dict[tuple[Op, int], list[Array]] = {}
    shapes: dict[tuple[Op, int], tuple[int, ...]] = {}
    for value, scales in by:
        operands = [*((c, 1 / scales) for c in value.made_by), *((c, scales) for c in value.read_by)]
        for c, numbers in operands:
            wanted.setdefault((c.op, c.index), []).append(c.factors(numbers))
            shapes[c.op, c.index] = c.view
    for (op, index), factors in wanted.items():
        old = operand(op, index)
        scaled = old.const.astype(np.float64).reshape(shapes[op, index])
        for numbers in factors:
            scaled = scaled * numbers
        new = RewriteBuilder(op.graph, op).const(scaled.reshape(old.static_shape), like=old)
        replace_input(op, index, new)


def replace_input(op: Op, index: int, new: Value) -> None:
    """Replace an input of an op, or append it, and remove what only the old one needed."""
    old = op.input(index)
    inputs = replaced(op.inputs, old, new) if old is not None else (*op.inputs[:index], new, *op.inputs[index + 1 :])
    op.graph.set_inputs(op, inputs)
    if old is not None and old.producer is not None:
        old.producer.graph.prune([old.producer])
    elif old is not None:
        op.graph.drop_initializer(old)


def smoothable_channels(graph: Graph) -> dict[str, int]:
    """The values that can be smoothed, by name, each with the axis over which its readers sum. O(ops)."""
    found: dict[str, int] = {}
    for v in scalable_values(graph):
        value = unless_declined(scalable_value, v)
        if value is not None:
            found[v.name] = channel_axis(value.read_by[0].op, v)
    return found


def scale_values(
    graph: Graph, change_log: ChangeLog, name: str, wanted: Container[str], scales: Callable[[ScalableValue], Array]
) -> int:
    """Divide each of the wanted values by its scales in a change named after it. O(ops + weights)."""
    changes = 0
    for v in (v for v in scalable_values(graph) if v.name in wanted):
        try:
            value = scalable_value(v)
            found = scales(value)
        except MatchFailure as why:
            change_log.record_decline(name, v.name, str(why))
            continue
        if change_log.request_change(name, v.name, value.ops, exact=False):
            divide([(value, found)])
            changes += 1
    return changes


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

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Smooth each value with maxima."""
        return scale_values(graph, change_log, self.name, self.maxima, self._scales)

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


EXPONENTS = np.arange(20) / 20  # tried by AWQ, as in the paper
TRIED_COLUMNS = 256  # of the weights of a product, spread evenly, by which an exponent is chosen


@dataclass(frozen=True, slots=True)
class ProtectWeights:
    """LayerNormalization(x, g, b) @ w => LayerNormalization(x, g / s, b / s) @ (s * w), s large where x is large

    AWQ (Lin et al. 2023, arXiv 2306.00978, equations 4 and 5): s = size of x ^ alpha, with the alpha of the least error
    of all products that read x, their weights rounded as `spec` says. Sizes and errors are those of its Gram matrices:
    root mean squares in place of means of magnitudes. Scales are kept in `found`, by value, for models loaded again.
    """

    spec: QuantizationSpec = field(default_factory=QuantizationSpec, compare=False, repr=False)
    found: dict[str, Array] = field(default_factory=dict[str, Array], init=False, compare=False, repr=False)
    name: str = "protect-weights"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Scale each value with a Gram matrix. O(ops + columns of values * weights)."""
        return scale_values(graph, change_log, self.name, self.spec.grams, self._scales)

    def _scales(self, value: ScalableValue) -> Array:
        """The scales for the channels of a value; declines where none are better than 1."""
        name = value.value.name
        if name not in self.found:
            self.found[name] = best_scales(value, self.spec)
        require(bool((self.found[name] != 1).any()), "no exponent lowers the error of rounding")
        return self.found[name]


def best_scales(value: ScalableValue, spec: QuantizationSpec) -> Array:
    """The scales of the exponent with the least error of products, of those with few weights none."""
    gram, channels = spec.grams[value.value.name], value.made_by[0].channels
    products = [(Product.of(c.op), c) for c in value.read_by if prod(c.constant.static_shape) >= spec.min_weights]
    require(bool(products), "the products that read it have few weights")
    require(all(len(gram) == p.extents[0] for p, _ in products), "its Gram matrix has other columns")
    squares = np.diag(gram).reshape(channels, -1).mean(axis=1)
    is_used = squares > 0
    sizes = np.sqrt(np.where(is_used, squares, 1))
    best, least = np.ones(channels), inf
    for alpha in EXPONENTS:
        powers = sizes**alpha
        middle = np.sqrt(powers[is_used].max(initial=0) * powers[is_used].min(initial=inf)) if is_used.any() else 1.0
        scales = np.where(is_used, bounded(powers / middle), 1.0)
        error = sum(rounding_error(p, np.repeat(scales, c.repeats), gram, spec) for p, c in products)
        best, least = (scales, error) if error < least else (best, least)
    return best


def rounding_error(p: Product, scales: Array, gram: Array, spec: QuantizationSpec) -> float:
    """The sum of the squared errors of some columns of a product, of weights that are scaled and rounded."""
    step = max(1, p.extents[1] // TRIED_COLUMNS)
    weights = p.weights[:, ::step] * scales[:, None]
    grid = weight_grid(spec, p.b)
    errors = (rounded_weights(weights, grid).weights(grid.extent(len(weights))) - weights) / scales[:, None]
    return float((errors * (gram @ errors)).sum())


MAX_ROUNDS = 30
LEAST_CHANGE = 0.01  # of a scale, relative: a smaller one is not made


class EqualizeChannels(Struct, frozen=True):
    """Relu(x @ u + b) @ v => Relu(x @ (u / s) + b / s) @ (s * v), s = sqrt(max |u| / max |v|) for each channel

    So for Conv, of groups too, and Gemm, through what scales with its operand: LeakyRelu, pools, Flatten, Add of a
    constant (Nagel et al. 2019, arXiv 1906.04721, section 4.1). Ranges of values between are to be calibrated anew.
    """

    name: str = "equalize-channels"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Equalize all pairs together, each in a change named after the value between. O(ops + weights)."""
        values: list[ScalableValue] = []
        for v in scalable_values(graph):
            try:
                found = scalable_value(v)
                require(found.source.type in LINEAR_OPS, f"{found.source.label} has no weights")
            except MatchFailure as why:
                change_log.record_decline(self.name, v.name, str(why))
                continue
            if change_log.may_change(self.name, v.name, exact=False):
                values.append(found)
        changed: list[tuple[ScalableValue, Array]] = []
        for value, scales in zip(values, equalizing_scales(values), strict=True):
            if np.abs(np.log(scales)).max(initial=0) < np.log1p(LEAST_CHANGE):
                change_log.record_decline(self.name, value.value.name, "its channels are alike")
            elif change_log.request_change(self.name, value.value.name, value.ops, exact=False):
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
