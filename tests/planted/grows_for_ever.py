"""A pass that never asks the change log puts another Identity in each round, which the next pass removes."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph, Op, Value

MODEL = """g (float[N,3] x) => (float[N,3] y, float[N,3] z) {
    a = Abs(x)
    y = Neg(a)
    b = Identity(x)
    z = Exp(b)
}"""
WRONG = (("grows-for-ever", ""),)
WHY = "endless"
AFTER = {"Abs": 1, "Exp": 1, "Neg": 1}


@dataclass(frozen=True)
class GrowsForEver:
    """x => Identity(x)"""

    name: str = "grows-for-ever"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - it never asks
        (op,) = graph.ops("Abs")
        made = Value(graph.fresh_name("copy"))
        graph.add_op(Op("Identity", "", "", {}, None), list(op.inputs), [made])
        graph.set_inputs(op, [made])
        return 1


GROWS = GrowsForEver()
