"""What both branches of an If compute is computed before it."""

from __future__ import annotations

from dataclasses import dataclass

from ...core import Graph, Ledger, Op, may_drop
from ...core.ir.digest import digest, glance
from ..support.unique_names import Namer
from ..support.value_numbering import Numbering
from .body_rewriting import cone, constants_of, drop_unread, move_out, rebuilt, reduced, source, stand_in, stands


@dataclass(frozen=True, slots=True)
class MergeBranches:
    """If(c, f(x), f(x)) => f(x), for each output on its own; without outputs left, the If goes."""

    name: str = "merge-branches"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Look at every If, outermost first. O(ops in branches); large constants are read only where all else fits."""
        namer = Namer(graph)
        changes = 0
        for op in [op for g in graph.with_subgraphs() for op in g.ops("If")]:
            branches = branches_of(op) if stands(op) else None
            alike = outputs_alike(op, *branches) if branches is not None else []
            if branches is not None and alike and ledger.permits(self.name, op.outputs[alike[0]].name, (op,)):
                self._merge(op, *branches, alike, namer)
                changes += 1
        return changes

    def _merge(self, op: Op, then: Graph, otherwise: Graph, alike: list[int], namer: Namer) -> None:
        graph = op.graph
        found = [source(then.outputs[i], then) for i in alike]
        ops = cone(then, found)
        constants = constants_of(then, ops) | {v: None for v in found if v in then.initializers}
        read = [v for v in (*op.inputs, *op.captures) if v is not None]
        move_out(then, ops, constants, graph, op.key, namer)
        rest = [i for i, v in enumerate(op.outputs) if i not in alike and not graph.is_free(v)]
        for i, v in zip(alike, found, strict=True):
            stand_in(op.outputs[i], v, self.name, op)
        if not rest:
            graph.remove_op(op)
            drop_unread(graph, read)
            return
        bodies = {"then_branch": then, "else_branch": otherwise}
        rebuilt(op, self.name, op.inputs, rest, {n: reduced(b, (), rest, self.name) for n, b in bodies.items()})


def branches_of(op: Op) -> tuple[Graph, Graph] | None:
    """Both branches, if their contents may move."""
    if op.domain:
        return None
    then, otherwise = op.attrs.get("then_branch"), op.attrs.get("else_branch")
    if not isinstance(then, Graph) or not isinstance(otherwise, Graph):
        return None
    return (then, otherwise) if not then.pinned and not otherwise.pinned and op.graph.may_hold_constants else None


def outputs_alike(op: Op, then: Graph, otherwise: Graph) -> list[int]:
    """The outputs that are read and that both branches compute alike; none if an If without outputs had to stay."""
    live = [i for i, v in enumerate(op.outputs) if not op.graph.is_free(v)]
    alike = live
    for content in (glance, digest):  # large constants are read only if the rest agrees
        numbering = Numbering(content)
        numbers = [numbering.outputs(branch) for branch in (then, otherwise)]
        alike = [i for i in alike if numbers[0][i] == numbers[1][i]]
        if not alike:
            return []
    return alike if len(alike) < len(live) or may_drop(op) else []
