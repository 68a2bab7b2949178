"""Queries about operands, and constants computed from constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod, sqrt
from typing import Any, ParamSpec, TypeVar, cast

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from ...core import MatchFailure, Op, RewriteBuilder, Value, broadcasts_to, conditional, require, same_extent
from ...core.ir.dtypes import CPU_FLOATS, DISCRETE_TYPES, FLOATS, HALF_OR_SINGLE, INTEGERS
from ...core.ir.expressions import Shape, as_integers
from ...core.operators.broadcasting import broadcast
from ...core.operators.movement import MOVEMENT
from ...core.operators.operands import attribute_or_input, normalize_axes, pad_amounts
from ...core.operators.resize import RESIZE


def is_finite(g: Any, v: Any) -> Any:
    """The expression for a number that is not infinite, nor NaN."""
    return g.Less(g.Abs(v), inf)


def is_no_negative_zero(g: Any, v: Any) -> Any:
    """The expression for a number that is no negative zero, nor NaN."""
    return g.Or(g.Or(g.Less(v, 0), g.Greater(v, 0)), g.Greater(g.Reciprocal(v), 0))


NO_NEGATIVE_ZERO = conditional("no zero is negative", each=is_no_negative_zero)
NO_RESULT_OF_ZERO = conditional("no product is a negative zero", assume=lambda g, op: g.Not(g.Equal(op, 0)))
"""A product that is a negative zero gives 0 where 0 is added to it."""
P = ParamSpec("P")
T = TypeVar("T")
Array = np.ndarray[Any, Any]
Inputs = tuple[Value | None, ...]
Values = tuple[Value, ...]
BROADCASTING_OPSET = 7  # of operators with two inputs, such as Add and Gemm; before, attributes say how to broadcast
VARIADIC_BROADCASTING_OPSET = 8  # of Max, Mean, Min and Sum; before, their inputs have one shape


def known(found: T | None, reason: str) -> T:
    """The fact that was found; declines None."""
    if found is None:
        raise MatchFailure(reason)
    return found


operand = Op.operand


def unless_declined(read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """The result of `read`; None where it declines."""
    try:
        return read(*args, **kwargs)
    except MatchFailure:
        return None


def varying_inputs(op: Op) -> list[Value]:
    """The inputs of an op that are not constant."""
    return [v for v in op.inputs if v is not None and not v.is_const]


def varying_operand(op: Op) -> Value:
    """The only input of an op that is not constant."""
    varying = varying_inputs(op)
    require(len(varying) == 1, f"{op.label} does not have exactly one operand that varies")
    return varying[0]


def known_extent(x: Value, axis: int) -> int:
    """The extent of a dim; declines where it is not a number."""
    extent = x.shape[axis] if -x.rank <= axis < x.rank else None
    return known(extent if isinstance(extent, int) else None, f"the extent of {x.name} along axis {axis} is unknown")


def known_scalar(v: Value | None) -> Any:
    """The Python number that a constant of one element holds; None for anything else."""
    if v is None or v.tensor is None or v.tensor.size != 1:
        return None
    return v.const.reshape(-1).tolist()[0]


def required_producer(v: Value | None, *types: str) -> Op:
    """The standard op of one of `types` that computes `v`; declines where there is none."""
    op = None if v is None else v.producer
    if op is None or op.domain or op.type not in types:
        raise MatchFailure(f"{None if v is None else v.name} is not computed by {' or '.join(sorted(types))}")
    return op


def required_scalar(c: Value) -> Any:
    """As `known_scalar`; declines for anything else."""
    return known(known_scalar(c), f"{c.name} is not a constant of one element")


def uniform_value(c: Value) -> Any:
    """The one number (a NumPy scalar) that all elements of a constant are; at least one element is there."""
    data = c.const
    require(data.size > 0, f"{c.name} is empty")
    first = data.reshape(-1)[0]
    same = data.size == 1 or bool((data == first).all())
    require(same and first == first, f"the elements of {c.name} differ")  # noqa: PLR0124 - a NaN is not itself
    return first


def require_numpy_broadcasting(version: int, since: int = BROADCASTING_OPSET) -> None:
    """Decline a version of an operator that does not broadcast as NumPy does yet."""
    require(version >= since, f"before opset {since}, operands do not broadcast as in NumPy")


def require_gatherable(x: Value) -> None:
    """Decline strings: of several in a row, onnxruntime 1.31 gathers the first one, and leaves the others empty."""
    require(x.dtype != TensorProto.STRING, "onnxruntime gathers strings wrongly")


def are_in_range(indices: Array, extent: int) -> bool:
    """Whether all are indices of an axis of that extent, from the front or, if negative, from the end."""
    return bool(((indices >= -extent) & (indices < extent)).all())


def require_broadcastable_to(c: Value, x: Value) -> None:
    """Decline unless `c` broadcasts to the shape of `x`, which need not be known for a scalar."""
    if c.rank > 0:
        fits = broadcasts_to(c.shape, x.shape)
        require(fits, f"{c.name} of {list(c.shape)} does not broadcast to {x.name} of {list(x.shape)}")


def values_along_axis(c: Value, rank: int, axis: int) -> Array:
    """A constant that broadcasts to `rank` dims and varies along `axis` at most: one number or more, in float64."""
    data = c.const
    require(rank > 0, "the rank is 0")
    require(data.ndim <= rank, f"{c.name} has more than {rank} dims")
    dims = (*[1] * (rank - data.ndim), *data.shape)
    axis %= rank
    require(all(d == 1 for i, d in enumerate(dims) if i != axis), f"{c.name} varies along an axis other than {axis}")
    return data.reshape(-1).astype(np.float64)


def addend_along_last_axis(c: Value, x: Value) -> Array:
    """A constant that is added to `x`, as numbers along its last axis; declines others, and one that rounds `x`."""
    require_broadcastable_to(c, x)
    require_no_rounding(c)
    return values_along_axis(c, x.rank, -1)


def swap_of_last_two(rank: int) -> list[int]:
    """The order of axes in which the last two are swapped."""
    return [*range(rank - 2), rank - 1, rank - 2]


def constant_numbers(op: Op, name: str = "axes") -> list[Any] | None:
    """The axes of an op, or other numbers, from an attribute or the constant input of later opsets; None if omitted."""
    given = attribute_or_input(op, name)
    if isinstance(given, Value):
        return given.const.reshape(-1).tolist()
    return None if given is None else list(given)


def pads_of(pad: Op, rank: int) -> tuple[int, ...]:
    """The pads before each of `rank` axes and then after each; declines computed pads."""
    return known(as_integers(pad_amounts(pad, rank)), "pads are computed")


def inferred_shape(op: Op) -> Shape:
    """The shape of the first output of an op, as it follows from the inputs; declines where it is unknown."""
    out = op.outputs[0]
    shape = out.shape
    if not op.graph.is_output(out) or all(isinstance(d, int) for d in shape):
        return shape
    # The names of an output's dims were written by hand, and nothing ever checks them.
    declared = {**MOVEMENT.operators, **RESIZE.operators}.get(op.type)
    if declared is None or declared.shapes is None:
        raise MatchFailure(f"the output shape of {op.label} is unknown")
    return declared.shapes(op)[0]


def same_shape(a: Shape, b: Shape) -> bool:
    """Whether two shapes are known to be the same."""
    return len(a) == len(b) and all(map(same_extent, a, b))


def keeps_shape(op: Op, x: Value) -> bool:
    """Whether the first output of an op has the shape of `x`; declines where a shape is unknown."""
    return same_shape(inferred_shape(op), x.shape)


def is_float_value(value: Value) -> bool:
    """Whether the elements are floating-point numbers, of which zeros may be negative; declines if that is unknown."""
    return value.dtype not in DISCRETE_TYPES


def normalized_axes(axes: list[int], rank: int) -> list[int]:
    """Axes counted from the front, in order; declines axes out of range or named twice."""
    return sorted(normalize_axes(axes, rank))


def reduced_axes(op: Op, rank: int) -> list[int]:
    """The axes that a reduction of `rank` dims takes, counted from the front, in order; declines computed axes."""
    axes = constant_numbers(op)
    if not axes:
        return [] if op.attr("noop_with_empty_axes", 0) else list(range(rank))
    return normalized_axes(axes, rank)


def require_exact_axes(op: Op, x: Value) -> None:
    """Decline negative axes where `x` may have no elements: onnxruntime 1.31 then reduces none."""
    full = all(isinstance(d, int) and d > 0 for d in x.shape)
    require(full or min(constant_numbers(op) or [0]) >= 0, f"an axis is negative, and {x.name} may be empty")


def kept_reduced_axes(x: Value, op: Op) -> list[int]:
    """The axes of `x` that a reduction keeps with extent 1; there is at least one."""
    require(op.attr("keepdims", 1) == 1, "the reduction does not keep the reduced axes")
    axes = reduced_axes(op, x.rank)
    require(bool(axes), "the op reduces no axis")
    return axes


def has_n_consumers(v: Value, count: int = 1) -> bool:
    """Whether `count` ops, and no graph output, read a computed value."""
    home = v.producer.graph if v.producer is not None else None
    return home is not None and len(v.consumers) == count and not home.is_output(v) and v not in home.pinned


def has_one_use(v: Value) -> bool:
    """Whether one input of one op is the only use of a computed value."""
    return has_n_consumers(v) and all(user.inputs.count(v) == 1 for user in v.consumers)


def downcast_constant(g: RewriteBuilder, data: Array, like: Value) -> Value:
    """A constant of numbers in float64 of the type of `like`; declines an overflow, or digits lost of the largest."""
    kind = helper.tensor_dtype_to_np_dtype(like.dtype)
    narrow = data.astype(kind)
    wide = narrow.astype(np.float64)
    require(bool(np.isfinite(wide).all()), "the new weights overflow")
    lost, most = np.abs(wide - data).max(initial=0), np.abs(data).max(initial=0)
    require(bool(lost <= float_limits(kind).eps * most), "the new weights underflow")
    return g.const(narrow)


def sum_of_constants(like: Value, *terms: Array) -> Array:
    """The sum of constants in float64 that is to be of the type of `like`; declines where a term loses half its bits.

    `(x + 0.4) + 2**23` rounds to whole numbers, which `x + (0.4 + 2**23)` does too, but without the 0.4.
    """
    require(all(np.isfinite(t).all() for t in terms), "a constant is not finite")
    kind, total, lost = helper.tensor_dtype_to_np_dtype(like.dtype), terms[0], np.zeros(1)
    for term in terms[1:]:
        first, total = total, total + term
        moved = total - first
        lost = lost + np.abs((first - (total - moved)) + (term - moved))  # by float64 (Knuth, TwoSum)
    lost = lost + np.abs(total.astype(kind).astype(np.float64) - total)
    scales = [s for t in terms if (s := float(np.abs(t).max(initial=0.0)))]
    most = sqrt(float(float_limits(kind).eps)) * min(scales, default=0.0)
    require(float(lost.max(initial=0.0)) <= most, "the sum of the constants loses bits of one of them")
    return total


def require_no_rounding(*constants: Value | None) -> None:
    """Decline constants whose sum with a number rounds it to a whole number; such a sum must not be changed."""
    for c in constants:
        if c is not None:
            require(not is_rounding(c), f"adding {c.name} rounds to whole numbers")


def is_rounding(c: Value) -> bool:
    """Whether the sum of a constant with a number is a whole one."""
    if not c.is_const or c.dtype not in FLOATS:
        return False
    data = np.abs(c.const.astype(np.float64))
    return float(data.max(initial=0.0, where=np.isfinite(data)) * float_limits(c.const.dtype).eps) >= 0.5


def float_limits(dtype: np.dtype[Any]) -> Any:
    """The `finfo` of a type of floats, including those that NumPy lacks."""
    return cast("Any", ml_dtypes.finfo)(dtype)


MAX_ADDED_ELEMENTS = 1024  # elements that may be added to the model


def constant_binary(op: Op) -> tuple[Value, Value, bool]:
    """The computed and the constant operand of a binary op, and whether the constant is first; declines other ops."""
    require_numpy_broadcasting(op.version)
    require(len(op.inputs) == 2, f"{op.label} does not have two inputs")
    a, b = operand(op), operand(op, 1)
    number = "two constant operands" if a.is_const else "no constant operand"
    require(a.is_const != b.is_const, f"{op.label} has {number}")
    return (b, a, True) if a.is_const else (a, b, False)


def broadcast_extents(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which shapes broadcast, of any size; declines where they do not."""
    given = [tuple(map(int, shape)) for shape in shapes]
    out = as_integers(broadcast(given) or ()) or ()
    require(all(broadcasts_to(shape, out) for shape in given), "the shapes do not broadcast")
    return out


def require_bounded_growth(*constants: Value) -> None:
    """Decline a combination that is large, unless a removed constant is as large."""
    size = prod(broadcast_extents(*(c.static_shape for c in constants)))
    require(size > 0, "the constants are empty")
    going = max((c.tensor.size for c in constants if c.tensor is not None and len(c.consumers) == 1), default=0)
    require(size <= max(going, MAX_ADDED_ELEMENTS), f"{size} elements would be added")


def upcast(c: Value) -> Array:
    """A constant in float64 if it holds floats, else as it is."""
    return c.const.astype(np.float64) if c.dtype in FLOATS else c.const


def downcast_at_full_precision(g: RewriteBuilder, data: Array, like: Value) -> Value:
    """A constant of the type of `like`; declines floats which that type cannot hold to full precision."""
    if like.dtype not in FLOATS:
        return g.const(data, like=like)
    kind = like.const.dtype
    held = data.astype(kind)
    size = np.abs(held.astype(np.float64))
    require(bool(np.isfinite(size).all()), "the constant overflows or is not finite")
    smallest = float_limits(kind).smallest_normal  # of full precision
    require(bool(((size >= float(smallest)) | (data == 0)).all()), "the constant underflows")
    return g.const(held)


MAX_FOLDED_ELEMENTS = 1024  # elements of a result that is written down as a constant

_CLAMP_TYPES = CPU_FLOATS | (INTEGERS - {TensorProto.INT16, TensorProto.UINT16})
# The types that onnxruntime's CPU provider has kernels for, by the first opset, the newest first.
KERNEL_TYPES: dict[str, tuple[tuple[int, frozenset[int]], ...]] = {
    "Clip": ((12, _CLAMP_TYPES), (7, HALF_OR_SINGLE)),
    "Max": ((12, _CLAMP_TYPES), (8, CPU_FLOATS), (7, HALF_OR_SINGLE)),
    "Min": ((12, _CLAMP_TYPES), (8, CPU_FLOATS), (7, HALF_OR_SINGLE)),
    "Neg": ((7, CPU_FLOATS | {TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64}),),
    "Relu": ((14, CPU_FLOATS | {TensorProto.INT8, TensorProto.INT32}), (7, CPU_FLOATS)),
}


def require_ort_kernel(g: RewriteBuilder, op_type: str, x: Value) -> None:
    """Decline where onnxruntime has no kernel for the replacement."""
    kinds = next((kinds for since, kinds in KERNEL_TYPES[op_type] if g.opset >= since), frozenset[int]())
    require(x.dtype in kinds, f"onnxruntime has no {op_type} of this type at opset {g.opset}")
