"""Indices of 32 bits: many accelerators have no other integers, and tables of indices become half as large."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto
from passwright.core import ChangeLog, Graph, Op, Tensor, Value, made_from

INDEXED_OPS = ("Gather", "GatherElements", "ScatterElements")
"""Operators that take indices of either width, as their second input."""
INT32 = np.iinfo(np.int32)


@dataclass(frozen=True, slots=True)
class NarrowIndices:
    """Gather(x, constant indices) => Gather(x, the same as int32), and so for GatherElements and ScatterElements."""

    min_elements: int = field(default=1, metadata={"doc": "constants of fewer elements stay as they are"})
    name: str = "narrow-indices"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """One look at each reader of indices. Reads the constants that it may narrow."""
        return sum(self._narrow_graph(g, change_log) for g in tuple(graph.with_subgraphs()))

    def _narrow_graph(self, g: Graph, change_log: ChangeLog) -> int:
        changes = 0
        narrowed: dict[Value, Value] = {}
        for op in sorted(g.ops(*INDEXED_OPS), key=lambda op: op.order_key):
            wide = op.input(1)
            if (
                wide is None
                or not self._is_wide(op, wide)
                or not change_log.request_change(self.name, op.outputs[0].name, [op])
            ):
                continue
            if wide not in narrowed:
                narrowed[wide] = g.add_constant(Tensor.from_array(wide.const.astype(np.int32)), wide.name)
            g.set_inputs(op, [op.inputs[0], narrowed[wide], *op.inputs[2:]])
            made_from(op, self.name, [op])
            _remove_if_unused(g, wide)
            changes += 1
        return changes

    def _is_wide(self, op: Op, indices: Value) -> bool:
        if op.domain or not indices.is_const or indices.dtype != TensorProto.INT64:
            return False
        if np.prod(indices.static_shape) < self.min_elements:
            return False
        return bool(((indices.const >= INT32.min) & (indices.const <= INT32.max)).all())


def _remove_if_unused(g: Graph, constant: Value) -> None:
    """Remove a constant, or the op that holds it, if nothing reads it any more."""
    if constant.producer is not None:
        g.prune([constant.producer])
    else:
        g.drop_initializer(constant)


NARROW_INDICES = NarrowIndices()
