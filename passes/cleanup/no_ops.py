"""Removal of unused ops and initializers, and of ops without effect.

`drop-identity`: Removal of Identity.
`drop-dropout`: Removal of Dropout outside training.
`drop-no-op-where`: Removal of Where ops that always select the same operand.
`drop-no-op-split-concat`: Removal of empty inputs of Concat, and of Splits into one piece.
`drop-no-op-movement`: Removal of reshapes, slices, pads and the like that leave each element in its place.
`drop-no-op-indexing`: Removal of gathers and scatters whose constant indices are the identity.
`drop-no-op-pool-resize`: Removal of pools with windows of one element, and of resizes to the same size.
`drop-no-op-reductions`: Removal of reductions over single elements, or over none.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from msgspec import Struct
from onnx import TensorProto, helper

from ...core import (
    EXACT,
    ChangeLog,
    Graph,
    Op,
    RewriteBuilder,
    Tensor,
    Value,
    by_dtype,
    conditional,
    may_drop,
    require,
    rule,
    same_extent,
)
from ...core.ir.dtypes import DISCRETE_TYPES
from ...core.ir.op import without_trailing_omitted
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ..movement.slices import required_slice_ranges
from ..support.operand_queries import (
    NO_NEGATIVE_ZERO,
    Array,
    constant_numbers,
    is_float_value,
    keeps_shape,
    known_extent,
    normalized_axes,
    reduced_axes,
    require_broadcastable_to,
    require_exact_axes,
    require_gatherable,
    required_scalar,
    uniform_value,
    unless_declined,
)

movement_rule = partial(rule, contract=EXACT, group="drop-no-op-movement")
indexing_rule = partial(rule, contract=EXACT, group="drop-no-op-indexing")


class RemoveUnused(Struct, frozen=True):
    """Ops and initializers that no output depends on. Inputs of the graph always stay."""

    name: str = "remove-unused"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Remove dead ops, last first, then initializers. O(ops)."""
        changes = 0
        for g in graph.with_subgraphs():  # lazily: not into the bodies of removed ops
            for op in reversed(tuple(g.ops())):
                if op in g and all(map(g.is_unused, op.outputs)) and may_drop(op):
                    place = op.outputs[0].name if op.outputs else op.name
                    if change_log.request_change(self.name, place, (op,)):
                        changes += g.prune([op])
        for g in tuple(graph.with_subgraphs()):
            for value in tuple(g.initializers):
                if g.is_unused(value) and change_log.request_change(self.name, value.name, (value,)):
                    changes += g.drop_initializer(value)
        return changes


@rule(lambda g, x: g.Identity(x), contract=EXACT, group="drop-identity")
def drop_identity(g: RewriteBuilder, x: Value) -> Value:
    """Identity(x) => x"""
    return x


@rule(lambda g, x, dropout: g.Dropout(x, ...) @ dropout, contract=EXACT, group="drop-dropout")
def drop_dropout(g: RewriteBuilder, x: Value, dropout: Op) -> tuple[Value, Value | None]:
    """Dropout(x) => x, and a mask of one value, where nothing is dropped"""
    require(is_inactive_dropout(dropout), "it may drop elements")
    mask = dropout.outputs[1] if len(dropout.outputs) > 1 else None
    if mask is None or not (mask.consumers or dropout.graph.is_output(mask)):
        return x, None
    require(g.opset >= 9, "before opset 9, there is no ConstantOfShape for the mask")
    # onnxruntime fills the mask with 0 up to version 11; since then the operator specifies 1.
    # Before version 10 the mask has the type of the data.
    kind = np.bool_ if g.opset >= 10 else helper.tensor_dtype_to_np_dtype(x.dtype)
    fill = Tensor.from_array(np.array([g.opset >= 12], kind))
    return x, g.ConstantOfShape(g.const(np.array(x.static_shape, np.int64)), value=fill)  # a Shape would be one op more


def is_inactive_dropout(dropout: Op) -> bool:
    """Whether a Dropout is in inference form or has ratio 0 (operator Dropout, versions 1 to 22)."""
    if dropout.version < 7:
        return bool(dropout.attr("is_test", 0)) or dropout.attr("ratio", 0.5) == 0
    if dropout.version < 12:
        return True  # versions 7 and 10 are for inference only
    ratio, mode = dropout.input(1), dropout.input(2)
    if mode is None or (mode.is_const and not mode.const.any()):
        return True
    return ratio is not None and ratio.is_const and not ratio.const.any()


STATE_INPUTS = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}
"""Inputs that are initial states: "assumed to be 0" if not specified (operators LSTM, GRU, RNN)."""

DATA_MOVEMENT_OPS = ops_with(Trait.MOVES_DATA)
MAX_PARTS = 16  # values looked at


class DropZeroStates(Struct, frozen=True):
    """LSTM(x, W, R, B, lengths, 0, 0) => LSTM(x, W, R, B, lengths), and so for GRU and RNN"""

    name: str = "drop-zero-states"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Leave out every state that is known to be zero. O(recurrent ops)."""
        changes = 0
        for op in [op for g in graph.with_subgraphs() for op in g.ops(*STATE_INPUTS) if not op.domain]:
            zeros = {i for i in STATE_INPUTS[op.type] if is_known_zero(op.input(i))}
            named = [v.name for v in op.outputs if v.name]
            if not zeros or not named or not change_log.request_change(self.name, named[0], (op,)):
                continue
            inputs = (None if i in zeros else v for i, v in enumerate(op.inputs))
            op.graph.set_inputs(op, without_trailing_omitted(inputs))
            changes += 1
        return changes


def is_known_zero(v: Value | None) -> bool:
    """Whether every element is known to be 0 and not -0: of constants and filled tensors, possibly moved or joined."""
    queue = [v]
    for part in queue:
        op = None if part is None or part.is_const else part.producer
        if op is None or op.domain:
            tensor = None if part is None else part.tensor
        elif op.type == "ConstantOfShape":
            tensor = op.attr("value")
            if tensor is None:
                continue
        else:
            made_of = op.inputs if op.type == "Concat" else op.inputs[: op.type in DATA_MOVEMENT_OPS]
            queue += [x for x in dict.fromkeys(made_of) if x not in queue]
            if not made_of or len(queue) > MAX_PARTS:
                return False
            continue
        found = tensor.array if isinstance(tensor, Tensor) else None
        if found is None or found.dtype.kind != "f" or found.any() or np.signbit(found).any():
            return False
    return True


# Where the condition holds, onnxruntime returns 0 for -0.
@rule(lambda g, c, x, y: g.Where(g.const(c), x, y), contract=EXACT, group="drop-no-op-where")
def fold_constant_where(g: RewriteBuilder, c: Value, x: Value, y: Value) -> Value:
    """Where(true, x, y) => x, Where(false, x, y) => y"""
    require(not uniform_value(c) or not is_float_value(x), "a negative zero may become positive")
    return selected_operand(c, x, y)


@rule(
    lambda g, c, x: g.Where(c, x, x),
    contract=by_dtype(DISCRETE_TYPES, EXACT, otherwise=NO_NEGATIVE_ZERO),
    group="drop-no-op-where",
)
def drop_where_of_equals(g: RewriteBuilder, c: Value, x: Value) -> Value:
    """Where(c, x, x) => x"""
    require_broadcastable_to(c, x)
    return x


@rule(lambda g, c, x, y: g.Where(g.const(c), x, y), contract=NO_NEGATIVE_ZERO, group="drop-no-op-where")
def fold_constant_where_of_floats(g: RewriteBuilder, c: Value, x: Value, y: Value) -> Value:
    """Where(true, x, y) => x"""
    return selected_operand(c, x, y)


def selected_operand(c: Value, x: Value, y: Value) -> Value:
    """The operand that a constant condition selects; declines where the others would broadcast it."""
    taken, other = (x, y) if uniform_value(c) else (y, x)
    require_broadcastable_to(c, taken)
    require_broadcastable_to(other, taken)
    return taken


@rule(lambda g, xs, concat: g.Concat(*xs) @ concat, contract=EXACT, group="drop-no-op-split-concat")
def drop_empty_concat_inputs(g: RewriteBuilder, xs: tuple[Value, ...], concat: Op) -> Value:
    """Concat(x, nothing, y) => Concat(x, y), and Concat(x) => x"""
    axis = concat.attr("axis")
    require(axis is not None, "the axis is missing")
    kept = [x for x in xs if not is_empty_along(x, axis)] or [xs[0]]
    require(len(kept) < len(xs) or len(xs) == 1, "no input is known to be empty")
    return kept[0] if len(kept) == 1 else g.Concat(*kept, axis=axis)


@rule(lambda g, x, split: g.Split(x, ...) @ split, contract=EXACT, group="drop-no-op-split-concat")
def drop_single_split(g: RewriteBuilder, x: Value, split: Op) -> tuple[Value | None, ...]:
    """Split(x) => x, where it is one piece, or where the others are empty and not read"""
    if len(split.outputs) == 1:
        return (x,)
    extents = constant_numbers(split, "split") or []
    require(len(extents) == len(split.outputs), "the extents of the pieces are unknown")
    require(sum(map(bool, extents)) == 1, "more than one piece may be nonempty")
    return tuple(x if extent else None for extent in extents)


def is_empty_along(x: Value, axis: int) -> bool:
    """Whether `x` is known to have extent 0 along an axis."""
    shape = x.known_shape
    return shape is not None and -len(shape) <= axis < len(shape) and same_extent(shape[axis], 0)


@movement_rule(
    lambda g, x, op: g.one_of("CenterCropPad", "Expand", "Flatten", "Reshape", "Tile", "Unsqueeze")(x, ...) @ op
)
def drop_no_op_reshape(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """Reshape(x, the shape of x) => x, and so CenterCropPad, Expand, Flatten, Tile, Unsqueeze"""
    require(keeps_shape(op, x), "the shape may differ from the shape of x")
    return x


# Empty axes mean none to the operator, and all of extent 1 to onnxruntime.
@movement_rule(lambda g, x, axes: g.Squeeze(x, axes=axes))
def drop_no_op_squeeze(g: RewriteBuilder, x: Value, axes: list[int] | None) -> Value:
    """Squeeze(x) => x, where no dim has extent 1"""
    require(not axes and all(isinstance(d, int) and d != 1 for d in x.shape), "it may remove a dim")
    return x


@movement_rule(lambda g, x, op: g.Slice(x, ...) @ op)
def drop_full_slice(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """Slice(x, from the first element to the last) => x"""
    ranges, extents = unless_declined(required_slice_ranges, op, x), dict(enumerate(x.known_shape or ()))
    if ranges is None or not all(cut.takes_all(extents.get(axis)) for axis, cut in ranges.items()):
        require(not any(constant_numbers(op, "starts") or []), "the slice does not start at 0")
        require(all(s == 1 for s in constant_numbers(op, "steps") or []), "the step is not 1")
        require(keeps_shape(op, x), "the shape may differ from the shape of x")
    return x


@movement_rule(lambda g, x, op: g.Pad(x, ...) @ op)
def drop_no_op_pad(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """Pad(x, 0 0 ...) => x, in every mode"""
    pads = constant_numbers(op, "pads")
    require(pads is not None and not any(pads), "a pad is not 0")
    return x


@movement_rule(lambda g, x, op: g.one_of("DepthToSpace", "SpaceToDepth")(x) @ op)
def drop_unit_depth_to_space(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """DepthToSpace(x, blocksize=1) => x, and so SpaceToDepth"""
    require(op.attr("blocksize") == 1, "the block size is not 1")
    return x


@movement_rule(lambda g, x, equation: g.Einsum(x, equation=equation))
def drop_no_op_einsum(g: RewriteBuilder, x: Value, equation: str) -> Value:
    """Einsum(x, ij -> ij) => x"""
    given, arrow, wanted = equation.replace(" ", "").partition("->")
    letters = given.replace("...", "")
    require(bool(arrow) and given == wanted and len(set(letters)) == len(letters), "the equation is not the identity")
    return x


@movement_rule(lambda g, x, op, k=None: g.Trilu(x, k) @ op)
def drop_no_op_trilu(g: RewriteBuilder, x: Value, op: Op, k: Value | None) -> Value:
    """Trilu(x, k) => x, where no element lies beyond the k-th diagonal"""
    side = -2 if op.attr("upper", 1) else -1
    require(x.rank >= 2, "x has fewer than 2 dims")
    extent, diagonal = x.shape[side], 0 if k is None else required_scalar(k)
    reach = -diagonal if side == -2 else diagonal
    require(isinstance(extent, int) and extent - 1 <= reach, "an element may lie beyond the diagonal")
    return x


@indexing_rule(lambda g, x, indices, axis: g.Gather(x, g.const(indices), axis=axis))
def drop_no_op_gather(g: RewriteBuilder, x: Value, indices: Value, axis: int) -> Value:
    """Gather(x, 0 1 2 ...) => x"""
    require_gatherable(x)
    extent = known_extent(x, axis)
    require(indices.shape == (extent,), "the number of indices is not the extent")
    require(are_indices_equal(indices, np.arange(extent), extent), "the indices are not in order")
    return x


@indexing_rule(
    lambda g, x, indices, updates, axis: g.one_of("GatherElements", "Scatter", "ScatterElements")(
        x, g.const(indices), *updates, axis=axis
    )
)
def drop_identity_element_indices(
    g: RewriteBuilder, x: Value, indices: Value, updates: tuple[Value, ...], axis: int
) -> Value:
    """GatherElements(x, identity) => x, ScatterElements(x, identity, updates) => updates"""
    shape, extent = x.static_shape, known_extent(x, axis)
    require(indices.shape == shape, "the shape of the indices differs from the shape of x")
    order = np.arange(extent).reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
    require(are_indices_equal(indices, order, extent), "an index is not the element's own position")
    return (*updates, x)[0]


@indexing_rule(lambda g, x, indices, updates: g.one_of("GatherND", "ScatterND")(x, g.const(indices), *updates))
def drop_identity_nd_indices(g: RewriteBuilder, x: Value, indices: Value, updates: tuple[Value, ...]) -> Value:
    """GatherND(x, identity) => x, ScatterND(x, identity, updates) => updates"""
    require(indices.rank >= 2, "the indices have no dims")
    depth = indices.rank - 1
    require(depth <= x.rank, "the indices have more dims than x")
    extents = tuple(known_extent(x, i) for i in range(depth))
    require(indices.shape == (*extents, depth), "the indices do not cover all entries")
    order = np.moveaxis(np.indices(extents), 0, -1)
    require(are_indices_equal(indices, order, np.array(extents)), "an index is not the entry's own position")
    return (*updates, x)[0]


@indexing_rule(lambda g, x, condition, axis: g.Compress(x, g.const(condition), axis=axis))
def drop_no_op_compress(g: RewriteBuilder, x: Value, condition: Value, axis: int | None) -> Value:
    """Compress(x, true true ...) => x"""
    require(axis is not None or x.rank == 1, "without an axis, Compress flattens x")
    require(condition.shape == (known_extent(x, axis or 0),), "the condition may be shorter than the axis")
    require(bool(condition.const.all()), "the condition is not true throughout")
    return x


def are_indices_equal(indices: Value, order: Array, extents: Array | int) -> bool:
    """Whether indices, counted from the end where negative, equal `order`."""
    given = indices.const
    return bool((np.where(given < 0, given + extents, given) == order).all())


CROP_AND_RESIZE = "tf_crop_and_resize"
HALF_PIXEL_FOR_NN = "tf_half_pixel_for_nn"  # by half an element even where nothing is resized, but not in onnxruntime


@rule(
    lambda g, x, pool: g.one_of("AveragePool", "GlobalAveragePool")(x) @ pool,
    contract=NO_NEGATIVE_ZERO,
    group="drop-no-op-pool-resize",
)
def drop_no_op_average_pool(g: RewriteBuilder, x: Value, pool: Op) -> Value:
    """AveragePool(x, kernel 1, stride 1) => x, GlobalAveragePool(x) => x where there is one element"""
    require(is_unit_pool(pool, x), "the windows may not cover each element once")
    return x


@rule(lambda g, x, pool: g.MaxPool(x) @ pool, contract=EXACT, group="drop-no-op-pool-resize")
def drop_no_op_max_pool(g: RewriteBuilder, x: Value, pool: Op) -> tuple[Value | None, ...]:
    """MaxPool(x, kernel 1, stride 1) => x, for whole numbers"""
    require(not is_float_value(x), "x is a float: onnxruntime may return a finite number for NaN and -infinity")
    require(is_unit_pool(pool, x), "the windows may not cover each element once")
    return (x, None)


@rule(
    lambda g, x, resize: g.one_of("Resize", "Upsample")(x, ...) @ resize, contract=EXACT, group="drop-no-op-pool-resize"
)
def drop_unit_resize(g: RewriteBuilder, x: Value, resize: Op) -> Value:
    """Resize(x, scales 1 1 ...) => x, Resize(x, sizes: the extents) => x, and so Upsample"""
    mode = resize.attr("coordinate_transformation_mode")
    require(mode not in {CROP_AND_RESIZE, HALF_PIXEL_FOR_NN}, "the coordinate transformation may select other elements")
    if scales := constant_numbers(resize, "scales"):
        require(all(s == 1 for s in scales), "a scale is not 1")
        return x
    sizes, axes = unless_declined(constant_numbers, resize, "sizes") or [], resize.attr("axes") or list(range(x.rank))
    if sizes and len(sizes) == len(axes) and all(-x.rank <= a < x.rank for a in axes):
        require(all(same_extent(x.shape[a], s) for a, s in zip(axes, sizes, strict=True)), "a size may differ")
        return x
    stretches = resize.attr("keep_aspect_ratio_policy", "stretch") == "stretch"
    require(stretches and resize.input(3) is not None, "the sizes are missing, or the aspect ratio policy changes them")
    require(keeps_shape(resize, x), "the shape may differ from the shape of x")
    return x


def is_unit_pool(pool: Op, x: Value) -> bool:
    """Whether each window of a pool holds one element, and each element has its window, in order."""
    if pool.type.startswith("Global"):
        return x.rank > 2 and all(same_extent(d, 1) for d in x.shape[2:])
    kernel = pool.attr("kernel_shape") or [0]
    if any(k != 1 for k in kernel) or any(pool.attr("pads") or []):
        return False
    steps: list[int] = pool.attr("strides") or []
    return all(s == 1 for s in steps) or (
        x.rank == len(steps) + 2 and all(s == 1 or same_extent(d, 1) for s, d in zip(steps, x.shape[2:], strict=True))
    )


SUM_REDUCTIONS = frozenset({"ReduceMean", "ReduceSum"})
REDUCTIONS = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
ARITHMETIC_REDUCTIONS = SUM_REDUCTIONS | {"ReduceProd"}
INT64_TYPES = frozenset({TensorProto.INT64, TensorProto.UINT64})
"""Whole numbers that onnxruntime adds up and multiplies as doubles."""


@rule(lambda g, x, op: g.one_of(*REDUCTIONS)(x, ...) @ op, contract=EXACT, group="drop-no-op-reductions")
def drop_no_op_reduction(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """ReduceSum(x, no axes, noop_with_empty_axes=1) => x, and so ReduceMax, ReduceMean, ReduceMin, ReduceProd"""
    require(not constant_numbers(op) and op.attr("noop_with_empty_axes", 0), "the op reduces axes")
    return x


@rule(lambda g, x, op: g.one_of(*REDUCTIONS)(x, ...) @ op, contract=EXACT, group="drop-no-op-reductions")
def drop_reduction_of_unit_axes(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """ReduceMax(x, axes of extent 1) => x, or Squeeze(x, axes); so ReduceMin, ReduceProd, and sums of whole numbers"""
    require(op.type not in SUM_REDUCTIONS or not is_float_value(x), "x is a float: a negative zero may become positive")
    require(op.type not in ARITHMETIC_REDUCTIONS or x.dtype not in INT64_TYPES, "onnxruntime computes it in float64")
    return without_unit_axes(g, x, op)


@rule(
    lambda g, x, op: g.one_of("ReduceMean", "ReduceProd", "ReduceSum")(x, ...) @ op,
    contract=by_dtype(
        INT64_TYPES,
        conditional("no integer is beyond 2**53", assume=lambda g, x: g.Equal(g.Div(x, 2**53), 0)),
        otherwise=NO_NEGATIVE_ZERO,
    ),
    group="drop-no-op-reductions",
)
def drop_sum_of_unit_axes(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """ReduceSum(x, axes of extent 1) => x, or Squeeze(x, axes), and so ReduceMean and ReduceProd"""
    return without_unit_axes(g, x, op)


@rule(
    lambda g, x, axis, op: g.one_of("CumProd", "CumSum")(x, g.const(axis)) @ op,
    lambda g, x, lengths, op: g.ReverseSequence(x, lengths) @ op,
    contract=EXACT,
    group="drop-no-op-reductions",
)
def drop_scan_of_unit_axis(g: RewriteBuilder, x: Value, op: Op, axis: Value | None = None) -> Value:
    """CumSum(x, an axis of extent 1) => x, and so CumProd, and ReverseSequence with a time axis of extent 1"""
    require(not op.attr("exclusive", 0), "it is exclusive")
    (at,) = normalized_axes([op.attr("time_axis", 0) if axis is None else required_scalar(axis)], x.rank)
    require(same_extent(x.shape[at], 1), "the extent of the axis is not 1")
    return x


def without_unit_axes(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """`x` without the axes that `op` reduces, if it does not keep them; declines unless all have extent 1."""
    reduced = reduced_axes(op, x.rank)
    require(all(same_extent(x.shape[a], 1) for a in reduced), "a reduced axis has an extent other than 1")
    if not reduced or op.attr("keepdims", 1):
        return x
    require_exact_axes(op, x)
    return g.Squeeze(x, axes=reduced)
