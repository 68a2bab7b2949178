"""Removal of ops that leave each element in its place: reshapes, slices, pads, splits and joins."""

from __future__ import annotations

from ...core import EXACT, Build, Op, RulePass, Value, require, rule, same_extent
from ...core.inference.input_queries import INT32_MAX
from ...core.ir.dims import Shape
from ..support.operand_queries import constant_integers, keeps_shape, known_integers, required_scalar


@rule(lambda g, xs, concat: g.Concat(*xs) @ concat, contract=EXACT)
def drop_empty_concat_inputs(g: Build, xs: tuple[Value, ...], concat: Op) -> Value:
    """Concat(x, nothing, y) => Concat(x, y), and Concat(x) => x"""
    axis = concat.attr("axis")
    require(axis is not None, "the axis is missing")
    kept = [x for x in xs if not is_empty_along(x, axis)] or [xs[0]]
    require(len(kept) < len(xs) or len(xs) == 1, "no input is known to be empty")
    return kept[0] if len(kept) == 1 else g.Concat(*kept, axis=axis)


@rule(lambda g, x, split: g.Split(x, ...) @ split, contract=EXACT)
def drop_single_split(g: Build, x: Value, split: Op) -> tuple[Value | None, ...]:
    """Split(x) => x, where it is one piece, or where the others are empty and not read"""
    if len(split.outputs) == 1:
        return (x,)
    extents = constant_integers(split, "split") or []
    require(len(extents) == len(split.outputs), "the extents of the pieces are unknown")
    require(sum(map(bool, extents)) == 1, "more than one piece may be nonempty")
    return tuple(x if extent else None for extent in extents)


def is_empty_along(x: Value, axis: int) -> bool:
    """Whether `x` is known to have extent 0 along an axis."""
    shape = x.known_shape
    return shape is not None and -len(shape) <= axis < len(shape) and same_extent(shape[axis], 0)


DROP_NO_OP_SPLIT_CONCAT = RulePass("drop-no-op-split-concat", (drop_empty_concat_inputs, drop_single_split))


@rule(
    lambda g, x, op: g.one_of("CenterCropPad", "Expand", "Flatten", "Reshape", "Tile", "Unsqueeze")(x, ...) @ op,
    contract=EXACT,
)
def drop_no_op_reshape(g: Build, x: Value, op: Op) -> Value:
    """Reshape(x, the shape of x) => x, and so CenterCropPad, Expand, Flatten, Tile, Unsqueeze"""
    require(keeps_shape(op, x), "the shape may differ from that of x")
    return x


# Empty axes mean none to the operator, and all of extent 1 to onnxruntime.
@rule(lambda g, x, axes: g.Squeeze(x, axes=axes), contract=EXACT)
def drop_no_op_squeeze(g: Build, x: Value, axes: list[int] | None) -> Value:
    """Squeeze(x) => x, where no dim has extent 1"""
    require(not axes and all(isinstance(d, int) and d != 1 for d in x.shape), "it may remove a dim")
    return x


@rule(lambda g, x, op: g.Slice(x, ...) @ op, contract=EXACT)
def drop_full_slice(g: Build, x: Value, op: Op) -> Value:
    """Slice(x, from the first element to the last) => x"""
    starts, ends = known_integers(op, "starts"), known_integers(op, "ends")
    axes, steps = known_integers(op), constant_integers(op, "steps")
    has_axes = axes is not None or op.input(3) is None
    if starts and ends and has_axes and takes_everything(x.known_shape, starts, ends, axes, steps):
        return x
    require(not any(constant_integers(op, "starts") or []), "the slice does not start at 0")
    require(all(s == 1 for s in steps or []), "the step is not 1")
    require(keeps_shape(op, x), "the shape may differ from that of x")
    return x


@rule(lambda g, x, op: g.Pad(x, ...) @ op, contract=EXACT)
def drop_no_op_pad(g: Build, x: Value, op: Op) -> Value:
    """Pad(x, 0 0 ...) => x, in every mode"""
    pads = constant_integers(op, "pads")
    require(pads is not None and not any(pads), "a pad is not 0")
    return x


@rule(lambda g, x, op: g.one_of("DepthToSpace", "SpaceToDepth")(x) @ op, contract=EXACT)
def drop_unit_depth_to_space(g: Build, x: Value, op: Op) -> Value:
    """DepthToSpace(x, blocksize=1) => x, and so SpaceToDepth"""
    require(op.attr("blocksize") == 1, "the block size is not 1")
    return x


@rule(lambda g, x, equation: g.Einsum(x, equation=equation), contract=EXACT)
def drop_no_op_einsum(g: Build, x: Value, equation: str) -> Value:
    """Einsum(x, ij -> ij) => x"""
    given, arrow, wanted = equation.replace(" ", "").partition("->")
    letters = given.replace("...", "")
    require(bool(arrow) and given == wanted and len(set(letters)) == len(letters), "the equation is not the identity")
    return x


@rule(lambda g, x, op, k=None: g.Trilu(x, k) @ op, contract=EXACT)
def drop_no_op_trilu(g: Build, x: Value, op: Op, k: Value | None) -> Value:
    """Trilu(x, k) => x, where no element lies beyond the k-th diagonal"""
    side = -2 if op.attr("upper", 1) else -1
    require(x.rank >= 2, "x has fewer than 2 dims")
    extent, diagonal = x.shape[side], 0 if k is None else required_scalar(k)
    reach = -diagonal if side == -2 else diagonal
    require(isinstance(extent, int) and extent - 1 <= reach, "an element may lie beyond the diagonal")
    return x


def takes_everything(
    shape: Shape | None, starts: list[int], ends: list[int], axes: list[int] | None, steps: list[int] | None
) -> bool:
    """Whether a Slice with these operands takes all elements, in order (operator Slice; bounds are clamped)."""
    axes, steps = axes or list(range(len(starts))), steps or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        return False
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        extent = None if shape is None or not -len(shape) <= axis < len(shape) else shape[axis]
        if isinstance(extent, int):
            if step == 0 or range(extent)[start:end:step] != range(extent):
                return False
        elif start != 0 or step != 1 or end < INT32_MAX:
            return False
    return True


DROP_NO_OP_MOVEMENT = RulePass("drop-no-op-movement", (
    drop_no_op_reshape, drop_no_op_squeeze, drop_full_slice, drop_no_op_pad, drop_unit_depth_to_space,
    drop_no_op_einsum, drop_no_op_trilu,
))  # fmt: skip
