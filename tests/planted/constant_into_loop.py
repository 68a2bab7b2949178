"""A state of a Loop that starts as a constant is taken for that constant in every round.

Right for a state that the body hands on as it is. Wrong only inside a Loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[3] x) => (float[3] y, float[3] z)
    <int64 trips = {3}, bool go = {1}, float[1] one = {1.0}, float[1] two = {2.0}> {
    last, kept, y = Loop(trips, go, one, two, x) <body = b (int64 i, bool c, float[1] s, float[1] k, float[3] v)
        => (bool d, float[1] t, float[1] l, float[3] u) {
        d = Identity(c)
        l = Identity(k)
        t = Add(s, k)
        m = Add(v, s)
        p = Relu(m)
        u = Add(p, k)
    }>
    n = Identity(x)
    z = Neg(n)
}"""
WRONG = (("constant-into-loop", "s"),)
WHY = "wrong"
AFTER = {"Add": 3, "Identity": 1, "Loop": 1, "Neg": 1, "Relu": 1}


@dataclass(frozen=True)
class ConstantIntoLoop:
    """Inside a Loop, a state is replaced by the constant that it starts as."""

    name: str = "constant-into-loop"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for loop in graph.ops("Loop"):
            (body,) = loop.subgraphs
            for start, state in zip(loop.inputs[2:], body.inputs[2:], strict=True):
                if start is None or not start.is_const or not state.consumers:
                    continue
                if change_log.request_change(self.name, state.name, (state,)):
                    body.replace_uses(state, start)
                    changes += 1
        return changes


INTO_LOOP = ConstantIntoLoop()
