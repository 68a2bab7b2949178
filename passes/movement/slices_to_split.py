"""Replacement of Slices that partition a value by a Split."""

from __future__ import annotations

from dataclasses import dataclass

from ...core import Build, Declined, Graph, Ledger, Op, Value, made_from
from .slice_ranges import required_slice_ranges

SlicePart = tuple[range, Op]


@dataclass(frozen=True, slots=True)
class SlicesToSplit:
    """x[:i], x[i:j], x[j:] => Split(x), where several Slices take each element along one axis just once."""

    name: str = "slices-to-split"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Group the Slices of each value, and replace complete groups. O(Slices)."""
        return sum(self._split(g, ledger) for g in tuple(graph.with_subgraphs()) if g.opsets.get("", 0) >= 2)

    def _split(self, g: Graph, ledger: Ledger) -> int:
        found: dict[tuple[Value, int], list[SlicePart]] = {}
        for op in g.ops("Slice"):
            part = slice_part(op)
            if part is not None:
                found.setdefault(part[:2], []).append((part[2], op))
        changes = 0
        for (x, axis), parts in found.items():
            parts.sort(key=lambda p: p[0].start)
            ops = [op for _, op in parts]
            if covers_axis([r for r, _ in parts], x, axis) and ledger.request_change(
                self.name, ops[0].outputs[0].name, ops
            ):
                self._replace(g, x, axis, parts)
                changes += 1
        return changes

    def _replace(self, g: Graph, x: Value, axis: int, parts: list[SlicePart]) -> None:
        ops = [op for _, op in parts]
        build = Build(g, min(ops, key=lambda op: op.order_key))
        made = build.Split(x, split=[len(r) for r, _ in parts], axis=axis, outputs=len(parts))
        made_from(build.added_ops[0], self.name, ops)
        for new, op in zip(made, ops, strict=True):
            g.take_over(new, op.outputs[0])
        g.prune(ops)


def slice_part(op: Op) -> tuple[Value, int, range] | None:
    """The operand, axis and indices of a Slice; None unless it is one run along one axis."""
    x = op.input(0)
    if op.domain or x is None or len(x.consumers) < 2 or op.graph.is_unused(op.outputs[0]):
        return None
    try:
        ((axis, cut),) = required_slice_ranges(op, x).items()
        extent = x.shape[axis]
    except (Declined, ValueError):  # it cannot be told, or there are several axes
        return None
    return (x, axis, cut.indices(extent)) if isinstance(extent, int) and cut.step == 1 else None


def covers_axis(parts: list[range], x: Value, axis: int) -> bool:
    """Whether two or more runs, sorted, are all indices of an axis, each once and none of them empty."""
    bounds = [0, *(r.stop for r in parts)]
    meet = [r.start for r in parts] == bounds[:-1] and bounds[-1] == x.shape[axis]
    return len(parts) > 1 and meet and all(len(r) > 0 for r in parts)
