"""Nodes that a pass did not touch get its own names for them. Known from OnnxSlim and onnxscript."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x) => (float[N,3] y, float[N,3] z) {
    [first] y = Abs(x)
    b = Identity(x)
    [second] z = Exp(b)
}"""
WRONG = (("renames-nodes", ""),)
WHY = "interface"
AFTER = {"Abs": 1, "Exp": 1}


@dataclass(frozen=True)
class RenamesNodes:
    """Nodes are named after their outputs."""

    name: str = "renames-nodes"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - it never asks
        changes = 0
        for op in graph.ops():
            if op.name != f"node_{op.outputs[0].name}":
                op.name = f"node_{op.outputs[0].name}"
                op.proto_bytes = None
                graph.mark_changed()
                changes += 1
        return changes


RENAMES = RenamesNodes()
