"""Removal of zero initial states of recurrent ops, which default to zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core import Graph, Ledger, Tensor, Value
from ...core.ir.traits import Trait, ops_with

STATE_INPUTS = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}
"""Which inputs are initial states: "assumed to be 0" if not specified (operators LSTM, GRU, RNN)."""

DATA_MOVEMENT_OPS = ops_with(Trait.MOVES_DATA)
MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class DropZeroStates:
    """LSTM(x, W, R, B, lengths, 0, 0) => LSTM(x, W, R, B, lengths), and so for GRU and RNN"""

    name: str = "drop-zero-states"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Leave out every state that is known to be zero. O(recurrent ops)."""
        changes = 0
        for op in [op for g in graph.with_subgraphs() for op in g.ops(*STATE_INPUTS) if not op.domain]:
            zeros = {i for i in STATE_INPUTS[op.type] if is_known_zero(op.input(i))}
            named = [v.name for v in op.outputs if v.name]
            if not zeros or not named or not ledger.request_change(self.name, named[0], (op,)):
                continue
            inputs = [None if i in zeros else v for i, v in enumerate(op.inputs)]
            while inputs[-1] is None:
                inputs.pop()
            op.graph.set_inputs(op, inputs)
            changes += 1
        return changes


def is_known_zero(v: Value | None) -> bool:
    """Whether every element is known to be 0 and not -0: a constant or a filled tensor, possibly moved."""
    for _ in range(MAX_DEPTH):
        if v is None or v.is_const or v.producer is None:
            break
        op = v.producer
        if op.type == "ConstantOfShape" and not op.domain:
            fill = op.attr("value")
            return fill is None or (isinstance(fill, Tensor) and _holds_zeros(fill))
        v = op.input(0) if op.type in DATA_MOVEMENT_OPS and not op.domain else None
    return v is not None and v.is_const and v.tensor is not None and _holds_zeros(v.tensor)


def _holds_zeros(tensor: Tensor) -> bool:
    data = tensor.array
    return data.dtype.kind == "f" and not data.any() and not np.signbit(data).any()
