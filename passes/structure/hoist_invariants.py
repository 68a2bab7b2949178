"""Hoisting of loop-invariant computations that cannot fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...core import Graph, Ledger, Op, Value, is_pure, may_drop, same_extent
from ...core.ir.dims import Dim, Shape
from ...core.ir.dtypes import CPU_FLOATS
from ...core.ir.tensor import STRING
from ...core.ir.traits import Trait, ops_with
from ..support.operand_queries import VARIADIC_BROADCASTING_OPSET
from .body_rewriting import (
    NameDisambiguator,
    constants_read_by,
    hoist_ops,
    is_attached,
    remove_with_operands,
    replace_body_input,
    replace_output,
    skip_identities,
)
from .loop_view import LoopParts, LoopView, loop_view

SPECULATABLE_UNARY = ops_with(Trait.ELEMENTWISE | Trait.TOTAL) | {"Shape", "Size"}
SPECULATABLE_BROADCASTING = ops_with(Trait.BROADCASTING | Trait.TOTAL)
SPECULATABLE_ON_FLOATS = frozenset({"Div", "Pow"})  # of integers they may fail


def is_speculatable(op: Op) -> bool:
    """Whether the op cannot fail, whatever the numbers; unknown shapes count as mismatched."""
    if op.domain or op.subgraphs or not is_pure(op) or any(v is None for v in op.inputs):
        return False
    values = [v for v in op.inputs if v is not None]
    if op.type in SPECULATABLE_UNARY:
        return len(values) == 1
    if op.type == "Cast":
        return op.attr("to") != STRING and values[0].known_dtype not in {0, STRING}
    if op.type == "Transpose":
        return values[0].known_shape is not None
    if op.type in SPECULATABLE_ON_FLOATS and any(v.known_dtype not in CPU_FLOATS for v in values):
        return False
    if op.type in SPECULATABLE_BROADCASTING | SPECULATABLE_ON_FLOATS:
        shapes = [s for v in values if (s := v.known_shape) is not None]
        is_known = len(shapes) == len(values)
        return op.version >= VARIADIC_BROADCASTING_OPSET and is_known and are_broadcastable(shapes)
    return op.type == "MatMul" and len(values) == 2 and _can_matmul(*values)


def are_broadcastable(shapes: Sequence[Shape]) -> bool:
    """Whether shapes are known to broadcast: of each axis the extents are 1 or all the same."""
    for axis in range(1, max(map(len, shapes), default=0) + 1):
        extents: list[Dim] = [s[-axis] for s in shapes if len(s) >= axis and s[-axis] != 1]
        if not all(same_extent(extents[0], d) for d in extents):
            return False
    return True


def _can_matmul(a: Value, b: Value) -> bool:
    """Whether MatMul is known to take matrices of these shapes (numpy.matmul)."""
    p, q = a.known_shape, b.known_shape
    if p is None or q is None or len(p) < 2 or len(q) < 2:
        return False
    return same_extent(p[-1], q[-2]) and are_broadcastable([p[:-2], q[:-2]])


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
        remove_with_operands(op)
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
    """The carried values that every trip returns unchanged, if they may be read from outside instead."""
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
