"""A pass around another one, which it runs on small graphs alone, and reports."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import EXACT, FLOATS, ChangeLog, Graph, Pass, RewriteBuilder, RulePass, Value, require, rule


@rule(lambda g, x: g.Relu(g.Abs(x)), contract=EXACT)
def drop_relu_of_abs(g: RewriteBuilder, x: Value) -> Value:
    """Relu(Abs(x)) => Abs(x)"""
    require(x.dtype in FLOATS, "Abs of the least integer is negative")
    return g.Abs(x)


@dataclass(frozen=True, slots=True)
class OnSmallGraphs:
    """Runs `inner` on graphs of at most `most` ops."""

    inner: Pass
    most: int = 1000
    name: str = "on-small-graphs"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """The changes of the inner pass."""
        if len(graph) > self.most:
            change_log.note(f"{self.inner.name} was not run on {len(graph)} ops")
            return 0
        return self.inner.run(graph, change_log)


ON_SMALL_GRAPHS = OnSmallGraphs(RulePass("drop-relu-of-abs", (drop_relu_of_abs,)))
EXAMPLES = {"on-small-graphs": ["g (float[N] x) => (float[N] y) { a = Abs(x) b = Relu(a) y = Neg(b) }"]}
