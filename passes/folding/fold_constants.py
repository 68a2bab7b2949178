"""Constant folding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np

from ...core import Graph, Ledger, Op, Value, evaluate, is_pure
from ...core.ir.dtypes import FLOAT16_DTYPES, FLOATS
from ...core.ir.subgraphs import enclosing_op
from ...core.ir.tensor import STRING
from ...core.pass_manager.pass_selection import UsageError
from .growth_budget import Budget, known_bytes, result_bytes, select_within_budget

# A weight between QuantizeLinear and DequantizeLinear is how a quantized model says what is quantized.
NEVER_FOLDED = frozenset({"Constant", "QuantizeLinear", "DequantizeLinear"})
NOT_FOLDED_FROM = frozenset({"debloat"})  # what this pass made is computed at run time on purpose
MAX_TRIP_COUNT = 1000  # of a Loop
MAX_TRANSIENT_BYTES = 64 << 20  # bytes; no op may compute more than this or its own inputs on the way to a small result


@dataclass(frozen=True, slots=True)
class FoldConstants:
    """Ops that depend on constants alone become constants.

    `max_growth` bytes, or `max_share` of the model's weights if that is more, is all that the file may
    grow by; what would exceed it is left to be computed at run time, and is not computed here.
    """

    max_growth: int = 1 << 20
    max_share: float = 0.05
    name: str = "fold-constants"

    def __post_init__(self) -> None:
        """Raise UsageError for an invalid budget."""
        if self.max_growth < 0 or not 0 <= self.max_share < inf:
            raise UsageError("max_growth and max_share are 0 or more, and finite")

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Fold until nothing more can be; one session for each graph and round."""
        total = 0
        for g in [g for g in graph.with_subgraphs() if g.can_hold_initializers]:
            fresh = list(constant_inputs(g))
            while fresh:
                fresh = self._fold(g, graph, fresh, ledger)
                total += len(fresh)
        return total

    def _fold(self, g: Graph, root: Graph, known: list[Value], ledger: Ledger) -> list[Value]:
        """Fold ops that depend on the `known` constants; returns the new constants."""
        candidates = foldable_ops(g, known)
        if not candidates:  # as in most bodies, and the budget takes a look at all of the model
            return []
        budget = Budget.of(root, self.max_growth, self.max_share)
        chosen = select_within_budget(candidates, budget.remaining_bytes)
        inside = set(chosen)
        wanted = [v for op in chosen for v in op.outputs if g.is_output(v) or any(u not in inside for u in v.consumers)]
        if not wanted:
            return []
        fresh: list[Value] = []
        room = budget.remaining_bytes
        for value, tensor in evaluate(chosen, wanted).items():
            if tensor.dtype == STRING and tensor.nbytes > room:  # the one size that is not known before
                continue
            maker = value.producer
            exact = tensor.dtype not in FLOAT16_DTYPES
            if maker is not None and ledger.request_change(self.name, value.name, (maker,), exact=exact):
                g.make_constant(value, tensor)
                fresh.append(value)
        g.prune(chosen)
        return fresh


def constant_inputs(g: Graph) -> Iterator[Value]:
    """The constants that the ops of `g` read: its own, and for a subgraph those of the graphs around it."""
    if g.owner is None:
        yield from g.initializers
    else:
        yield from dict.fromkeys(v for op in g.ops() for v in op.inputs if v is not None and v.is_const)


def foldable_ops(g: Graph, known: list[Value]) -> list[Op]:
    """Ops that the `known` constants, with others, make computable and whose results have a known size, in order.

    O(the uses of what is known and of what comes of it).
    """
    missing: dict[Op, int] = {}  # inputs and captures that are not constant yet
    found = [op for op in g.ops("SequenceEmpty") if _is_candidate(op)]
    queue = [*known, *(v for op in found for v in op.outputs)]
    for v in queue:
        for op in dict.fromkeys(op for user in v.consumers if (op := enclosing_op(g, user)) is not None):
            if op not in missing:
                missing[op] = sum(not u.is_const for u in {*op.inputs, *op.captures} if u is not None)
            missing[op] -= not v.is_const
            if missing[op] == 0 and _is_candidate(op):
                missing[op] = -1  # taken
                found.append(op)
                queue += op.outputs
    return found


def _is_candidate(op: Op) -> bool:
    if (
        op.type in NEVER_FOLDED
        or op.by in NOT_FOLDED_FROM
        or not is_pure(op)
        or not any(v.consumers or op.graph.is_output(v) for v in op.outputs)
    ):
        return False
    return _is_safe(op) and _has_bounded_size(op)


def _is_safe(op: Op) -> bool:
    """Whether computing the op, which its model may never do, ends and leaves the process alive."""
    if op.type == "Loop":
        trips = op.input(0)
        if trips is None or not trips.is_const or trips.const.size != 1 or trips.const.reshape(-1)[0] > MAX_TRIP_COUNT:
            return False
    if op.type in {"Div", "Mod"} and not _divides_safely(op):
        return False
    return all(_is_safe(inner) for sub in op.subgraphs for inner in sub.ops())


def _divides_safely(op: Op) -> bool:
    """An integer division by 0, or by -1 at the end of the range, may end the process."""
    divisor = op.input(1)
    if divisor is None or divisor.known_dtype in FLOATS:
        return True
    return divisor.is_const and not np.isin(divisor.const, (0, -1)).any()


def _has_bounded_size(op: Op) -> bool:
    """Whether the results have a known size within the transient limit."""
    size = result_bytes(op)
    read = sum(known_bytes(v) or 0 for v in op.inputs if v is not None)
    return size is not None and size <= max(MAX_TRANSIENT_BYTES, read)
