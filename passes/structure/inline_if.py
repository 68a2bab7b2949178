"""An If whose condition is constant is the branch it takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...core import Graph, Ledger, Op, made_from
from ...core.ir.nesting import all_names
from ...core.ir.origin import remember


@dataclass(frozen=True, slots=True)
class InlineIf:
    """If(constant, then, else) => the ops of the branch that is taken."""

    name: str = "inline-if"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Inline every such If, those uncovered by inlining too."""
        names: Counter[str] | None = None
        changes = 0
        work = [op for g in graph.with_subgraphs() for op in g.ops("If")]
        while work:
            op = work.pop()
            branch = taken_branch(op)
            if op not in op.graph or branch is None or not ledger.permits(self.name, op.outputs[0].name, (op,)):
                continue
            names = Counter(all_names(graph)) if names is None else names
            work += branch.ops("If")
            splice(op, branch, names, self.name)
            changes += 1
        return changes


def taken_branch(op: Op) -> Graph | None:
    """The branch an If always takes; None where it is decided at run time."""
    condition = op.input(0)
    if op.domain or condition is None or not condition.is_const or condition.const.size != 1:
        return None
    branch = op.attrs["then_branch" if condition.const.reshape(-1)[0] else "else_branch"]
    return branch if isinstance(branch, Graph) else None


def splice(op: Op, branch: Graph, names: Counter[str], by: str) -> None:
    """Put what `branch` holds in the place of `op`. `names` counts the bearers of each name in the model."""
    graph, results, ops = op.graph, branch.outputs, branch.sorted_ops()
    own = dict.fromkeys((*branch.initializers, *branch.sparse, *(v for inner in ops for v in inner.outputs)))
    for v in results:
        if v not in own:
            v.drop_use(op)
    branch.outputs = ()
    for v in own:
        if names[v.name] > 1 and v.name:
            names[v.name] -= 1
            remember(v.producer)
            v.name = graph.fresh_name(v.name)
    graph.initializers.update(branch.initializers)
    graph.sparse.update(branch.sparse)
    graph.shared.facts += 1
    graph.pinned |= branch.pinned
    for inner in ops:
        graph.adopt(inner, op.key)
    for old, new in zip(op.outputs, results, strict=False):
        identity = graph.substitute(old, new)
        if identity is not None:
            made_from(identity, by, (op,))
    condition = op.inputs[0]
    graph.remove_op(op)  # what the other branch holds never runs, whatever it is
    if condition is not None and not condition.uses:
        graph.drop_initializer(condition)
