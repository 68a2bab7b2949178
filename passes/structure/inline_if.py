"""Inlining of Ifs with constant conditions."""

from __future__ import annotations

from dataclasses import dataclass

from ...core import Graph, Ledger, Op
from ..support.unique_names import NameDisambiguator
from .body_rewriting import inline_body


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
