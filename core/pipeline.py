"""What a pass is, and the ways of putting passes together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from .errors import NoFixpoint
from .ir.graph import Graph
from .ledger import Ledger
from .rewrite import rewrite
from .rules import Rule


@runtime_checkable
class Pass(Protocol):
    """A named function from a graph to the number of changes made in it (0: untouched).

    It must be deterministic, keep no state, and treat graphs inside the graph as well. A pass that asks
    `ledger.permits` before each change can be bisected change by change; any other counts as one.
    """

    @property
    def name(self) -> str:
        """What it is called on the command line: kebab-case."""
        ...

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Rewrite `graph` in place; return the number of changes."""
        ...


def run_pass(p: Pass, graph: Graph, ledger: Ledger) -> int:
    """Run one pass; its time and changes are booked under its name."""
    with ledger.running(p.name):
        return p.run(graph, ledger)


@dataclass(frozen=True, slots=True)
class RulePass:
    """Rules that belong together, applied until none fires."""

    name: str
    rules: tuple[Rule, ...]

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Apply the rules everywhere. Raises NoFixpoint if they chase each other."""
        return rewrite(graph, self.rules, ledger).total()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes in order, once."""

    name: str
    passes: Sequence[Pass]

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Run each pass once."""
        return sum(run_pass(p, graph, ledger) for p in self.passes)


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """Passes in order, again and again, until each has seen the graph and found nothing to do."""

    name: str
    passes: Sequence[Pass]
    patience: int = 50

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Run to the fixpoint. Raises NoFixpoint after `patience` rounds in which the model got no smaller."""
        total, settled = 0, [-1] * len(self.passes)
        least, idle = sum(map(len, graph.with_subgraphs())), 0
        while idle < self.patience:
            before = total
            for i, p in enumerate(self.passes):
                if settled[i] == graph.shared.version:
                    continue  # nothing happened since this pass found nothing to do
                changes = run_pass(p, graph, ledger)
                total += changes
                settled[i] = -1 if changes else graph.shared.version
            if total == before:
                return total
            size = sum(map(len, graph.with_subgraphs()))
            least, idle = (size, 0) if size < least else (least, idle + 1)
        raise NoFixpoint(f"{', '.join(p.name for p in self.passes)}: still changing after {self.patience} idle rounds")


def leaves(p: Pass) -> list[Pass]:
    """The passes that do the work, in order, each once."""
    if isinstance(p, Pipeline | Fixpoint):
        return list({leaf.name: leaf for inner in p.passes for leaf in leaves(inner)}.values())
    return [p]
