"""What a run changes, change by change: what `passes run --dry-run` lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.graph import Graph
from ..ir.subgraphs import constant_bytes, total_op_count
from ..rewriting.changes import Change


@dataclass(frozen=True, slots=True)
class Savings:
    """What became fewer, or more, below zero: nodes (those in bodies too) and bytes of constants."""

    nodes: int = 0
    weight_bytes: int = 0

    def __add__(self, other: Savings) -> Savings:
        return Savings(self.nodes + other.nodes, self.weight_bytes + other.weight_bytes)

    def __sub__(self, other: Savings) -> Savings:
        return Savings(self.nodes - other.nodes, self.weight_bytes - other.weight_bytes)

    @classmethod
    def of_change(cls, change: Change) -> Savings:
        """What one change saves."""
        return cls(change.nodes_saved, change.weight_bytes_saved)


@dataclass(frozen=True, slots=True)
class RuleSavings:
    """What one rule, or one pass without rules, does to a model in all."""

    pass_name: str
    by: str
    changes: int
    saved: Savings


@dataclass(frozen=True, slots=True)
class Plan:
    """All `changes` in order, and what each rule or pass has in them: who saves most nodes comes first.

    `saved` is what they come to. `unattributed` is what a model lost beside that: it is nothing unless a pass keeps
    from the graph what it does. Bytes of nodes and names are in neither; they are in those of the files.
    """

    changes: list[Change]
    shares: list[RuleSavings]
    saved: Savings
    unattributed: Savings

    @classmethod
    def of(cls, changes: Sequence[Change], before: Savings, after: Savings) -> Plan:
        """The plan that weighed changes make; `before` and `after` are what is in the model."""
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
    """What could be saved of a graph at most: all that is in it. O(V)."""
    return Savings(total_op_count(graph), constant_bytes(graph))
