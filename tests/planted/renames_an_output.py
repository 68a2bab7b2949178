"""An output gets a new name. Known from onnx-passes."""

from __future__ import annotations

from dataclasses import dataclass

import onnx
from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x) => (float[N,3] y) {
    a = Identity(x)
    y = Abs(a)
}"""
WRONG = (("renames-an-output", ""),)
WHY = "interface"
AFTER = {"Abs": 1}


@dataclass(frozen=True)
class RenamesAnOutput:
    """Outputs are numbered, unasked."""

    name: str = "renames-an-output"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - it never asks
        changes = 0
        for i, value in enumerate(graph.outputs):
            if value.name != f"global_out_{i}":
                value.name = f"global_out_{i}"
                info = onnx.ValueInfoProto.FromString(graph.declared.outputs[i])
                info.name = value.name
                graph.declared.outputs[i] = info.SerializeToString()
                graph.mark_changed()
                changes += 1
        return changes


RENAMES = RenamesAnOutput()
