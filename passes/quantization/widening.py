"""Half precision computed in single precision: onnxruntime's CPU kernels are of that, and schemes quantize it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from ...core import ChangeLog, Graph, MatchFailure, Op, Tensor, Value, require
from ...core.ir.op_schemas import ONNX_DOMAIN
from .half import CAST_OPSET, HALF, HALF_TEXT, QUANTIZING_OPS, SINGLE, HalfValues, Halves

SINGLE_TEXT = "tensor(float)"


def widened_places(op: Op) -> Halves:
    """The inputs and outputs of half precision, which become single together; declines an op that has no such form."""
    spec = op.schema
    require(op.type not in QUANTIZING_OPS and not op.subgraphs, f"{op.label} quantizes, or has bodies")
    if spec is None:
        raise MatchFailure(f"ONNX defines no {op.domain or op.type}")
    inputs = tuple(i for i, v in enumerate(op.inputs) if v is not None and v.known_dtype == HALF)
    outputs = tuple(i for i, v in enumerate(op.outputs) if v.name and v.known_dtype == HALF)
    require(inputs, f"{op.label} reads no halves")
    wide = {c.type_param_str for c in spec.type_constraints if {HALF_TEXT, SINGLE_TEXT} <= {*c.allowed_type_strs}}
    read = {spec.inputs[min(i, len(spec.inputs) - 1)].type_str for i in inputs}
    made = {spec.outputs[min(i, len(spec.outputs) - 1)].type_str for i in outputs}
    require(read <= wide and made <= read, f"{op.label} has no form of single precision")
    return Halves(inputs, outputs)


@dataclass(frozen=True, slots=True)
class WidenHalves:
    """f(x, w) => Cast(f(Cast(x, single), w as single), half), for each op of halves

    Casts between two such ops are left out, and so the roundings to half; inputs, outputs and bodies keep their types.
    """

    name: str = "widen-halves"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Convert each op in a change of its own, named after its first output. O(ops + weights)."""
        if graph.opsets.get(ONNX_DOMAIN, 0) < CAST_OPSET:
            change_log.record_decline(self.name, "", f"before opset {CAST_OPSET}, Cast names its type in text")
            return 0
        changes = 0
        for g in list(graph.with_subgraphs()):
            values = _WideValues(self.name)
            for op in list(g.sorted_ops()):
                place = op.outputs[0].name
                try:
                    found = widened_places(op)
                    change_log.require_change(self.name, place, (op,), exact=False)
                except MatchFailure as why:
                    change_log.record_decline(self.name, place, str(why))
                    continue
                values.replace(op, dict(op.attrs), found, HALF)
                changes += 1
            g.prune(values.casts[::-1])
        return changes


class _WideValues(HalfValues):
    """The forms of single precision of halves, each made once."""

    def _make(self, v: Value, reader: Op) -> Value:
        maker = v.producer
        if maker is not None and maker.type == "Cast" and not maker.domain and maker.graph is reader.graph:
            wide = maker.inputs[0]
            if wide is not None and wide.known_dtype == SINGLE:
                return wide
        if v.is_const:
            return reader.graph.add_constant(Tensor.from_array(v.const.astype(np.float32)), v.name)
        return self.cast(v, TensorProto.FLOAT, reader)
