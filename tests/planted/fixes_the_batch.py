"""The open batch of an input is declared to be 1, and larger ones are refused."""

from __future__ import annotations

from dataclasses import dataclass

import onnx
from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x) => (float[N,3] y) {
    a = Identity(x)
    y = Abs(a)
}"""
WRONG = (("fixes-the-batch", "x"),)
WHY = "interface"
AFTER = {"Abs": 1}


@dataclass(frozen=True)
class FixesTheBatch:
    """Open dims of inputs become 1."""

    name: str = "fixes-the-batch"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for i, (value, info) in enumerate(graph.declared.inputs):
            proto = onnx.ValueInfoProto.FromString(info)
            dims = [d for d in proto.type.tensor_type.shape.dim if d.dim_param]
            if dims and change_log.request_change(self.name, value.name, (value,)):
                for dim in dims:
                    dim.dim_value = 1
                graph.declared.inputs[i] = value, proto.SerializeToString()
                graph.mark_changed()
                changes += 1
        return changes


FIXES = FixesTheBatch()
