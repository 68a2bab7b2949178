"""Hoisting of loop-invariant computations.

Only what cannot fail: a Loop may run no trip at all. Nothing moves out of an If, where it may never run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...core import Graph, Ledger, Op, Value, may_drop
from ..support.unique_names import NameDisambiguator
from .body_rewriting import (
    constants_read_by,
    hoist_ops,
    is_attached,
    remove_unused,
    replace_body_input,
    replace_output,
    skip_identities,
)
from .loop_view import LoopParts, LoopView, loop_view
from .speculation import is_speculatable


@dataclass(frozen=True, slots=True)
class HoistInvariants:
    """Loop(v -> v, f(x)) => f(x) before the Loop, and v not carried but read from outside."""

    name: str = "hoist-invariants"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Hoist from the innermost body outwards, so that ops may leave several loops. O(ops in bodies)."""
        namer, changes = NameDisambiguator(graph), 0
        for op in reversed([op for g in graph.with_subgraphs() for op in g.ops("Loop", "Scan")]):
            loop = loop_view(op) if is_attached(op) else None
            if loop is None:
                continue
            same = invariant_carried_values(loop)
            if same and ledger.request_change(self.name, op.outputs[same[0]].name, (op,)):
                changes += 1
                loop = self._capture_invariants(loop, same)
            if loop is not None:
                changes += self._hoist(loop, ledger, namer)
        return changes

    def _capture_invariants(self, loop: LoopView, invariants: list[int]) -> LoopView | None:
        """Replace invariant carried values by captures; returns the new Loop, if one is left."""
        op, body = loop.op, loop.body
        starts = {i: start for i in invariants if (start := op.inputs[loop.leading_inputs + i]) is not None}
        body.outputs = [starts.get(i - loop.leading_outputs, v) for i, v in enumerate(body.outputs)]
        for i, start in starts.items():
            replace_body_input(body.inputs[loop.leading_inputs + i], start)
            if not op.graph.is_unused(op.outputs[i]):
                replace_output(op.outputs[i], start, self.name, op)
        every = loop.all_parts()
        parts = LoopParts([i for i in every.carried if i not in starts], every.scan_inputs, every.scan_outputs)
        if parts.carried or parts.scan_outputs:
            return loop_view(loop.rebuild_with(parts, self.name))
        read = [v for v in (*op.inputs, *op.captures) if v is not None]
        op.graph.remove_op(op)
        remove_unused(op.graph, read)
        return None

    def _hoist(self, loop: LoopView, ledger: Ledger, namer: NameDisambiguator) -> int:
        body, graph = loop.body, loop.op.graph
        chosen: dict[Op, None] = {}
        if not graph.can_hold_initializers or body.pinned:
            return 0
        varies = {*body.inputs, *body.sparse_initializers}
        for op in body.sorted_ops():
            returned = any(map(body.is_output, (*op.outputs, *constants_read_by(body, [op]))))
            fits = not returned and varies.isdisjoint(op.inputs) and is_speculatable(op)
            if fits and ledger.request_change(self.name, op.outputs[0].name, (op,)):
                chosen[op] = None
            else:
                varies.update(op.outputs)
        hoist_ops(body, chosen, constants_read_by(body, chosen), graph, loop.op.order_key, namer)
        return len(chosen)


def invariant_carried_values(loop: LoopView) -> list[int]:
    """The carried values that every trip hands on as they are, if they may be read from outside instead."""
    op, body = loop.op, loop.body
    returned = Counter(body.outputs)
    found: list[int] = []
    for i in range(loop.carried):
        given, result = body.inputs[loop.leading_inputs + i], body.outputs[loop.leading_outputs + i]
        is_returned_elsewhere = returned[given] > (result is given)
        if skip_identities(result, body) is given and not is_returned_elsewhere:
            found += [i] if _is_replaceable(op, op.outputs[i], op.inputs[loop.leading_inputs + i]) else []
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
