"""Speculation: ops that cannot fail may run where the model might not have run them."""

from __future__ import annotations

from collections.abc import Sequence

from ...core import Op, Value, is_pure, same_extent
from ...core.ir.dims import Dim, Shape
from ...core.ir.dtypes import CPU_FLOATS
from ...core.ir.tensor import STRING
from ...core.ir.traits import Trait, ops_with
from ..support.operand_queries import VARIADIC_BROADCASTING_OPSET

SPECULATABLE_UNARY = ops_with(Trait.ELEMENTWISE | Trait.TOTAL) | {"Shape", "Size"}
SPECULATABLE_BROADCASTING = ops_with(Trait.BROADCASTING | Trait.TOTAL)
SPECULATABLE_ON_FLOATS = frozenset({"Div", "Pow"})  # of integers they may fail


def is_speculatable(op: Op) -> bool:
    """Whether the op cannot fail, whatever the numbers; unknown shapes count as mismatched."""
    if op.domain or op.subgraphs or not is_pure(op) or any(v is None for v in op.inputs):
        return False
    values = [v for v in op.inputs if v is not None]
    if op.type in SPECULATABLE_UNARY:
        return len(values) == 1
    if op.type == "Cast":
        return op.attr("to") != STRING and values[0].known_dtype not in {0, STRING}
    if op.type == "Transpose":
        return values[0].known_shape is not None
    if op.type in SPECULATABLE_ON_FLOATS and any(v.known_dtype not in CPU_FLOATS for v in values):
        return False
    if op.type in SPECULATABLE_BROADCASTING | SPECULATABLE_ON_FLOATS:
        return op.version >= VARIADIC_BROADCASTING_OPSET and _broadcast(values)
    return op.type == "MatMul" and len(values) == 2 and _can_matmul(*values)


def _broadcast(values: Sequence[Value]) -> bool:
    shapes = [v.known_shape for v in values]
    return are_broadcastable([s for s in shapes if s is not None]) if None not in shapes else False


def are_broadcastable(shapes: Sequence[Shape]) -> bool:
    """Whether shapes are known to broadcast: of each axis the extents are 1 or all the same."""
    for axis in range(1, max(map(len, shapes), default=0) + 1):
        extents: list[Dim] = [s[-axis] for s in shapes if len(s) >= axis and s[-axis] != 1]
        if not all(same_extent(extents[0], d) for d in extents):
            return False
    return True


def _can_matmul(a: Value, b: Value) -> bool:
    """Whether MatMul is known to take matrices of these shapes (numpy.matmul)."""
    p, q = a.known_shape, b.known_shape
    if p is None or q is None or len(p) < 2 or len(q) < 2:
        return False
    return same_extent(p[-1], q[-2]) and are_broadcastable([p[:-2], q[:-2]])
