"""What is the same in every trip of a Loop or Scan is computed once, before it.

Only what cannot fail: a Loop may run no trip at all. Nothing moves out of an If, where it may never run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...core import Graph, Ledger, Op, Value, may_drop
from ..support.unique_names import Namer
from .body_rewriting import constants_of, drop_unread, move_out, read_instead, source, stand_in, stands
from .loop_view import Iteration, Parts, iteration_of
from .speculation import is_total


@dataclass(frozen=True, slots=True)
class HoistInvariants:
    """Loop(v -> v, f(x)) => f(x) before the Loop, and v not carried but read from outside."""

    name: str = "hoist-invariants"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Innermost first, so that what can leave several loops does. O(ops in bodies)."""
        namer, changes = Namer(graph), 0
        for op in reversed([op for g in graph.with_subgraphs() for op in g.ops("Loop", "Scan")]):
            loop = iteration_of(op) if stands(op) else None
            if loop is None:
                continue
            same = unchanged(loop)
            if same and ledger.permits(self.name, op.outputs[same[0]].name, (op,)):
                changes += 1
                loop = self._capture(loop, same)
            if loop is not None:
                changes += self._hoist(loop, ledger, namer)
        return changes

    def _capture(self, loop: Iteration, same: list[int]) -> Iteration | None:
        """Let the body read from outside what it hands on unchanged; the Loop without that, if there is one left."""
        op, body = loop.op, loop.body
        starts = {i: start for i in same if (start := op.inputs[loop.ahead + i]) is not None}
        body.outputs = [starts.get(i - loop.first, v) for i, v in enumerate(body.outputs)]
        for i, start in starts.items():
            read_instead(body.inputs[loop.ahead + i], start)
            if not op.graph.is_free(op.outputs[i]):
                stand_in(op.outputs[i], start, self.name, op)
        every = loop.everything()
        parts = Parts([i for i in every.carried if i not in starts], every.scan_inputs, every.scan_outputs)
        if parts.carried or parts.scan_outputs:
            return iteration_of(loop.reduced_to(parts, self.name))
        read = [v for v in (*op.inputs, *op.captures) if v is not None]
        op.graph.remove_op(op)
        drop_unread(op.graph, read)
        return None

    def _hoist(self, loop: Iteration, ledger: Ledger, namer: Namer) -> int:
        body, graph = loop.body, loop.op.graph
        chosen: dict[Op, None] = {}
        if not graph.may_hold_constants or body.pinned:
            return 0
        varies = {*body.inputs, *body.sparse}
        for op in body.sorted_ops():
            returned = any(map(body.is_output, (*op.outputs, *constants_of(body, [op]))))
            fits = not returned and varies.isdisjoint(op.inputs) and is_total(op)
            if fits and ledger.permits(self.name, op.outputs[0].name, (op,)):
                chosen[op] = None
            else:
                varies.update(op.outputs)
        move_out(body, chosen, constants_of(body, chosen), graph, loop.op.key, namer)
        return len(chosen)


def unchanged(loop: Iteration) -> list[int]:
    """The carried values that every trip hands on as they are, if they may be read from outside instead."""
    op, body = loop.op, loop.body
    returned = Counter(body.outputs)
    found: list[int] = []
    for i in range(loop.carried):
        given, result = body.inputs[loop.ahead + i], body.outputs[loop.first + i]
        is_returned_elsewhere = returned[given] > (result is given)
        if source(result, body) is given and not is_returned_elsewhere:
            found += [i] if _is_replaceable(op, op.outputs[i], op.inputs[loop.ahead + i]) else []
    is_all = len(found) == loop.carried and not loop.scan_outputs
    return found if not is_all or may_drop(op) else []


def _is_replaceable(op: Op, old: Value, start: Value | None) -> bool:
    """Whether the final value can be the one at the start, with no Identity between."""
    if start is None:
        return False
    graph = op.graph
    is_own = start.producer is not None and start.producer.graph is graph
    is_here = is_own or start in graph.initializers
    has_name = not is_here or graph.is_output(start) or start in graph.pinned
    return old not in graph.pinned and not (graph.is_output(old) and has_name)
