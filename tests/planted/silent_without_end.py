"""A pass that never asks the change log turns the inputs of an op round and round, and never comes back."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x, float[N,3] t) => (float[N,3] y, float[N,3] z) {
    y = Max(x, t)
    b = Identity(x)
    z = Exp(b)
}"""
WRONG = (("silent-without-end", ""),)
WHY = "endless"
AFTER = {"Exp": 1, "Max": 1}


@dataclass(frozen=True)
class SilentWithoutEnd:
    """Max(a, b) => Max(b, a)"""

    name: str = "silent-without-end"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - it never asks
        (op,) = graph.ops("Max")
        while op in graph:
            graph.set_inputs(op, op.inputs[::-1])
        return 1


ENDLESS = SilentWithoutEnd()
