"""Inlining of Loops that run once or never, and hoisting of loop-invariant computations.

Operator Loop: inputs M, cond and the carried values; body inputs iteration, condition and the carried values; body
outputs condition, carried values, scan outputs; outputs carried values, scan outputs.
Operator Scan, since version 9: inputs carried values and scan inputs, the same of the body; body outputs and outputs
carried values and scan outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ...core import ChangeLog, Graph, Op, Tensor, Value, is_pure, may_drop, same_extent
from ...core.ir import op_schemas
from ...core.ir.dtypes import CPU_FLOATS
from ...core.ir.expressions import Dim, Shape
from ...core.ir.tensor import STRING
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ..support.operand_queries import VARIADIC_BROADCASTING_OPSET, known_scalar
from .body_rewriting import (
    NameDisambiguator,
    append_op,
    backward_slice,
    constants_read_by,
    hoist_ops,
    inline_body,
    is_attached,
    prune_body,
    rebuild_op,
    remove_with_operands,
    replace_body_input,
    replace_output,
    skip_identities,
)

UNBATCHED_SCAN_VERSION = 9  # version 8 has a batch axis, and an input for its lengths
PER_SCAN_INPUT = ("scan_input_axes", "scan_input_directions")
PER_SCAN_OUTPUT = ("scan_output_axes", "scan_output_directions")


class LoopView(Struct, frozen=True):
    """A Loop or Scan taken apart; carried values, scan inputs and scan outputs are counted from 0.

    `leading_inputs`: the number of inputs before the carried values, of the op and of its body; `leading_outputs`: the
    number of body outputs before them.
    """

    op: Op
    body: Graph
    leading_inputs: int
    leading_outputs: int
    carried: int
    scan_inputs: int
    scan_outputs: int

    @property
    def live_outputs(self) -> list[int]:
        """The positions of used outputs."""
        return [i for i, v in enumerate(self.op.outputs) if not self.op.graph.is_unused(v)]

    def live_parts(self) -> LoopParts:
        """The parts on which a used output depends. O(ops of the body)."""
        body, live = self.body, self.live_outputs
        places = {v: i - self.leading_inputs for i, v in enumerate(body.inputs)}
        kept = {i for i in live if i < self.carried}
        stack = [*body.outputs[: self.leading_outputs], *(body.outputs[self.leading_outputs + i] for i in live)]
        for op in body.ops():
            if not may_drop(op):
                stack += [v for v in (*op.inputs, *op.captures) if v is not None]
        seen: set[Value] = set()
        while stack:
            v = stack.pop()
            if v in seen:
                continue
            seen.add(v)
            place = places.get(v, -1)
            if 0 <= place < self.carried:
                kept.add(place)
                stack.append(body.outputs[self.leading_outputs + place])
            maker = body.producer(v)
            if maker is not None:
                stack += [i for i in (*maker.inputs, *maker.captures) if i is not None]
        scanned = [places[v] - self.carried for v in body.inputs if v in seen and places[v] >= self.carried]
        if not scanned:
            scanned = [0][: self.scan_inputs]  # one has to say how long it runs
        return LoopParts(sorted(kept), scanned, [i - self.carried for i in live if i >= self.carried])

    def all_parts(self) -> LoopParts:
        """All parts."""
        return LoopParts([*range(self.carried)], [*range(self.scan_inputs)], [*range(self.scan_outputs)])

    def rebuild_with(self, parts: LoopParts, by: str) -> Op:
        """The op with nothing but these parts."""
        op, n = self.op, self.carried
        given = [
            *range(self.leading_inputs),
            *(self.leading_inputs + i for i in parts.carried),
            *(self.leading_inputs + n + i for i in parts.scan_inputs),
        ]
        results = [*parts.carried, *(n + i for i in parts.scan_outputs)]
        returned = [*range(self.leading_outputs), *(self.leading_outputs + i for i in results)]
        body = prune_body(self.body, given, returned, by)
        attrs: dict[str, object] = {"body": body}
        if op.type == "Scan":
            attrs["num_scan_inputs"] = len(parts.scan_inputs)
            for names, chosen in ((PER_SCAN_INPUT, parts.scan_inputs), (PER_SCAN_OUTPUT, parts.scan_outputs)):
                for name in names:
                    if name in op.attrs:
                        attrs[name] = [op.attrs[name][i] for i in chosen]
        return rebuild_op(op, by, [op.input(i) for i in given], results, attrs)


class LoopParts(Struct, frozen=True):
    """Some carried values, scan inputs and scan outputs, counted from 0, in order."""

    carried: list[int]
    scan_inputs: list[int]
    scan_outputs: list[int]


def loop_view(op: Op) -> LoopView | None:
    """A Loop or Scan taken apart, if its body may be and the numbers of its parts agree."""
    body = op.attrs.get("body") if op.subgraphs and not op.domain else None
    if not isinstance(body, Graph) or body.pinned or body.input_defaults:
        return None
    if op.type == "Loop":
        carried, scan_inputs, ahead, first = len(body.inputs) - 2, 0, 2, 1
    elif op.type == "Scan" and op.version >= UNBATCHED_SCAN_VERSION:
        scan_inputs, ahead, first = int(op.attr("num_scan_inputs", 0)), 0, 0
        carried = len(body.inputs) - scan_inputs
    else:
        return None
    results = len(body.outputs) - first
    fits = len(op.outputs) == results >= carried >= 0 and max(len(op.inputs), ahead) == len(body.inputs)
    return LoopView(op, body, ahead, first, carried, scan_inputs, results - carried) if fits else None


AXES_AS_INPUT = 13  # of Unsqueeze


class InlineLoop(Struct, frozen=True):
    """Loop(0, c, v) => v, and Loop(1, true, v) => the ops of its body, with an Unsqueeze for each scan output."""

    name: str = "inline-loop"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Inline every such Loop, innermost first. O(ops in them)."""
        namer, changes = NameDisambiguator(graph), 0
        for op in reversed([op for g in graph.with_subgraphs() for op in g.ops("Loop")]):
            loop = loop_view(op) if is_attached(op) else None
            if loop is None or not loop.live_outputs:
                continue
            count = known_trip_count(loop)
            fits = count is not None and is_inlinable(loop, count)
            if fits and change_log.request_change(self.name, op.outputs[loop.live_outputs[0]].name, (op,)):
                if count:
                    self._inline_trip(loop, namer)
                else:
                    self._replace_with_initial_values(loop)
                changes += 1
        return changes

    def _replace_with_initial_values(self, loop: LoopView) -> None:
        op = loop.op
        for i in loop.live_outputs:
            start = op.inputs[loop.leading_inputs + i]
            if start is not None:
                replace_output(op.outputs[i], start, self.name, op)
        remove_with_operands(op)

    def _inline_trip(self, loop: LoopView, namer: NameDisambiguator) -> None:
        op, body, graph = loop.op, loop.body, loop.op.graph
        number, condition = body.inputs[:2]
        given: dict[Value, Value] = {}
        for v, content in ((number, np.zeros((), np.int64)), (condition, np.ones((), np.bool_))):
            if v.consumers or body.is_output(v):
                ranked = content.reshape([1] * len(v.recorded_type[1] or ()))
                given[v] = graph.add_constant(Tensor.from_array(ranked), v.name)
        starts = zip(body.inputs[2:], op.inputs[2:], strict=True)
        given.update((v, start) for v, start in starts if start is not None)
        results = list(body.outputs[1:])
        for i in (i for i in loop.live_outputs if i >= loop.carried):
            results[i] = self._unsqueezed(op, body, results[i])
        inline_body(op, body, given, results, self.name, namer)

    def _unsqueezed(self, op: Op, body: Graph, v: Value) -> Value:
        """Build, in the body, the scan output of one trip."""
        as_input = body.opsets[op_schemas.ONNX_DOMAIN] >= AXES_AS_INPUT
        axes = [op.graph.add_constant(Tensor.from_array(np.zeros(1, np.int64)), "axes")] if as_input else []
        return append_op(body, "Unsqueeze", [v, *axes], {} if as_input else {"axes": [0]}, self.name, (op,))


def known_trip_count(loop: LoopView) -> int | None:
    """The trip count of a Loop, if it is known to be 0 or 1."""
    count, start = loop.op.input(0), loop.op.input(1)
    most = known_scalar(count)
    if known_scalar(start) == 0 or (most is not None and most <= 0):
        return 0
    begins = start is None or known_scalar(start) == 1
    # Without a condition, the condition of the body is to be ignored (operator Loop); onnxruntime does not ignore it.
    ends = start is not None and known_scalar(skip_identities(loop.body.outputs[0], loop.body)) == 0
    runs = most is not None or count is None
    return 1 if begins and runs and (most == 1 or ends) else None


def is_inlinable(loop: LoopView, count: int) -> bool:
    """Whether the used results are known without the Loop, and no more Unsqueezes are added than ops are removed."""
    scanned = sum(i >= loop.carried for i in loop.live_outputs)
    if not count:
        return not scanned  # its shape would be unknown
    only_for_end = len(loop.body) - len(backward_slice(loop.body, loop.body.outputs[1:]))
    return scanned <= 1 + only_for_end and loop.op.graph.can_hold_initializers


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


class HoistInvariants(Struct, frozen=True):
    """Loop(v -> v, f(x)) => f(x) before the Loop, and v not carried but read from outside."""

    name: str = "hoist-invariants"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Hoist from the innermost body outwards, so that ops may leave several loops. O(ops in bodies)."""
        namer, changes = NameDisambiguator(graph), 0
        for op in reversed([op for g in graph.with_subgraphs() for op in g.ops("Loop", "Scan")]):
            loop = loop_view(op) if is_attached(op) else None
            if loop is None:
                continue
            same = invariant_carried_values(loop)
            if same and change_log.request_change(self.name, op.outputs[same[0]].name, (op,)):
                changes += 1
                loop = self._capture_invariants(loop, same)
            if loop is not None:
                changes += self._hoist(loop, change_log, namer)
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

    def _hoist(self, loop: LoopView, change_log: ChangeLog, namer: NameDisambiguator) -> int:
        body, graph = loop.body, loop.op.graph
        chosen: dict[Op, None] = {}
        if not graph.can_hold_initializers or body.pinned:
            return 0
        varies = {*body.inputs, *body.sparse_initializers}
        for op in body.sorted_ops():
            returned = any(map(body.is_output, (*op.outputs, *constants_read_by(body, [op]))))
            fits = not returned and varies.isdisjoint(op.inputs) and is_speculatable(op)
            if fits and change_log.request_change(self.name, op.outputs[0].name, (op,)):
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
