"""A pass over the whole graph, with an option of the command line."""

from __future__ import annotations

from dataclasses import dataclass, field

from passwright.core import ChangeLog, Graph, Op, PassPlacement, Plugin, RewriteBuilder, Value, made_from


@dataclass(frozen=True, slots=True)
class LimitSum:
    """Sum(a, b, c, ...) => Sum(Sum(a, b), Sum(c, ...)), for runtimes that add few values at once."""

    most: int = field(default=4, metadata={"doc": "how many values a Sum may add"})
    name: str = "limit-sum"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """One look at each Sum. O(ops)."""
        return sum(self._limit(g, op, change_log) for g in graph.with_subgraphs() for op in list(g.ops("Sum")))

    def _limit(self, g: Graph, op: Op, change_log: ChangeLog) -> bool:
        terms: list[Value] = [v for v in op.inputs if v is not None]
        if len(terms) <= self.most or not change_log.request_change(self.name, op.outputs[0].name, [op], exact=False):
            return False
        build = RewriteBuilder(g, op)
        while len(terms) > 1:
            groups: list[list[Value]] = [terms[i : i + self.most] for i in range(0, len(terms), self.most)]
            terms = [build.Sum(*group) if len(group) > 1 else group[0] for group in groups]
        g.take_over(terms[0], op.outputs[0])
        for made in build.added_ops:
            made_from(made, self.name, [op])
        g.discard([op])
        return True


# In the loop, passwright would merge the parts again.
PLUGIN = Plugin(passes=(PassPlacement(LimitSum(), stage="final"),))

EXAMPLES = {
    "limit-sum": [
        """g (float[N] a, float[N] b, float[N] c, float[N] d, float[N] e) => (float[N] y) {
            y = Sum(a, b, c, d, e)
        }"""
    ]
}
