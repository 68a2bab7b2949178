"""Which outputs of a model depend on chance."""

from __future__ import annotations

from ..ir.effects import is_random
from ..ir.graph import Graph
from ..ir.nesting import holder
from ..ir.values import Value


def random_outputs(graph: Graph) -> frozenset[str]:
    """The names of the outputs downstream of a random op, through subgraphs too. O(V + E)."""
    reached: dict[Value, None] = {}
    queue = [v for op in graph.ops() if is_random(op) for v in op.outputs]
    while queue:
        value = queue.pop()
        if value in reached:
            continue
        reached[value] = None
        for user in value.uses:
            op = holder(graph, user)
            queue += op.outputs if op is not None else ()
    return frozenset(v.name for v in reached if graph.is_output(v))
