"""A pass that never asks the change log drops all Casts that come back to their type, right and wrong ones."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,3] x) => (float[N,3] y, float[N,3] z) {
    a = Cast<to=6>(x)
    y = Cast<to=1>(a)
    n = Neg(x)
    b = Identity(n)
    z = Abs(b)
}"""
WRONG = (("silent-casts", ""),)
WHY = "wrong"
AFTER = {"Abs": 1, "Cast": 2, "Neg": 1}


@dataclass(frozen=True)
class SilentCasts:
    """Cast(Cast(x)) => x, unasked."""

    name: str = "silent-casts"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - it never asks
        changes = 0
        for op in graph.ops("Cast"):
            inner = graph.producer(op.inputs[0])
            if inner is not None and inner.type == "Cast" and inner.inputs[0] is not None:
                graph.replace_value(op.outputs[0], inner.inputs[0])
                changes += graph.prune([op])
        return changes


CASTS = SilentCasts()
