"""Replacement of large repetitive constants by ops that compute them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core import Graph, Ledger, Op, Tensor, Value, made_from
from ...core.ir.op_schemas import schema
from ...core.ir.tensor import STRING, element_bits
from ...core.pass_manager.pass_selection import UsageError
from .merge_constants import is_mergeable

UNSIGNED_OF_WIDTH = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}  # bits; elements are compared as these
UNSUPPORTED = frozenset({"bfloat16"})  # by onnxruntime's Expand and ConstantOfShape


@dataclass(frozen=True, slots=True)
class Debloat:
    """A constant of one repeated number becomes a ConstantOfShape, one of equal slices an Expand of the slice.

    Only where `min_bytes` or more are saved. What it makes must not be folded again: it is for the end of a run.
    """

    min_bytes: int = 1 << 20
    name: str = "debloat"

    def __post_init__(self) -> None:
        """Raise UsageError for a negative size."""
        if self.min_bytes < 0:
            raise UsageError("min_bytes is 0 or more")

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Look at the large constants of the main graph; each is read up to its first difference."""
        changes = 0
        for value in tuple(graph.initializers):
            tensor = value.tensor
            if (
                tensor is None
                or tensor.nbytes < self.min_bytes
                or not value.consumers
                or not is_mergeable(graph, value)
            ):
                continue
            small = repeated_part(tensor)
            if small is None or tensor.nbytes - small.nbytes < self.min_bytes:
                continue
            made = repeating_op(graph, small)
            if made is None or not ledger.request_change(self.name, value.name, (value,)):
                continue
            replace_constant(graph, value, made, small, self.name)
            changes += 1
        return changes


def repeated_part(tensor: Tensor) -> Tensor | None:
    """The smallest part of which a tensor is a repetition along its leading axes, bit for bit; None if it is none."""
    if tensor.dtype == STRING or element_bits(tensor.dtype) not in UNSIGNED_OF_WIDTH or not tensor.size:
        return None
    elements = np.frombuffer(tensor.raw_data(), UNSIGNED_OF_WIDTH[element_bits(tensor.dtype)]).reshape(tensor.dims)
    part = elements
    while part.ndim and _is_repeated(part):
        part = part[0]
    if part.ndim == len(tensor.dims):
        return None
    return Tensor.from_array(tensor.array[(0,) * (len(tensor.dims) - part.ndim)])


def _is_repeated(part: np.ndarray[tuple[int, ...], np.dtype[np.unsignedinteger]]) -> bool:
    """Whether all slices along the first axis are equal; most that differ do so early."""
    return len(part) == 1 or bool((part[1] == part[0]).all() and (part[1:] == part[:1]).all())


def repeating_op(graph: Graph, small: Tensor) -> Op | None:
    """The op that repeats `small`, if the opset has it for that type."""
    op_type = "Expand" if small.dims else "ConstantOfShape"
    spec = schema(op_type, "", graph.opsets.get("", 0))
    kind = np.dtype(small.array.dtype).name
    if spec is None or kind in UNSUPPORTED:
        return None
    names = {"float32": "float", "float64": "double"}
    allowed = {t for c in spec.type_constraints if c.type_param_str in {"T", "T2"} for t in c.allowed_type_strs}
    if f"tensor({names.get(kind, kind)})" not in allowed:
        return None
    return Op(op_type, "", "", {} if small.dims else {"value": Tensor.from_array(small.array.reshape(1))}, None)


def replace_constant(graph: Graph, value: Value, op: Op, small: Tensor, by: str) -> None:
    """Replace a constant by `op`, which repeats `small`."""
    shape = graph.add_constant(Tensor.from_array(np.array(value.shape, np.int64)), f"{value.name}_shape")
    inputs = [graph.add_constant(small, value.name), shape] if small.dims else [shape]
    op.order_key = -1  # before all that was in the file
    graph.add_op(op, inputs, [Value(graph.fresh_name(value.name))])
    made_from(op, by, ())
    graph.replace_uses(value, op.outputs[0])
    graph.drop_initializer(value)
