"""Decompositions of standard operators that the specification defines by no function, for targets without them.

`DECOMPOSITIONS` are all rules of this package with one op in their pattern that serve for legalization.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np
from onnx import TensorProto

from ..core import EXACT, MatchFailure, Op, RewriteBuilder, Rule, Value, by_dtype, conditional, require, rule
from ..core.ir.dtypes import CPU_FLOATS, DISCRETE_TYPES, FLOATS, INTEGERS
from ..core.ir.expressions import Dim, Shape, as_integers
from ..core.operators.declaration import OperatorCall
from ..core.operators.element_types import Array
from ..core.operators.table import OPERATORS
from ..core.serialization.node_attributes import bare_node
from . import contrib_decompositions, decomposition
from .decomposition import by_root_mean_square, centred
from .fusion.polynomials import require_dtype
from .linear import einsum
from .support.operand_queries import NO_NEGATIVE_ZERO, is_finite, known, normalized_axes, reduced_axes

MASKING = by_dtype(DISCRETE_TYPES, EXACT, otherwise=NO_NEGATIVE_ZERO)
"""The contract of a Where, of which onnxruntime makes 0 of -0."""
MAX_MASK_ELEMENTS = 1 << 22  # of a constant that stands for an operator
BOOL = TensorProto.BOOL
ALLOWZERO_OPSET = 14
MAX_SUMMED = 1 << 11  # elements along the axis of a CumSum
SIGNED = INTEGERS - {TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64}


@rule(lambda g, x, s, b, m, v, op: g.BatchNormalization(x, s, b, m, v) @ op)
def split_batch_norm(g: RewriteBuilder, x: Value, s: Value, b: Value, m: Value, v: Value, op: Op) -> Value:
    """BatchNormalization(x, s, b, m, v) => x * k + (b - m * k), where k = s / Sqrt(v + epsilon), in inference"""
    require(not op.attr("training_mode", 0), "it is in training form")
    require(all(map(op.graph.is_unused, op.outputs[1:])), "its statistics are read")
    require(x.dtype == s.dtype == v.dtype, "its statistics have another type")
    factor = g.Div(s, g.Sqrt(g.Add(v, float(op.attr("epsilon", 1e-5)))))
    return g.Add(g.Mul(x, _per_channel(g, factor, x)), _per_channel(g, g.Sub(b, g.Mul(m, factor)), x))


@rule(lambda g, x, s, b, op: g.InstanceNormalization(x, s, b) @ op)
def split_instance_norm(g: RewriteBuilder, x: Value, s: Value, b: Value, op: Op) -> Value:
    """InstanceNormalization(x, s, b) => d / Sqrt(ReduceMean(d * d) + epsilon) * s + b, where d = x - ReduceMean(x)"""
    axes = list(range(2, x.rank))
    normal = by_root_mean_square(g, centred(g, x, axes), axes, float(op.attr("epsilon", 1e-5)))
    return g.Add(g.Mul(normal, _per_channel(g, s, x)), _per_channel(g, b, x))


def _per_channel(g: RewriteBuilder, v: Value, x: Value) -> Value:
    """A value for each channel, behind dims for those after axis 1 of `x`."""
    return g.Unsqueeze(v, axes=list(range(1, x.rank - 1))) if x.rank > 2 else v


@rule(lambda g, x: g.Softplus(x), critical_values=(0,))
def split_softplus(g: RewriteBuilder, x: Value) -> Value:
    """Softplus(x) => Max(x, 0) + Log(1 + Exp(-Abs(x)))"""
    return g.Add(g.Relu(x), g.Log(g.Add(g.Exp(g.Neg(g.Abs(x))), 1.0)))


@rule(lambda g, x, op: g.MeanVarianceNormalization(x) @ op)
def split_mean_variance(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """MeanVarianceNormalization(x) => d / (Sqrt(ReduceMean(d * d)) + 1e-9), where d = x - ReduceMean(x)"""
    axes = normalized_axes(list(op.attr("axes", [0, 2, 3])), x.rank)
    d = centred(g, x, axes)
    return g.Div(d, g.Add(g.Sqrt(g.ReduceMean(g.Mul(d, d), axes=axes)), 1e-9))


@rule(lambda g, x, op: g.ReduceL2(x, ...) @ op)
def split_reduce_l2(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """ReduceL2(x) => Sqrt(ReduceSum(x * x))"""
    require_dtype(x, CPU_FLOATS)
    axes = reduced_axes(op, x.rank)
    require(axes, "it reduces no axis")
    return g.Sqrt(g.ReduceSum(g.Mul(x, x), axes=axes, keepdims=int(op.attr("keepdims", 1))))


@rule(lambda g, x, op: g.ReduceLogSumExp(x, ...) @ op, contract=conditional(each=is_finite))
def split_log_sum_exp(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """ReduceLogSumExp(x) => Log(ReduceSum(Exp(x - m))) + m, where m = ReduceMax(x)"""
    axes = reduced_axes(op, x.rank)
    require(axes, "it reduces no axis")
    most = g.ReduceMax(x, axes=axes)
    total = g.ReduceSum(g.Exp(g.Sub(x, most)), axes=axes)
    kept = g.Add(g.Log(total), most)
    return kept if op.attr("keepdims", 1) else g.Squeeze(kept, axes=axes)


@rule(lambda g, x, op: g.Split(x, ...) @ op, contract=EXACT)
def split_to_slices(g: RewriteBuilder, x: Value, op: Op) -> tuple[Value, ...]:
    """Split(x) => a Slice for each part"""
    (axis,) = normalized_axes([int(op.attr("axis", 0))], x.rank)
    ends = np.cumsum([0, *_static([v.shape[axis] for v in op.outputs])]).tolist()
    return tuple(g.Slice(x, starts=[start], ends=[end], axes=[axis]) for start, end in pairwise(ends))


@rule(lambda g, x: g.GlobalAveragePool(x))
def split_global_average(g: RewriteBuilder, x: Value) -> Value:
    """GlobalAveragePool(x) => ReduceMean(x, axes from 2 on)"""
    require(x.rank > 2, "it has no axes to reduce")
    return g.ReduceMean(x, axes=list(range(2, x.rank)))


@rule(lambda g, x: g.GlobalMaxPool(x), contract=by_dtype(INTEGERS, EXACT, otherwise=conditional(each=is_finite)))
def split_global_max(g: RewriteBuilder, x: Value) -> Value:
    """GlobalMaxPool(x) => ReduceMax(x, axes from 2 on)"""
    require(x.rank > 2, "it has no axes to reduce")
    return g.ReduceMax(x, axes=list(range(2, x.rank)))


@rule(lambda g, x, repeats, op: g.Tile(x, repeats) @ op, contract=EXACT)
def split_tile(g: RewriteBuilder, x: Value, repeats: Value, op: Op) -> Value:
    """Tile(x, [1, r]) => Reshape(Expand(Unsqueeze(x, 1), [1, r, 1]), [1, r] * Shape(x)), one axis after the other"""
    require(op.version >= ALLOWZERO_OPSET, "a Reshape of this opset takes 0 for another dim")
    counts = repeats.known_elements or (None,) * x.rank
    for axis in (i for i, times in enumerate(counts) if times != 1):  # an Expand of all would have twice the rank
        before, after = ([g.const(np.ones(n, np.int64))] * bool(n) for n in (axis, x.rank - axis - 1))
        times = g.Slice(repeats, starts=[axis], ends=[axis + 1], axes=[0])
        each = g.Concat(*before, times, *after, axis=0) if before or after else times
        expanded = g.Expand(g.Unsqueeze(x, axes=[axis]), g.Concat(each, [1], axis=0))
        x = g.Reshape(expanded, g.Mul(each, g.Shape(x)), allowzero=1)
    return x


@rule(lambda g, op: g.one_of("Sum", "Max", "Min")(...) @ op)
def split_variadic(g: RewriteBuilder, op: Op) -> Value:
    """Sum(a, b, c) => Add(Add(a, b), c); Max(a, b, c) => Max(Max(a, b), c), and Min"""
    first, *rest = [v for v in op.inputs if v is not None]
    require(op.type == "Sum" or len(rest) > 1, f"it is a {op.type} of two already")
    for v in rest:
        first = g.Add(first, v) if op.type == "Sum" else getattr(g, op.type)(first, v)
    return first


@rule(lambda g, a, b, op: g.one_of("Max", "Min")(a, b) @ op, contract=conditional(each=is_finite))
def extreme_to_where(g: RewriteBuilder, a: Value, b: Value, op: Op) -> Value:
    """Max(a, b) => Where(a > b, a, b), and Min"""
    return g.Where(g.Greater(a, b) if op.type == "Max" else g.Less(a, b), a, b)


@rule(lambda g, x: g.Sign(x), contract=conditional(each=is_finite), critical_values=(0,))
def split_sign(g: RewriteBuilder, x: Value) -> Value:
    """Sign(x) => (x > 0) - (x < 0)"""
    return g.Sub(g.Cast(g.Greater(x, 0), to=x.dtype), g.Cast(g.Less(x, 0), to=x.dtype))


@rule(lambda g, op: g.Mean(...) @ op)
def split_mean(g: RewriteBuilder, op: Op) -> Value:
    """Mean(a, b) => Sum(a, b) / 2"""
    given = [v for v in op.inputs if v is not None]
    return g.Div(g.Sum(*given), float(len(given)))


@rule(lambda g, op: g.one_of("Identity", "Dropout")(...) @ op, contract=EXACT)
def drop_identity_op(g: RewriteBuilder, op: Op) -> Value:
    """Identity(x) => x, and Dropout in inference"""
    training = op.input(2)
    require(training is None or (training.is_const and not training.const.any()), "it is in training form")
    require(all(map(op.graph.is_unused, op.outputs[1:])), "its mask is read")
    return op.operand()


@rule(lambda g, x: g.Reciprocal(x))
def reciprocal_to_div(g: RewriteBuilder, x: Value) -> Value:
    """Reciprocal(x) => 1 / x"""
    return g.Div(1.0, x)


@rule(lambda g, x: g.Neg(x), contract=by_dtype(INTEGERS | FLOATS, EXACT))
def neg_to_mul(g: RewriteBuilder, x: Value) -> Value:
    """Neg(x) => x * -1"""
    return g.Mul(x, -1)


@rule(lambda g, x: g.IsNaN(x), contract=EXACT)
def is_nan_to_equal(g: RewriteBuilder, x: Value) -> Value:
    """IsNaN(x) => Not(x == x)"""
    return g.Not(g.Equal(x, x))


@rule(lambda g, a, b: g.Xor(a, b), contract=EXACT)
def xor_to_equal(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """Xor(a, b) => Not(a == b)"""
    return g.Not(g.Equal(a, b))


@rule(lambda g, a, b, op: g.Mod(a, b) @ op, contract=EXACT)
def split_mod(g: RewriteBuilder, a: Value, b: Value, op: Op) -> Value:
    """Mod(a, b) => r = a - a / b * b of integers; r + b where it has another sign than b, unless fmod=1"""
    require_dtype(a, INTEGERS)
    rest = g.Sub(a, g.Mul(g.Div(a, b), b))
    if op.attr("fmod", 0) or a.dtype not in SIGNED:
        return rest
    is_other = g.And(g.Not(g.Equal(rest, 0)), g.Xor(g.Less(rest, 0), g.Less(b, 0)))
    return g.Where(is_other, g.Add(rest, b), rest)


@rule(lambda g, x, k, op: g.Trilu(x, g.const(k)) @ op, lambda g, x, op: g.Trilu(x) @ op, contract=MASKING)
def split_trilu(g: RewriteBuilder, x: Value, op: Op, k: Value | None = None) -> Value:
    """Trilu(x, k) => Where(constant mask, x, 0)"""
    rows, columns = _static(x.shape[-2:])
    _require_small(rows * columns)
    offset = 0 if k is None else int(k.const.item())
    upper = bool(op.attr("upper", 1))
    mask = np.triu(np.ones((rows, columns), bool), offset) if upper else np.tri(rows, columns, offset, dtype=bool)
    return g.Where(g.const(mask), x, g.const(0, like=x))


@rule(lambda g, x, axis, op: g.CumSum(x, g.const(axis)) @ op, contract=conditional(each=is_finite))
def split_cumsum(g: RewriteBuilder, x: Value, axis: Value, op: Op) -> Value:
    """CumSum(x) => MatMul(x, triangle of ones), with the axis of the sum as the last one"""
    require_dtype(x, CPU_FLOATS)
    (at,) = normalized_axes([int(axis.const.item())], x.rank)
    (n,) = _static(x.shape[at : at + 1])
    require(0 < n <= MAX_SUMMED, f"it sums {n} elements, and the product would read as many for each")
    ones = np.triu(np.ones((n, n)), 1 if op.attr("exclusive", 0) else 0)
    return _multiplied_along(g, x, at, ones.T if op.attr("reverse", 0) else ones)


@rule(lambda g, x, op: g.DepthToSpace(x) @ op, contract=EXACT)
def split_depth_to_space(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """DepthToSpace(x) => Reshape, Transpose, Reshape"""
    size, (c, h, w) = int(op.attr("blocksize")), _static(x.shape[1:])
    depth = c // (size * size)
    if op.attr("mode", "DCR") == "DCR":
        parts, perm = [size, size, depth, h, w], [0, 3, 4, 1, 5, 2]
    else:
        parts, perm = [depth, size, size, h, w], [0, 1, 4, 2, 5, 3]
    apart = g.Reshape(x, g.const([_batch(x), *parts]))
    return g.Reshape(g.Transpose(apart, perm=perm), g.const([_batch(x), depth, h * size, w * size]))


@rule(lambda g, x, op: g.SpaceToDepth(x) @ op, contract=EXACT)
def split_space_to_depth(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """SpaceToDepth(x) => Reshape, Transpose, Reshape"""
    size, (c, h, w) = int(op.attr("blocksize")), _static(x.shape[1:])
    apart = g.Reshape(x, g.const([_batch(x), c, h // size, size, w // size, size]))
    turned = g.Transpose(apart, perm=[0, 3, 5, 1, 2, 4])
    return g.Reshape(turned, g.const([_batch(x), c * size * size, h // size, w // size]))


@rule(lambda g, x, op: g.one_of("Flatten", "Squeeze", "Unsqueeze")(x, ...) @ op, contract=EXACT)
def to_reshape(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """Flatten, Squeeze or Unsqueeze => Reshape to a shape with at most one dim that is not fixed"""
    return g.Reshape(x, g.const(_reshape_target(op.outputs[0].shape)))


@rule(
    lambda g, op: g.one_of(
        "Concat", "Expand", "Flatten", "Gather", "GatherND", "Reshape", "Slice", "Split", "Squeeze", "Tile",
        "Transpose", "Unsqueeze",
    )(...) @ op,
    contract=EXACT,
)  # fmt: skip
def move_bools_as_integers(g: RewriteBuilder, op: Op) -> tuple[Value, ...]:
    """Reshape(x) => Cast(Reshape(Cast(x, to=int32)), to=bool) of booleans, and other operators that move elements"""
    given = [v if v is None or v.dtype != BOOL else g.Cast(v, to=TensorProto.INT32) for v in op.inputs]
    require(any(v is not own for v, own in zip(given, op.inputs, strict=True)), "it moves no booleans")
    moved: tuple[Value, ...] = getattr(g, op.type)(*given, outputs=len(op.outputs), **op.attrs)
    return tuple(g.Cast(v, to=BOOL) for v in moved)


@rule(lambda g, x, op: g.Cast(x) @ op, contract=EXACT)
def drop_cast_of_indices(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """Gather(y, Cast(x, to=int64)) => Gather(y, x), where x is int32"""
    out = op.outputs[0]
    is_widened = x.dtype == TensorProto.INT32 and op.attr("to") == TensorProto.INT64
    require(is_widened and out.consumers and not op.graph.is_output(out), "it does not widen indices")
    for user in out.consumers:
        is_index = user.type in {"Gather", "GatherElements"} and not user.domain and user.positions_of(out) == [1]
        require(is_index, f"{user.label} takes no int32 for it")
    return x


@rule(lambda g, x, i, op: g.GatherElements(x, i) @ op, contract=EXACT)
def split_gather_elements(g: RewriteBuilder, x: Value, i: Value, op: Op) -> Value:
    """GatherElements(x, i) => Gather of all elements of x at i * stride + constant"""
    extents, wanted = x.static_shape, i.static_shape
    (axis,) = normalized_axes([int(op.attr("axis", 0))], x.rank)
    _require_small(prod(wanted))
    strides = [prod(extents[a + 1 :]) for a in range(len(extents))]
    offsets = np.zeros(wanted, np.int64)
    for a, n in enumerate(wanted):
        if a != axis:
            offsets += np.arange(n).reshape(-1, *(1,) * (len(wanted) - a - 1)) * strides[a]
    positive = g.Where(g.Less(i, 0), g.Add(i, extents[axis]), i)
    at = g.Add(g.Mul(positive, strides[axis]), g.const(offsets, like=i))
    return g.Gather(g.Reshape(x, g.const([-1])), at, axis=0)


@rule(lambda g, a, b, op: g.Einsum(a, b) @ op)
def split_einsum(g: RewriteBuilder, a: Value, b: Value, op: Op) -> Value:
    """Einsum(a, b) => Transpose, Reshape, MatMul, Reshape, Transpose, and ReduceSum of what only one factor has"""
    require_dtype(a, CPU_FLOATS)
    eq = einsum.parse_equation(op.attr("equation"), [a.rank, b.rank])
    (a, s), (b, t) = (_summed(g, v, own, other, eq.result) for v, own, other in ((a, *eq.terms), (b, *eq.terms[::-1])))
    extents = {label: d for v, term in ((b, t), (a, s)) for label, d in zip(term, v.shape, strict=True)}
    both = [label for label in s if label in t]
    for label in both:
        require(a.shape[s.index(label)] == b.shape[t.index(label)], "one factor may be stretched")
    batch = [label for label in eq.result if label in both]
    inner = [label for label in both if label not in eq.result]
    rows, columns = ([label for label in eq.result if label in own and label not in both] for own in (s, t))
    left = _grouped(g, a, s, [*([label] for label in batch), rows, inner])
    right = _grouped(g, b, t, [*([label] for label in batch), inner, columns])
    product, order = g.MatMul(left, right), [*batch, *rows, *columns]
    if len(rows) != 1 or len(columns) != 1:
        product = g.Reshape(product, g.const(_reshape_target([extents[label] for label in order])))
    perm = [order.index(label) for label in eq.result]
    return product if perm == sorted(perm) else g.Transpose(product, perm=perm)


def _summed(
    g: RewriteBuilder, v: Value, own: einsum.Term, other: einsum.Term, result: einsum.Term
) -> tuple[Value, einsum.Term]:
    """A factor without the labels that nothing else has."""
    axes = [i for i, label in enumerate(own) if label not in other and label not in result]
    kept = tuple(label for i, label in enumerate(own) if i not in axes)
    return (g.ReduceSum(v, axes=axes, keepdims=0) if axes else v), kept


def _grouped(g: RewriteBuilder, v: Value, term: einsum.Term, groups: Sequence[Sequence[str]]) -> Value:
    """A factor with an axis for each group of labels."""
    perm = [term.index(label) for group in groups for label in group]
    turned = v if perm == sorted(perm) else g.Transpose(v, perm=perm)
    if all(len(group) == 1 for group in groups):
        return turned
    extents = [[v.shape[term.index(label)] for label in group] for group in groups]
    dims: list[Dim] = [group[0] if len(group) == 1 else prod(_static(group)) for group in extents]
    return g.Reshape(turned, g.const(_reshape_target(dims)))


@rule(lambda g, op: g.one_of("Resize", "Upsample")(...) @ op, contract=conditional(each=is_finite))
def split_resize(g: RewriteBuilder, op: Op) -> Value:
    """Resize(x) => MatMul with a constant matrix of weights for each axis that changes"""
    x, y = op.operand(), op.outputs[0]
    require_dtype(x, CPU_FLOATS)
    mode = op.attr("coordinate_transformation_mode", "half_pixel")
    require(mode != "tf_crop_and_resize", "it extrapolates")
    require(op.attr("keep_aspect_ratio_policy", "stretch") == "stretch", "its policy changes its sizes")
    if len(y.shape) != x.rank:
        raise MatchFailure("its ranks differ")
    changed = [a for a in range(x.rank) if x.shape[a] != y.shape[a]]
    require(x.rank > 1 and changed, "it has one axis, or changes none")
    found = x
    for axis in changed:
        _static((x.shape[axis], y.shape[axis]))
        found = _multiplied_along(g, found, axis, _resizing_weights(op, x, axis))
    return found


def _resizing_weights(op: Op, x: Value, axis: int) -> Array:
    """The weights of a Resize along one axis, (size before, size after): its results for the unit vectors."""
    (n,) = _static(x.shape[axis : axis + 1])
    other = 0 if axis else 1
    units = np.eye(n).reshape([n if a in {axis, other} else 1 for a in range(x.rank)])
    named = op.attr("axes")
    along = normalized_axes(list(named), x.rank) if named else list(range(x.rank))
    given: list[Array | None] = [units]
    for i, v in enumerate(op.inputs[1:], 1):
        numbers = None if v is None or (v.is_const and not v.const.size) else v.const.copy()
        is_size = i == len(op.inputs) - 1 and i == 3
        if numbers is not None and numbers.size == len(along):
            numbers = np.array(
                [
                    number if a == axis else (units.shape[a] if is_size else 1)
                    for a, number in zip(along, numbers.tolist(), strict=True)
                ]
            )
        given.append(numbers)
    attributes = {name: op.attr(name) for name in (op.schema.attributes if op.schema is not None else ())}
    call = OperatorCall(
        bare_node(op),
        op.version,
        {name: value for name, value in attributes.items() if value is not None},
        [x.dtype] * len(given),
        _no_body,
    )
    found = np.asarray(OPERATORS[op.type].run(call, *given))
    return np.moveaxis(found, (other, axis), (0, 1)).reshape(n, -1)


def _no_body(_graph: object, _inputs: object) -> list[Array]:
    raise NotImplementedError("it has a body")


def _multiplied_along(g: RewriteBuilder, x: Value, axis: int, weights: Array) -> Value:
    """The products of the vectors along an axis with a matrix (size before, size after)."""
    if axis == x.rank - 1:
        return g.MatMul(x, g.const(weights, like=x))
    if axis == x.rank - 2:
        return g.MatMul(g.const(weights.T, like=x), x)
    perm = list(range(x.rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    return g.Transpose(g.MatMul(g.Transpose(x, perm=perm), g.const(weights, like=x)), perm=perm)


def _static(dims: Shape | Sequence[Dim]) -> tuple[int, ...]:
    """Dims as integers; declines others."""
    return known(as_integers(dims), f"the dims {', '.join(map(str, dims))} are not fixed")


def _batch(x: Value) -> int:
    """The first dim, or -1 for one that is not fixed."""
    return d if isinstance(d := x.shape[0], int) else -1


def _reshape_target(dims: Sequence[Dim]) -> list[int]:
    """The shape for a Reshape to dims of which one may be unknown."""
    target = [d if isinstance(d, int) else -1 for d in dims]
    require(target.count(-1) <= 1 and 0 not in target, "more than one dim is not fixed, or one is 0")
    return target


def _require_small(elements: int) -> None:
    require(elements <= MAX_MASK_ELEMENTS, f"a constant of {elements} elements would stand for it")


DECOMPOSITIONS: tuple[Rule, ...] = tuple(
    r
    for module in (decomposition, contrib_decompositions, einsum)
    for r in vars(module).values()
    if isinstance(r, Rule) and r.build.__module__ == module.__name__
) + tuple(r for r in list(globals().values()) if isinstance(r, Rule) and r.build.__module__ == __name__)
"""All decompositions; among several of one operator, the cheapest is chosen by its cost."""
