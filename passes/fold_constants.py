"""Constant folding: what depends on constants alone is computed once, here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..core import Graph, Ledger, Op, Value, evaluate, is_pure
from ..core.effects import HALF
from .budget import Budget, affordable, known_bytes, result_bytes

# A weight between QuantizeLinear and DequantizeLinear is how a quantized model says what is quantized.
KEPT = frozenset({"Constant", "QuantizeLinear", "DequantizeLinear"})
TRANSIENT = 64 << 20  # bytes; no op may compute more than this or its own inputs on the way to a small result


@dataclass(frozen=True, slots=True)
class FoldConstants:
    """Ops that depend on constants alone become constants.

    `max_growth` bytes, or `max_share` of the model's weights if that is more, is all that the file may
    grow by; what would exceed it is left to be computed at run time, and is not computed here.
    """

    max_growth: int = 1 << 20
    max_share: float = 0.05
    name: str = "fold-constants"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Fold until nothing more can be; one session for each graph and round."""
        total = 0
        for g in tuple(graph.with_subgraphs()):
            total += lift_constants(g, ledger)
            while changes := self._fold(g, graph, ledger):
                total += changes
        return total

    def _fold(self, g: Graph, root: Graph, ledger: Ledger) -> int:
        candidates = list(foldable(g))
        if not candidates:
            return 0
        budget = Budget.of(root, self.max_growth, self.max_share)
        chosen = affordable(candidates, budget.room)
        inside = set(chosen)
        wanted = [v for op in chosen for v in op.outputs if g.is_output(v) or any(u not in inside for u in v.uses)]
        if not wanted:
            return 0
        changes = 0
        for value, tensor in evaluate(chosen, wanted).items():
            maker = value.producer
            exact = tensor.dtype not in HALF
            if maker is not None and ledger.permits(self.name, value.name, (maker.label,), exact=exact):
                g.make_constant(value, tensor)
                g.prune([maker])
                changes += 1
        return changes


def lift_constants(g: Graph, ledger: Ledger) -> int:
    """Constant(value) => an initializer. Returns how many there were."""
    changes = 0
    for op in g.ops("Constant"):
        value = op.outputs[0] if op.outputs and not op.domain else None
        if value is not None and value.tensor is not None and ledger.permits("lift-constant", value.name, (op.label,)):
            g.make_constant(value, value.tensor)
            g.prune([op])
            changes += 1
    return changes


def foldable(g: Graph) -> Iterator[Op]:
    """Ops that depend on constants alone and whose results have a known size, in order."""
    reached: set[Value] = set()
    for op in g.sorted_ops():
        if any(v is not None and v.tensor is None and v not in reached for v in op.inputs):
            continue
        if op.type in KEPT or not is_pure(op):
            continue
        if any(v.tensor is None and v not in reached for v in op.captures):
            continue
        if not any(v.uses or g.is_output(v) for v in op.outputs) or not _fits(op):
            continue
        reached.update(op.outputs)
        yield op


def _fits(op: Op) -> bool:
    """Whether the results have a known size that is no more than what may be computed on the way."""
    size = result_bytes(op)
    read = sum(known_bytes(v) or 0 for v in op.inputs if v is not None)
    return size is not None and size <= max(TRANSIENT, read)
