"""Inlining of Ifs with constant conditions, and of Loops that run once or never."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core import Graph, Ledger, Op, Tensor, Value
from ...core.ir import op_schemas
from ..support.operand_queries import known_scalar
from .body_rewriting import (
    NameDisambiguator,
    append_op,
    backward_slice,
    inline_body,
    is_attached,
    remove_with_operands,
    replace_output,
    skip_identities,
)
from .loop_view import LoopView, loop_view


@dataclass(frozen=True, slots=True)
class InlineIf:
    """If(constant, then, else) => the ops of the branch that is taken."""

    name: str = "inline-if"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Inline every such If, those uncovered by inlining too."""
        namer = NameDisambiguator(graph)
        changes = 0
        work = [op for g in graph.with_subgraphs() for op in g.ops("If")]
        while work:
            op = work.pop()
            branch = taken_branch(op)
            if op not in op.graph or branch is None or not ledger.request_change(self.name, op.outputs[0].name, (op,)):
                continue
            work += branch.ops("If")
            inline_body(op, branch, {}, branch.outputs, self.name, namer)
            changes += 1
        return changes


def taken_branch(op: Op) -> Graph | None:
    """The branch an If always takes; None where it is decided at run time."""
    condition = op.input(0)
    if op.domain or condition is None or not condition.is_const or condition.const.size != 1:
        return None
    branch = op.attrs["then_branch" if condition.const.reshape(-1)[0] else "else_branch"]
    return branch if isinstance(branch, Graph) else None


AXES_AS_INPUT = 13  # of Unsqueeze


@dataclass(frozen=True, slots=True)
class InlineLoop:
    """Loop(0, c, v) => v, and Loop(1, true, v) => the ops of its body, with an Unsqueeze for each scan output."""

    name: str = "inline-loop"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Inline every such Loop, innermost first. O(ops in them)."""
        namer, changes = NameDisambiguator(graph), 0
        for op in reversed([op for g in graph.with_subgraphs() for op in g.ops("Loop")]):
            loop = loop_view(op) if is_attached(op) else None
            if loop is None or not loop.live_outputs:
                continue
            count = known_trip_count(loop)
            fits = count is not None and is_inlinable(loop, count)
            if fits and ledger.request_change(self.name, op.outputs[loop.live_outputs[0]].name, (op,)):
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
    # Without a condition that of the body is to be ignored (operator Loop), which onnxruntime does not do.
    ends = start is not None and known_scalar(skip_identities(loop.body.outputs[0], loop.body)) == 0
    runs = most is not None or count is None
    return 1 if begins and runs and (most == 1 or ends) else None


def is_inlinable(loop: LoopView, count: int) -> bool:
    """Whether no scan output of no trip is used, and Unsqueezes of one trip's do not make the ops more."""
    scanned = sum(i >= loop.carried for i in loop.live_outputs)
    if not count:
        return not scanned  # its shape would be unknown
    only_for_end = len(loop.body) - len(backward_slice(loop.body, loop.body.outputs[1:]))
    return scanned <= 1 + only_for_end and loop.op.graph.can_hold_initializers
