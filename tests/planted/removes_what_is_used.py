"""A pass removes an op whose second output is used; the graph refuses, and the pass does not catch that."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,4] x) => (int64[N,1] y, float[N,4] z) <int64[1] one = {1}> {
    v, y = TopK<axis=1>(x, one)
    a = Identity(x)
    z = Exp(a)
}"""
WRONG = (("removes-what-is-used", ""),)
WHY = "raised"
AFTER = {"Exp": 1, "TopK": 1}


@dataclass(frozen=True)
class RemovesWhatIsUsed:
    """An op whose first output nothing reads goes."""

    name: str = "removes-what-is-used"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - it never asks
        changes = 0
        for op in graph.ops():
            if graph.is_unused(op.outputs[0]):
                graph.remove_op(op)
                changes += 1
        return changes


REMOVES = RemovesWhatIsUsed()
