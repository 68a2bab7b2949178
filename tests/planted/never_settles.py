"""A pass that reports a change every time, whether it made one or not."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x) => (float[N,3] y, float[N,3] z) {
    a = Abs(x)
    y = Neg(a)
    b = Identity(x)
    z = Exp(b)
}"""
WRONG = (("never-settles", ""),)
WHY = "endless"
AFTER = {"Abs": 1, "Exp": 1, "Neg": 1}


@dataclass(frozen=True)
class NeverSettles:
    """Counts the ops."""

    name: str = "never-settles"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - it never asks
        return len(graph)


SETTLES = NeverSettles()
