"""NumPy kernels of operators that move elements or compute them exactly, for constants that need no session.

Their results have the bits of onnxruntime's: no operator rounds but by one operation of IEEE 754, and results with NaN,
whose bits depend on the order of operands, are left to onnxruntime. Nothing here can crash or grow beyond a size that
is known before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper

from ...core import Op, Tensor, Value
from ...core.ir.dtypes import INTEGERS
from ...core.operators.declaration import KernelCall
from ...core.operators.declaration import Meaning as Kernel
from ...core.operators.element_types import Array
from ...core.operators.movement import MOVEMENT
from ...core.operators.reduction import axes_of

FLOAT_DTYPES = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
INTEGER_DTYPES = frozenset(helper.tensor_dtype_to_np_dtype(dtype) for dtype in INTEGERS)
BOOL = np.dtype(np.bool_)
MAX_EXACT_INTEGER = 2**53  # of float64
FIRST_OPSET = 8  # in which all operators broadcast in both directions
MAX_VIEW_RATIO = 2  # a result that is a view keeps at most so many times its bytes alive


class Unsupported(Exception):
    """The inputs of an op are not such that its result has the same bits everywhere, or it grows too large."""


def evaluate_arrays(
    ops: Sequence[Op], wanted: Collection[Value], max_bytes: int
) -> tuple[dict[Value, Tensor], list[Op]]:
    """Compute those of `ops` (sorted, of one graph, from constants alone) that have a kernel here.

    Returns the tensors of `wanted`, and those that the other ops read, with these ops. A result has at most
    `max_bytes`, or the bytes of the inputs if they are more.
    """
    found: dict[Value, Array] = {}
    rest: list[Op] = []
    users = _user_counts(ops)
    kept = set(wanted)
    for op in ops:
        read = dict.fromkeys(v for v in op.inputs if v is not None)
        results = None
        if not op.subgraphs and all(v.tensor is not None or v in found for v in read):
            results = _attempt(op, found, max_bytes)
        if results is None:
            rest.append(op)
            kept.update((*read, *op.captures))
            continue
        found.update((v, r) for v, r in zip(op.outputs, results, strict=False) if v.name)
        for v in read:
            users[v] -= 1
            if not users[v] and v not in kept:
                found.pop(v, None)
    return {v: Tensor.from_array(_compact(a)) for v, a in found.items() if v in kept}, rest


def _user_counts(ops: Iterable[Op]) -> dict[Value, int]:
    counts: dict[Value, int] = {}
    for op in ops:
        for v in dict.fromkeys((*op.inputs, *op.captures)):
            if v is not None:
                counts[v] = counts.get(v, 0) + 1
    return counts


def _attempt(op: Op, found: Mapping[Value, Array], max_bytes: int) -> tuple[Array, ...] | None:
    """The results of an op; None if it has no kernel for these inputs."""
    kernel = KERNELS.get(op.type) if not op.domain else None
    if kernel is None or op.version < FIRST_OPSET:
        return None
    inputs = [None if v is None else v.const if v.is_const else found[v] for v in op.inputs]
    call = _kernel_call(op)
    try:
        _require_size(call, [a for a in inputs if a is not None], max_bytes)
        with np.errstate(all="ignore"):
            made: Any = kernel(call, *inputs)
    except (Unsupported, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None  # the model fails there, as where a required input is left out, or grows
    several: tuple[Any, ...] = cast("tuple[Any, ...]", made) if isinstance(made, tuple) else (made,)
    results: tuple[Array, ...] = tuple(map(np.asanyarray, several))
    return results if all(map(_is_expected, op.outputs, results)) else None


def _kernel_call(op: Op) -> KernelCall:
    node = onnx.NodeProto(op_type=op.type, output=[v.name for v in op.outputs])
    attributes = {name: value.array if isinstance(value, Tensor) else value for name, value in op.attrs.items()}
    types = [0 if v is None else v.recorded_type[0] for v in op.inputs]
    return KernelCall(node, op.version, attributes, types, lambda _, inputs: list(inputs))


def _is_expected(value: Value, result: Array) -> bool:
    """Whether a result has the known type of its value."""
    return value.known_dtype in {0, helper.np_dtype_to_tensor_dtype(result.dtype)}


def _compact(array: Array) -> Array:
    """The array, or a copy where it would keep a much larger one alive."""
    base: Any = array.base
    is_small = isinstance(base, np.ndarray) and array.nbytes * MAX_VIEW_RATIO < base.nbytes  # pyright: ignore[reportUnknownMemberType]
    return array.copy() if is_small else array


def _require_size(call: KernelCall, inputs: Sequence[Array], max_bytes: int) -> None:
    """Raise Unsupported if the result has more than `max_bytes`, and more than the inputs have."""
    width = max((a.dtype.itemsize for a in inputs), default=8)
    op_type = call.node.op_type
    if op_type in ELEMENTWISE:
        count = prod(np.broadcast_shapes(*(a.shape for a in inputs)))
        width = max(width, 8 if op_type in {"Cast", "CastLike"} else 1)
    elif op_type in SIZES:
        count = SIZES[op_type](call, *inputs)
    else:
        return  # it makes no element that its inputs do not have
    if count * width > max(max_bytes, sum(a.nbytes for a in inputs)):
        raise Unsupported(f"{op_type} has {count} elements")


def _gathered_elements(call: KernelCall, x: Array, indices: Array) -> int:
    extent = x.shape[call.attributes.get("axis", 0)]
    return x.size // extent * indices.size if extent else 0


def _numbers(array: Array) -> list[int]:
    return [int(n) for n in array.reshape(-1).tolist()]


def _integer_range(_: KernelCall, start: Array, limit: Array, delta: Array) -> range:
    (first,), (last,), (step,) = map(_numbers, (start, limit, delta))
    _require({a.dtype for a in (start, limit, delta)} <= INTEGER_DTYPES)
    return range(first, last, step)


def _expanded_elements(_: KernelCall, x: Array, shape: Array) -> int:
    return prod(np.broadcast_shapes(x.shape, tuple(_numbers(shape))))


def _filled_elements(_: KernelCall, shape: Array) -> int:
    return prod(_numbers(shape))


def _tiled_elements(_: KernelCall, x: Array, repeats: Array) -> int:
    return x.size * prod(_numbers(repeats))


def _range_elements(call: KernelCall, start: Array, limit: Array, delta: Array) -> int:
    return len(_integer_range(call, start, limit, delta))


SIZES: Mapping[str, Callable[..., int]] = {
    "ConstantOfShape": _filled_elements,
    "Expand": _expanded_elements,
    "Gather": _gathered_elements,
    "Range": _range_elements,
    "Tile": _tiled_elements,
}
"""The elements of results that may be larger than the inputs."""


def _require(holds: bool) -> None:
    if not holds:
        raise Unsupported


def _same(dtypes: Collection[np.dtype[Any]], inputs: Sequence[Array]) -> None:
    """Raise Unsupported unless all inputs have one type, which is in `dtypes`."""
    _require(inputs[0].dtype in dtypes and all(a.dtype == inputs[0].dtype for a in inputs))


def _arithmetic(function: Callable[..., Any], dtypes: Collection[np.dtype[Any]]) -> Kernel:
    """The kernel of an operation that rounds once, folded over the inputs; integers wrap around."""

    def kernel(_: KernelCall, *inputs: Array) -> Array:
        _same(dtypes, inputs)
        out = np.asanyarray(reduce(function, inputs) if len(inputs) > 1 else function(*inputs))
        _require(out.dtype.kind != "f" or not np.isnan(out).any())
        return out

    return kernel


_divide_floats = _arithmetic(np.divide, FLOAT_DTYPES)


def _require_plain_divisor(a: Array, b: Array) -> None:
    """Raise Unsupported unless `a / b` is one of integers that is defined and does not overflow."""
    _same(INTEGER_DTYPES, (a, b))
    _require(not np.isin(b, (0, -1)).any())


def _div(call: KernelCall, a: Array, b: Array) -> Array:
    if a.dtype in FLOAT_DTYPES:
        return _divide_floats(call, a, b)
    _require_plain_divisor(a, b)
    floor = a // b
    return floor + ((a % b != 0) & ((a < 0) != (b < 0))).astype(a.dtype)  # truncated towards zero


def _mod(call: KernelCall, a: Array, b: Array) -> Array:
    _require(not call.attributes.get("fmod"))
    _require_plain_divisor(a, b)
    return a % b  # of the sign of b, as in ONNX


def _where(_: KernelCall, condition: Array, a: Array, b: Array) -> Array:
    _require(condition.dtype == BOOL and a.dtype == b.dtype)
    return np.where(condition, a, b)


def _cast(x: Array, to: np.dtype[Any]) -> Array:
    """`x` with elements of another type, where ONNX defines the result."""
    _require(x.dtype in CASTS and to in CASTS - {np.dtype(np.float16)})
    if x.dtype.kind == "f":
        _require(not np.isnan(x).any())
        if to in INTEGER_DTYPES:
            wide, info = x.astype(np.float64), np.iinfo(to)
            _require(bool(np.all((wide >= float(info.min)) & (wide < 2.0 ** (info.bits - (info.min < 0))))))
    return x.astype(to)


CASTS = FLOAT_DTYPES | INTEGER_DTYPES | {BOOL, np.dtype(np.float16)}


def _cast_to(call: KernelCall, x: Array, like: Array | None = None) -> Array:
    return _cast(x, helper.tensor_dtype_to_np_dtype(call.attributes["to"]) if like is None else like.dtype)


def _integer_reduction(function: np.ufunc, magnitude: np.ufunc) -> Kernel:
    """The kernel of a reduction of integers; `magnitude` bounds its numbers, given those of the elements.

    onnxruntime 1.31 computes some of them in float64, and saturates.
    """

    def kernel(call: KernelCall, x: Array, axes: Array | None = None) -> Array:
        _require(x.dtype in INTEGER_DTYPES and x.size > 0)
        chosen = axes_of(call.attributes.get("axes") if axes is None else axes, x.ndim)
        _require(bool(chosen) or not call.attributes.get("noop_with_empty_axes"))
        largest = magnitude.reduce(np.maximum(np.abs(x.astype(np.float64)), 1), axis=chosen or None)
        _require(bool(np.all(largest <= min(np.iinfo(x.dtype).max, MAX_EXACT_INTEGER))))
        return function.reduce(x, axis=chosen or None, keepdims=bool(call.attributes.get("keepdims", 1)), dtype=x.dtype)

    return kernel


def _identity(_: KernelCall, x: Array) -> Array:
    return x


def _split(call: KernelCall, x: Array, sizes: Array | None = None) -> tuple[Array, ...]:
    parts = MOVEMENT.operators["Split"].run(call, x, sizes)
    extents = [p.shape[call.attributes.get("axis", 0)] for p in parts]
    given = call.attributes.get("split") if sizes is None else _numbers(sizes)
    _require(len(parts) == call.output_count and sum(extents) == x.shape[call.attributes.get("axis", 0)])
    _require(given is None or list(given) == extents)
    return parts


def _tile(call: KernelCall, x: Array, repeats: Array) -> Array:
    counts = _numbers(repeats)
    _require(repeats.shape == (x.ndim,) and min(counts, default=0) >= 0)
    if 0 in counts:  # np.tile repeats one dim after the other, so that a large count before a 0 takes memory
        return np.empty([n * count for n, count in zip(x.shape, counts, strict=True)], x.dtype)
    return np.tile(x, counts)


def _range(call: KernelCall, start: Array, limit: Array, delta: Array) -> Array:
    _same(INTEGER_DTYPES, (start, limit, delta))
    return np.array(_integer_range(call, start, limit, delta), start.dtype)


NUMBERS = FLOAT_DTYPES | INTEGER_DTYPES
ARITHMETIC: Mapping[str, Kernel] = {
    "Add": _arithmetic(np.add, NUMBERS),
    "Sub": _arithmetic(np.subtract, NUMBERS),
    "Mul": _arithmetic(np.multiply, NUMBERS),
    "Div": _div,
    "Mod": _mod,
    "Neg": _arithmetic(np.negative, NUMBERS),
    "Abs": _arithmetic(np.abs, NUMBERS),
    "Sign": _arithmetic(np.sign, NUMBERS),
    "Sqrt": _arithmetic(np.sqrt, FLOAT_DTYPES),
    "Floor": _arithmetic(np.floor, FLOAT_DTYPES),
    "Ceil": _arithmetic(np.ceil, FLOAT_DTYPES),
    "Round": _arithmetic(np.rint, FLOAT_DTYPES),
    "Max": _arithmetic(np.maximum, INTEGER_DTYPES),
    "Min": _arithmetic(np.minimum, INTEGER_DTYPES),
    "Equal": _arithmetic(np.equal, NUMBERS | {BOOL}),
    "Greater": _arithmetic(np.greater, NUMBERS),
    "GreaterOrEqual": _arithmetic(np.greater_equal, NUMBERS),
    "Less": _arithmetic(np.less, NUMBERS),
    "LessOrEqual": _arithmetic(np.less_equal, NUMBERS),
    "And": _arithmetic(np.logical_and, {BOOL}),
    "Or": _arithmetic(np.logical_or, {BOOL}),
    "Xor": _arithmetic(np.logical_xor, {BOOL}),
    "Not": _arithmetic(np.logical_not, {BOOL}),
}
ELEMENTWISE = frozenset({*ARITHMETIC, "Cast", "CastLike", "Where"})
PLAIN_MOVEMENT = (
    "Concat", "ConstantOfShape", "Expand", "Flatten", "Gather", "Reshape", "Shape", "Size", "Slice", "Squeeze",
    "Transpose", "Unsqueeze",
)  # fmt: skip
KERNELS: Mapping[str, Kernel] = {
    **ARITHMETIC,
    "Cast": _cast_to,
    "CastLike": _cast_to,
    "Where": _where,
    "Identity": _identity,
    "Range": _range,
    "ReduceMax": _integer_reduction(np.maximum, np.maximum),
    "ReduceMin": _integer_reduction(np.minimum, np.maximum),
    "ReduceProd": _integer_reduction(np.multiply, np.multiply),
    "ReduceSum": _integer_reduction(np.add, np.add),
    "Split": _split,
    "Tile": _tile,
    **{op_type: MOVEMENT.operators[op_type].run for op_type in PLAIN_MOVEMENT},
}
"""The kernels by operator of the standard domain."""
