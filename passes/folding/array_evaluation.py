"""Folding of operators that move elements or compute them exactly, by their declarations, without a session.

The results have the bits of onnxruntime's: no operator rounds but by one operation of IEEE 754, and results with NaN,
whose bits depend on the order of operands, are left to onnxruntime. Nothing here can crash or grow beyond a size that
is known before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper

from ...core import Op, Tensor, Value
from ...core.operators.declaration import ANY_KIND, Operator, OperatorCall, Trait, apply
from ...core.operators.element_types import Array
from ...core.operators.table import OPERATORS

FIRST_OPSET = 8  # in which all operators broadcast in both directions
MAX_VIEW_RATIO = 2  # a result that is a view keeps at most so many times its bytes alive


def evaluate_arrays(
    ops: Sequence[Op], wanted: Collection[Value], max_bytes: int
) -> tuple[dict[Value, Tensor], list[Op]]:
    """Compute the exact ones among `ops` (sorted, of one graph, from constants alone).

    Returns the tensors of `wanted`, and those that the other ops read, with these ops. A result has at most
    `max_bytes`, or the bytes of the inputs if they are more.
    """
    found: dict[Value, Array] = {}
    rest: list[Op] = []
    users = Counter(v for op in ops for v in dict.fromkeys((*op.inputs, *op.captures)))
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


def _attempt(op: Op, found: Mapping[Value, Array], max_bytes: int) -> tuple[Array, ...] | None:
    """The results of an op; None if it is not exact for these inputs, or they grow too large."""
    operator = OPERATORS.get(op.type) if not op.domain else None
    if operator is None or not operator.exact or op.version < FIRST_OPSET:
        return None
    inputs = [None if v is None else v.const if v.is_const else found[v] for v in op.inputs]
    call = _operator_call(op)
    try:
        if not _is_exact(operator, call, inputs) or _count(operator, call, inputs) > max_bytes:
            return None
        with np.errstate(all="ignore"):
            made: Any = operator.run(call, *inputs)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None  # the model fails there, as where a required input is left out
    several: tuple[Any, ...] = cast("tuple[Any, ...]", made) if isinstance(made, tuple) else (made,)
    results: tuple[Array, ...] = tuple(map(np.asanyarray, several))
    if operator.exact != ANY_KIND and any(a.dtype.kind == "f" and np.isnan(a).any() for a in results):
        return None
    types = map(helper.np_dtype_to_tensor_dtype, (a.dtype for a in results))
    return results if all(v.known_dtype in {0, t} for v, t in zip(op.outputs, types, strict=False)) else None


def _operator_call(op: Op) -> OperatorCall:
    node = onnx.NodeProto(op_type=op.type, output=[v.name for v in op.outputs])
    attributes = {name: value.array if isinstance(value, Tensor) else value for name, value in op.attrs.items()}
    types = [0 if v is None else v.recorded_type[0] for v in op.inputs]
    return OperatorCall(node, op.version, attributes, types, lambda _, inputs: list(inputs), own_types=True)


def _is_exact(operator: Operator, call: OperatorCall, inputs: Sequence[Array | None]) -> bool:
    """Whether the operands are of one type for which results are exact."""
    if operator.exact != ANY_KIND:
        types = {a.dtype for i, a in enumerate(inputs) if a is not None and i not in operator.roles}
        if len(types) > 1 or any(dtype.kind not in operator.exact or dtype == np.float16 for dtype in types):
            return False
    return operator.is_exact is None or apply(operator.is_exact, call, *inputs)


def _count(operator: Operator, call: OperatorCall, given: Sequence[Array | None]) -> int:
    """The bytes of the result of an op that may be larger than its inputs; 0 if it is not."""
    inputs = [a for a in given if a is not None]
    width = max((a.dtype.itemsize for a in inputs), default=8)
    if operator.elements is not None:
        count = apply(operator.elements, call, *given)
    elif operator.traits & (Trait.ELEMENTWISE | Trait.BROADCASTING):
        count = prod(np.broadcast_shapes(*(a.shape for a in inputs)))
        if Trait.ELEMENTWISE in operator.traits and Trait.SAME_DTYPE not in operator.traits:
            width = max(width, 8)  # a Cast
    else:
        return 0  # it makes no element that its inputs do not have
    size = count * width
    return size if size > sum(a.nbytes for a in inputs) else 0


def _compact(array: Array) -> Array:
    """The array, or a copy where it would keep a much larger one alive."""
    base: Any = array.base
    is_small = isinstance(base, np.ndarray) and array.nbytes * MAX_VIEW_RATIO < base.nbytes  # pyright: ignore[reportUnknownMemberType]
    return array.copy() if is_small else array
