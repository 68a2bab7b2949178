"""An analysis, whose result the graph keeps, and a pass that uses it."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph, Op


class Levels:
    """The length of the longest path to each op from an input."""

    def __init__(self, graph: Graph) -> None:
        self._levels: dict[Op, int] = {}
        for op in graph.sorted_ops():
            before = [p for v in op.inputs if (p := graph.producer(v)) is not None]
            self._levels[op] = 1 + max((self._levels[p] for p in before), default=0)

    def level(self, op: Op) -> int:
        """The level of an op, from 1."""
        return self._levels[op]


@dataclass(frozen=True, slots=True)
class WriteByLevel:
    """Writes ops in the order of their levels, for engines that start the ops of a level together."""

    name: str = "write-by-level"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """One change if the order differs. O(ops log ops)."""
        ops = graph.sorted_ops()
        wanted = sorted(ops, key=graph.analysis(Levels).level)
        if wanted == ops or not change_log.request_change(self.name, graph.outputs[0].name, ops):
            return 0
        graph.reorder(wanted)
        return 1


WRITE_BY_LEVEL = WriteByLevel()
EXAMPLES = {
    "write-by-level": [
        "g (float[N] x) => (float[N] y) { a = Abs(x) b = Neg(a) c = Exp(x) d = Tanh(c) e = Add(b, d) y = Sin(e) }"
    ]
}
