"""Channels of a model in classes that can only be removed together, found through its ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec import Struct

from ...core import Graph, MatchFailure, Op, Value, require
from ...core.ir import expressions as sym
from ...core.ir.dtypes import FLOATS
from ...core.operators.declaration import Trait
from ...core.operators.operands import (
    full_perm,
    integer_list,
    normalize_axes,
    normalized_axis,
    pad_amounts,
    slice_bounds,
)
from ...core.operators.table import ops_with
from ..linear.convolution import group_count
from ..linear.products import Product
from ..support.operand_queries import BROADCASTING_OPSET, Array, operand

FIXED = 0  # the class of the channels that stay
MOST_CHANNELS = 1 << 16  # of an axis; all of a longer one stay, as of a vocabulary
Labels = Array | None
"""A number for each channel along an axis; None where all stay. `ChannelClasses.roots` has the classes."""
Axes = list[Labels]
BROADCASTING = ops_with(Trait.BROADCASTING) | {"PRelu"}
ELEMENTWISE = BROADCASTING | ops_with(Trait.ELEMENTWISE) - {"BitCast", "CastLike"} | {"Dropout"}
BY_CHANNEL = frozenset({"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"})
NORMS_BY_CHANNEL = frozenset({"BatchNormalization", "InstanceNormalization"})
ALONG_AXIS = frozenset({"ArgMax", "ArgMin", "LogSoftmax", "Softmax"})
FROM_AXIS = frozenset({"LayerNormalization", "RMSNormalization"})
RESHAPES = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
REDUCTIONS = ops_with(Trait.REDUCTION)
SOFTMAX_OF_ONE_AXIS = SPLIT_BY_INPUT = 13  # opsets since which an operator is so
SLICE_BY_INPUT = 10


class Reader(Struct, frozen=True):
    """A Conv or a product with constant weights, which sums over channels, and the `labels` of these."""

    op: Op
    labels: Array

    @property
    def axis(self) -> int:
        """The axis of the weights along which the channels are, of one group."""
        return 1 if self.op.type == "Conv" or self.op.attr("transB", 0) else 0

    @property
    def groups(self) -> int:
        """The groups of a Conv."""
        return int(self.op.attr("group", 1)) if self.op.type == "Conv" else 1


class ChannelClasses:
    """The channels of a graph; the channels of one class are removed together, in all values and constants.

    `axes`: the labels along each axis of a value. What sums over channels is one of the `readers`, whose weights can
    make up for a removed class. All else that mixes the elements of an axis keeps it whole, and so do operators without
    a rule, subgraphs, inputs and outputs.
    """

    def __init__(self, graph: Graph) -> None:
        self.axes: dict[Value, Axes] = {}
        self.readers: list[Reader] = []
        self._parents = [FIXED]
        for op in graph.sorted_ops():
            self._add(op)
        for v in graph.outputs:
            self._fix(self.of(v))
        self.count = len(self._parents)
        self._roots = np.array([self._root(label) for label in range(self.count)])

    def of(self, value: Value) -> Axes:
        """The labels along each axis of a value."""
        if value not in self.axes:
            is_free = value.is_const and value.producer is None and value.dtype in FLOATS
            shape = value.known_shape or ()
            self.axes[value] = [self._new(d) if is_free and isinstance(d, int) else None for d in shape]
        return self.axes[value]

    def roots(self, labels: Array) -> Array:
        """The class of each label."""
        return self._roots[labels]

    def _new(self, count: int) -> Labels:
        if not 1 < count <= MOST_CHANNELS:
            return None
        labels = np.arange(len(self._parents), len(self._parents) + count)
        self._parents += labels.tolist()
        return labels

    def _root(self, label: int) -> int:
        parents = self._parents
        while parents[label] != label:
            parents[label] = parents[parents[label]]
            label = parents[label]
        return label

    def _join(self, a: Labels, b: Labels) -> Labels:
        """Have the channels of two axes removed together. All stay where one has to stay whole."""
        if a is None or b is None or len(a) != len(b):
            self._fix([a, b])
            return None
        for x, y in zip(a.tolist(), b.tolist(), strict=True):
            least, other = sorted((self._root(x), self._root(y)))
            self._parents[other] = least
        return a

    def _join_all(self, parts: Array) -> Array:
        """The labels of the first row, with which the labels of the other rows are removed."""
        for other in parts[1:]:
            self._join(parts[0], other)
        return parts[0]

    def _fix(self, axes: Iterable[Labels]) -> None:
        for labels in axes:
            for label in () if labels is None else labels.tolist():
                self._parents[self._root(label)] = FIXED

    def _add(self, op: Op) -> None:
        """Find the labels of the results of an op; all channels that it reads stay if it has no rule for them."""
        readers = len(self.readers)
        named = [v for v in op.outputs if v.name]
        try:
            rule = None if op.domain or op.subgraphs else self._rule(op)
            require(all(v is None or v.known_shape is not None for v in op.inputs), "a rank is unknown")
            found: Sequence[Axes] = [] if rule is None else rule(op)
            require(len(found) >= len(named), "its results are not known")
            for v, axes in zip(op.outputs, found, strict=False):
                fits = (a is None or d == len(a) for a, d in zip(axes, v.shape, strict=True))
                require(all(fits), "its results have other extents")
                self.axes[v] = axes
        except MatchFailure:
            del self.readers[readers:]
            for v in (*op.inputs, *op.captures):
                self._fix(() if v is None else self.of(v))
            for v in named:
                self.axes[v] = [None] * len(v.known_shape or ())

    def _rule(self, op: Op) -> Callable[[Op], Sequence[Axes]] | None:
        rules = (
            (ELEMENTWISE, self._elementwise), (BY_CHANNEL, self._by_channel), (NORMS_BY_CHANNEL, self._norm_by_channel),
            (ALONG_AXIS, self._along_axis), (FROM_AXIS, self._from_axis), (RESHAPES, self._reshape),
            (REDUCTIONS, self._reduce),
        )  # fmt: skip
        known = next((rule for types, rule in rules if op.type in types), None)
        return known or getattr(self, f"_{op.type.lower()}", None)

    # Rules: the labels along the axes of each result

    def _broadcast(self, operands: Sequence[tuple[Value, Axes]], rank: int) -> Axes:
        found: dict[int, Labels] = {}
        for v, axes in operands:
            for axis, (labels, d) in enumerate(zip(axes, v.shape, strict=False), rank - len(v.shape)):
                if d != 1:
                    found[axis] = self._join(found[axis], labels) if axis in found else labels
        return [found.get(axis) for axis in range(rank)]

    def _elementwise(self, op: Op) -> list[Axes]:
        require(op.type not in BROADCASTING or op.version >= BROADCASTING_OPSET, "it does not broadcast by rule")
        read = [(v, self.of(v)) for v in op.inputs if v is not None]
        return [self._broadcast(read, op.outputs[0].rank) for _ in op.outputs]

    def _with_whole(self, axes: Axes, whole: Iterable[int]) -> Axes:
        """The labels of axes, of which the `whole` ones keep all channels."""
        chosen = {*whole}
        self._fix(axes[i] for i in chosen)
        return [None if i in chosen else labels for i, labels in enumerate(axes)]

    def _by_channel(self, op: Op) -> list[Axes]:
        axes = self.of(operand(op))
        return [self._with_whole(axes, range(2, len(axes)))]

    def _norm_by_channel(self, op: Op) -> list[Axes]:
        axes = self._by_channel(op)[0]
        require(len(axes) > 1, "it has no channels")
        for i in range(1, len(op.inputs)):
            axes[1] = self._join(axes[1], self.of(operand(op, i))[0])
        return [axes]

    def _along_axis(self, op: Op) -> list[Axes]:
        picks = op.type.startswith("Arg")
        require(picks or op.version >= SOFTMAX_OF_ONE_AXIS, "it flattens axes")
        x = operand(op)
        axis = normalized_axis(op, x.rank, 0 if picks else -1)
        axes = self._with_whole(self.of(x), [axis])
        if picks and not op.attr("keepdims", 1):
            del axes[axis]
        return [axes]

    def _from_axis(self, op: Op) -> list[Axes]:
        x = operand(op)
        for v in op.inputs[1:]:
            self._fix(() if v is None else self.of(v))
        return [self._with_whole(self.of(x), range(normalized_axis(op, x.rank, -1), x.rank))]

    def _reduce(self, op: Op) -> list[Axes]:
        x = operand(op)
        reduced = normalize_axes(integer_list(op, "axes") or [], x.rank)
        require(reduced, "it reduces all axes")
        axes = self._with_whole(self.of(x), reduced)
        return [axes if op.attr("keepdims", 1) else [a for i, a in enumerate(axes) if i not in reduced]]

    def _transpose(self, op: Op) -> list[Axes]:
        axes = self.of(operand(op))
        return [[axes[i] for i in full_perm(op.attr("perm"), len(axes))]]

    def _concat(self, op: Op) -> list[Axes]:
        operands = [operand(op, i) for i in range(len(op.inputs))]
        axis = normalized_axis(op, operands[0].rank)
        each, extents = [self.of(v) for v in operands], [v.shape[axis] for v in operands]
        found = list(each[0])
        for other in each[1:]:
            found = [a if i == axis else self._join(a, b) for i, (a, b) in enumerate(zip(found, other, strict=True))]
        joined = zip((axes[axis] for axes in each), extents, strict=True)
        parts = [np.full(_number(d), FIXED) if labels is None else labels for labels, d in joined]
        found[axis] = np.concatenate(parts)
        return [found]

    def _split(self, op: Op) -> list[Axes]:
        x = operand(op)
        axis, axes = normalized_axis(op, x.rank), self.of(x)
        labels = axes[axis]
        if labels is None:
            return [axes for _ in op.outputs]
        ends = np.cumsum([_number(v.shape[axis]) for v in op.outputs])
        require(ends[-1] == len(labels) and op.version >= SPLIT_BY_INPUT, "its parts are attributes, or not the whole")
        parts = np.split(labels, ends[:-1])
        return [[part if i == axis else a for i, a in enumerate(axes)] for part in parts]

    def _slice(self, op: Op) -> list[Axes]:
        x = operand(op)
        axes = list(self.of(x))
        for axis, (start, end, step) in slice_bounds(op, x.rank).items():
            labels = axes[axis]
            if labels is not None:
                require(step == 1 and op.version >= SLICE_BY_INPUT, "it takes some of the channels")
                axes[axis] = labels[_number(start) : _number(end)]
        return [axes]

    def _gather(self, op: Op) -> list[Axes]:
        x, indices = operand(op), operand(op, 1)
        axis = normalized_axis(op, x.rank)
        self._fix(self.of(indices))
        axes = self._with_whole(self.of(x), [axis])
        return [[*axes[:axis], *[None] * indices.rank, *axes[axis + 1 :]]]

    def _shape(self, op: Op) -> list[Axes]:
        axes = self.of(operand(op))
        self._fix(axes[slice(int(op.attr("start", 0)), op.attr("end"))])
        return [[None]]

    def _pad(self, op: Op) -> list[Axes]:
        x = operand(op)
        amounts = pad_amounts(op, x.rank)
        padded = [i for i in range(x.rank) if amounts[i] != 0 or amounts[i + x.rank] != 0]
        return [self._with_whole(self.of(x), padded)]

    def _resize(self, op: Op) -> list[Axes]:
        x = operand(op)
        require(op.input(3) is None and "crop" not in op.attr("coordinate_transformation_mode", ""), "it has sizes")
        scales, named = operand(op, 2).const, op.attr("axes")
        places = range(x.rank) if named is None else normalize_axes([*named], x.rank)
        require(len(places) == len(scales), "its scales do not fit")
        return [self._with_whole(self.of(x), [i for i, scale in zip(places, scales, strict=True) if scale != 1])]

    def _weights(self, op: Op) -> Axes:
        """The labels of constant weights that no other op reads."""
        w = operand(op, 1)
        require(w.is_const and len(w.consumers) == 1 and op.inputs.count(w) == 1, "its weights are computed or shared")
        return self.of(w)

    def _with_bias(self, op: Op, axes: Axes, labels: Labels) -> list[Axes]:
        """The labels of the result of a convolution, with the labels of its channels."""
        if op.input(2) is not None:
            labels = self._join(labels, self.of(operand(op, 2))[0])
        return [[axes[0], labels, *[None] * (len(axes) - 2)]]

    def _conv(self, op: Op) -> list[Axes]:
        x, w = operand(op), operand(op, 1)
        outputs, inputs, *taps = self._weights(op)
        axes = self._with_whole(self.of(x), range(2, x.rank))
        self._fix(taps)
        labels, groups, (count, width) = axes[1], group_count(op, w), w.static_shape[:2]
        if labels is None or (width == 1 and groups == 1):
            self._fix([labels, inputs])
        elif width == 1:
            outputs = self._join(np.repeat(labels, count // groups), outputs)
        else:
            self._join(self._join_all(labels.reshape(groups, width)), inputs)
            self.readers.append(Reader(op, labels))
        if groups > 1 and width > 1 and outputs is not None:
            outputs = np.tile(self._join_all(outputs.reshape(groups, -1)), groups)
        elif groups > 1 and labels is None:
            self._fix([outputs])
            outputs = None
        return self._with_bias(op, axes, outputs)

    def _convtranspose(self, op: Op) -> list[Axes]:
        x, (inputs, outputs, *taps) = operand(op), self._weights(op)
        require(group_count(op, operand(op, 1)) == 1, "it has groups")
        self._fix([inputs, *taps])
        return self._with_bias(op, self._with_whole(self.of(x), range(1, x.rank)), outputs)

    def _matmul(self, op: Op) -> list[Axes]:
        p = Product.of(op)
        a, b = p.a, p.b
        require(a.rank >= 2 and b.rank >= 2 and not p.trans_a, "it multiplies a vector, or columns")
        require(a.is_const or not b.is_const or b.rank == 2, "it multiplies with several matrices")
        left, right = self.of(a), self.of(b)
        right = [*right[:-2], *right[:-3:-1]] if p.trans_b else right
        if b.is_const and not a.is_const and left[-1] is not None:
            self._weights(op)
            labels = self._join(left[-1], right[-2])
            self.readers += [] if labels is None else [Reader(op, labels)]
        else:
            self._fix([left[-1], right[-2]])
        rank = op.outputs[0].rank
        outer = self._broadcast([(a, left[:-2]), (b, right[:-2])], rank)[: rank - 2] if rank > 2 else []
        axes = [*outer, left[-2], right[-1]]
        if p.c is None:
            return [axes]
        bias = self.of(p.c)
        for axis, (labels, d) in enumerate(zip(bias, p.c.shape, strict=True), 2 - len(bias)):
            axes[axis] = axes[axis] if d == 1 else self._join(axes[axis], labels)
        return [axes]

    _gemm = _matmul

    def _attention(self, op: Op) -> list[Axes]:
        """The heads, of which queries, keys and values have equally many."""
        require(all(v is None for v in op.inputs[4:]), "it has a cache")
        each = [self.of(operand(op, i)) for i in range(3)]
        if op.input(3) is not None:
            mask = operand(op, 3)
            require(mask.rank < 3 or mask.shape[-3] == 1, "its mask differs between heads")
            self._fix(self.of(mask))
        if len(each[0]) == 4:
            heads = self._join(self._join(each[0][1], each[1][1]), each[2][1])
            for axes in each:
                self._with_whole(axes, (0, 2, 3))
            return [[None, heads, None, None]]
        count = int(op.attr("q_num_heads", 0))
        columns = [axes[-1] for axes in each if axes[-1] is not None and len(axes) == 3]
        require(len(columns) == 3 and count == op.attr("kv_num_heads"), "its heads stay")
        first = [self._join_all(labels.reshape(count, -1).T) for labels in columns]
        for other in first[1:]:
            self._join(first[0], other)
        return [[*self._with_whole(each[0], (0, 1))[:2], np.repeat(first[0], len(columns[2]) // count)]]

    def _reshape(self, op: Op) -> list[Axes]:
        x, y = operand(op), op.outputs[0]
        require(op.type != "Reshape" or operand(op, 1).is_const, "its shape is computed")
        before, after, axes = x.shape, y.shape, self.of(x)
        dims = [d for d in (*before, *after) if d is not None]
        require(len(dims) == len(before) + len(after) and 0 not in dims, "its shape is unknown")
        found: Axes = [None] * len(after)
        i = j = p = q = 0
        while p < len(before) or q < len(after):  # axes i to p become axes j to q
            left, right = sym.prod(dims[i:p]), sym.prod(dims[len(before) + j : len(before) + q])
            divides = left != right and sym.divide(right, left) is not None
            is_behind = q == len(after) or (p < len(before) and (p == i or divides))
            p, q = (p + 1, q) if is_behind else (p, q + 1)
            left, right = sym.prod(dims[i:p]), sym.prod(dims[len(before) + j : len(before) + q])
            if (left == right and q > j and p > i) or (p == len(before) and q == len(after)):
                self._reshape_part(axes[i:p], before[i:p], found, [k for k in range(j, q) if after[k] != 1], after)
                i, j = p, q
        return [found]

    def _reshape_part(
        self, axes: Axes, before: sym.Shape, found: Axes, places: Sequence[int], after: sym.Shape
    ) -> None:
        """The labels of axes that others become: the labels of the outermost one with more than one element."""
        large = [labels for labels, d in zip(axes, before, strict=True) if d != 1]
        outer, extent = (large[0] if large else None), (after[places[0]] if places else None)
        if outer is None or not isinstance(extent, int) or max(extent, len(outer)) % min(extent, len(outer)):
            self._fix(axes)
            return
        self._fix(large[1:])
        if extent > len(outer):
            found[places[0]] = np.repeat(outer, extent // len(outer))
        else:
            found[places[0]] = self._join_all(outer.reshape(extent, -1).T)


def _number(d: sym.SymInt | None) -> int:
    require(isinstance(d, int), "an extent is computed")
    assert isinstance(d, int)
    return d
