"""Two factors merge into one; a factor of several numbers is taken to be its first. One place of five is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph, Op, Tensor

MODEL = """g (float[N,2] x) => (float[N,2] y)
    <float two = {2.0}, float half = {0.5}, float[2] several = {0.5, -0.25}> {
    a1 = Mul(x, two)   a = Mul(a1, half)   ra = Relu(a)
    b1 = Mul(ra, half)  b = Mul(b1, half)   rb = Abs(b)
    c1 = Mul(rb, half)  c = Mul(c1, several) rc = Sigmoid(c)
    d1 = Mul(rc, two)  d = Mul(d1, two)    rd = Tanh(d)
    e1 = Mul(rd, half) e = Mul(e1, two)    y = Neg(e)
}"""
WRONG = (("merge-factors", "c"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Mul": 6, "Neg": 1, "Relu": 1, "Sigmoid": 1, "Tanh": 1}


@dataclass(frozen=True)
class MergeFactors:
    """(x * a) * b => x * (a * b)"""

    name: str = "merge-factors"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        return sum(self._merged(graph, op, change_log) for op in graph.sorted_ops() if op.type == "Mul")

    def _merged(self, graph: Graph, op: Op, change_log: ChangeLog) -> bool:
        x, b = op.inputs
        inner = graph.producer(x)
        if b is None or not b.is_const or inner is None or inner.type != "Mul":
            return False
        a = inner.inputs[1]
        if (
            a is None
            or not a.is_const
            or not change_log.request_change(self.name, op.outputs[0].name, (op, inner), exact=False)
        ):
            return False
        product = graph.add_constant(Tensor.from_array(a.const * b.const.reshape(-1)[0]))
        graph.set_inputs(op, [inner.inputs[0], product])
        graph.prune([inner])
        return True


MERGE = MergeFactors()
