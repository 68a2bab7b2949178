"""Common subexpressions: what is computed twice is computed once."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from ...core import Graph, Ledger, Op, Value, is_pure
from ...core.io.exporter import built_node
from ...core.ir.schemas import default_encodings
from ...core.pattern import COMMUTATIVE

Key = tuple[object, ...]
SWAPPED = COMMUTATIVE - {"Max", "Min"}  # of 0 and -0 onnxruntime gives one or the other, as they stand


@dataclass(frozen=True, slots=True)
class MergeDuplicates:
    """Two ops of one kind with equal attributes and the same inputs, in any order if they commute, become one."""

    name: str = "merge-duplicates"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """One sweep in dependency order finds all there are. O(ops)."""
        return sum(self._merge(g, ledger) for g in tuple(graph.with_subgraphs()))

    def _merge(self, g: Graph, ledger: Ledger) -> int:
        changes = 0
        alone: dict[Key, Op] = {}  # the first op of each head; its attributes are decoded when a second comes
        known: dict[Key, Op] = {}
        for op in g.sorted_ops():
            if op.hollow or op.type == "Constant":
                continue
            start = head(op)
            other = alone.setdefault(start, op)
            if other is op or not is_pure(op):
                continue
            known.setdefault((*start, encoded_attributes(other)), other)
            twin = known.setdefault((*start, encoded_attributes(op)), op)
            changes += twin is not op and self._replace(g, op, twin, ledger)
        return changes

    def _replace(self, g: Graph, op: Op, twin: Op, ledger: Ledger) -> bool:
        pairs = [(old, new) for old, new in zip(op.outputs, twin.outputs, strict=False) if old.uses or g.is_output(old)]
        if len(op.outputs) > len(twin.outputs) or not pairs or any(not new.name for _, new in pairs):
            return False
        if any(old in g.pinned or (g.is_output(old) and (g.is_output(new) or new in g.pinned)) for old, new in pairs):
            return False
        if not ledger.permits(self.name, pairs[0][0].name, (op, twin)):
            return False
        for old, new in pairs:
            g.replace_uses(old, new)
        g.prune([op])
        return True


def head(op: Op) -> Key:
    """What two equal ops agree on before their attributes are looked at."""
    inputs: tuple[Value | None, ...] = op.inputs
    if len(inputs) == 2 and op.type in SWAPPED and not op.domain:
        inputs = tuple(sorted(inputs, key=id))
    # Which outputs are asked for can decide what an op computes (BatchNormalization before opset 14).
    return (op.type, op.domain, tuple(bool(v.name) for v in op.outputs), *inputs)


def encoded_attributes(op: Op) -> frozenset[bytes]:
    """The attributes that differ from their defaults, serialized."""
    node = built_node(op) if op.rest is None else onnx.NodeProto.FromString(op.rest)
    defaults = default_encodings(op.type, op.domain, op.version)
    return frozenset(a.SerializeToString(deterministic=True) for a in node.attribute) - defaults
