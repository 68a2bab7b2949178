"""Plans of runs: the changes and their savings, as listed by `passes run --dry-run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.graph import Graph
from ..ir.subgraphs import constant_bytes, total_op_count
from ..rewriting.changes import Change


@dataclass(frozen=True, slots=True)
class Savings:
    """Savings, negative for growth: nodes (those in subgraphs too) and bytes of constants."""

    nodes: int = 0
    weight_bytes: int = 0

    def __add__(self, other: Savings) -> Savings:
        return Savings(self.nodes + other.nodes, self.weight_bytes + other.weight_bytes)

    def __sub__(self, other: Savings) -> Savings:
        return Savings(self.nodes - other.nodes, self.weight_bytes - other.weight_bytes)

    @classmethod
    def of_change(cls, change: Change) -> Savings:
        """The savings of one change."""
        return cls(change.nodes_saved, change.weight_bytes_saved)


@dataclass(frozen=True, slots=True)
class RuleSavings:
    """The total savings of one rule, or of one pass without rules."""

    pass_name: str
    by: str
    changes: int
    saved: Savings


@dataclass(frozen=True, slots=True)
class Plan:
    """All `changes` in order, and the savings of each rule or pass, the most nodes first.

    `saved` is their sum. `unattributed` are savings outside recorded changes, which are 0 unless a pass bypasses the
    mutators of the graph. Bytes of nodes and names are in neither, but in the sizes of the files.
    """

    changes: list[Change]
    shares: list[RuleSavings]
    saved: Savings
    unattributed: Savings

    @classmethod
    def of(cls, changes: Sequence[Change], before: Savings, after: Savings) -> Plan:
        """The plan of changes with recorded sizes; `before` and `after` are the sizes of the model."""
        shares: dict[tuple[str, str], RuleSavings] = {}
        for c in changes:
            known = shares.get((c.pass_name, c.by), RuleSavings(c.pass_name, c.by, 0, Savings()))
            shares[c.pass_name, c.by] = RuleSavings(
                c.pass_name, c.by, known.changes + 1, known.saved + Savings.of_change(c)
            )
        ordered = sorted(shares.values(), key=lambda s: (-s.saved.nodes, -s.saved.weight_bytes))
        saved = sum((s.saved for s in ordered), Savings())
        return cls(list(changes), ordered, saved, before - after - saved)


def graph_size(graph: Graph) -> Savings:
    """The size of a graph, as the most that could be saved. O(V)."""
    return Savings(total_op_count(graph), constant_bytes(graph))
