"""A pass that never asks the change log raises when half of its work is done."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x) => (float[N,3] y, float[N,3] z) {
    a = Abs(x)
    y = Neg(a)
    b = Identity(x)
    z = Exp(b)
}"""
WRONG = (("silent-and-raises", ""),)
WHY = "raised"
AFTER = {"Abs": 1, "Exp": 1, "Neg": 1}


@dataclass(frozen=True)
class SilentAndRaises:
    """Drops an Abs, then stumbles."""

    name: str = "silent-and-raises"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - it never asks
        for op in graph.ops("Abs"):
            source = op.inputs[0]
            assert source is not None
            graph.replace_uses(op.outputs[0], source)
            graph.prune([op])
        return len({}["changes"])


RAISES = SilentAndRaises()
