"""Inlining of Ifs with constant conditions, and hoisting of computations that both branches share."""

from __future__ import annotations

from msgspec import Struct

from ...core import ChangeLog, Graph, Op, may_drop
from ...core.ir.tensor import digest, sample_key
from ..support.operand_queries import known_scalar
from ..support.value_numbering import ValueNumbering
from .body_rewriting import (
    NameDisambiguator,
    backward_slice,
    constants_read_by,
    hoist_ops,
    inline_body,
    is_attached,
    prune_body,
    rebuild_op,
    remove_with_operands,
    replace_output,
    skip_identities,
)


class InlineIf(Struct, frozen=True):
    """If(constant, then, else) => the ops of the branch that is taken."""

    name: str = "inline-if"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Inline every such If, those uncovered by inlining too."""
        namer, changes = NameDisambiguator(graph), 0
        work = [op for g in graph.with_subgraphs() for op in g.ops("If")]
        while work:
            op = work.pop()
            branch = taken_branch(op)
            if (
                op not in op.graph
                or branch is None
                or not change_log.request_change(self.name, op.outputs[0].name, (op,))
            ):
                continue
            work += branch.ops("If")
            inline_body(op, branch, {}, branch.outputs, self.name, namer)
            changes += 1
        return changes


def taken_branch(op: Op) -> Graph | None:
    """The branch an If always takes; None where it is decided at run time."""
    taken = known_scalar(op.input(0))
    branch = None if op.domain or taken is None else op.attrs["then_branch" if taken else "else_branch"]
    return branch if isinstance(branch, Graph) else None


class MergeBranches(Struct, frozen=True):
    """If(c, f(x), f(x)) => f(x), for each output on its own; without outputs left, the If goes."""

    name: str = "merge-branches"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Look at every If, outermost first. O(ops in branches); large constants are read only where all else fits."""
        namer, changes = NameDisambiguator(graph), 0
        for op in [op for g in graph.with_subgraphs() for op in g.ops("If")]:
            branches = branches_of(op) if is_attached(op) else None
            alike = equal_outputs(op, *branches) if branches is not None else []
            if (
                branches is not None
                and alike
                and change_log.request_change(self.name, op.outputs[alike[0]].name, (op,))
            ):
                self._merge(op, *branches, alike, namer)
                changes += 1
        return changes

    def _merge(self, op: Op, then: Graph, otherwise: Graph, equal: list[int], namer: NameDisambiguator) -> None:
        graph = op.graph
        found = [skip_identities(then.outputs[i], then) for i in equal]
        ops = backward_slice(then, found)
        constants = constants_read_by(then, ops) | {v: None for v in found if v in then.initializers}
        hoist_ops(then, ops, constants, graph, op.order_key, namer)
        rest = [i for i, v in enumerate(op.outputs) if i not in equal and not graph.is_unused(v)]
        for i, v in zip(equal, found, strict=True):
            replace_output(op.outputs[i], v, self.name, op)
        if not rest:
            remove_with_operands(op)
            return
        rebuild_if(op, (then, otherwise), rest, self.name)


def branches_of(op: Op) -> tuple[Graph, Graph] | None:
    """Both branches, if their contents may move."""
    if op.domain:
        return None
    then, otherwise = op.attrs.get("then_branch"), op.attrs.get("else_branch")
    if not isinstance(then, Graph) or not isinstance(otherwise, Graph):
        return None
    return (then, otherwise) if not then.pinned and not otherwise.pinned and op.graph.can_hold_initializers else None


def rebuild_if(op: Op, branches: tuple[Graph, Graph], outputs: list[int], by: str) -> None:
    """Replace an If by one with some of its outputs."""
    then, otherwise = (prune_body(branch, (), outputs, by) for branch in branches)
    rebuild_op(op, by, op.inputs, outputs, {"then_branch": then, "else_branch": otherwise})


def equal_outputs(op: Op, then: Graph, otherwise: Graph) -> list[int]:
    """The outputs that are read and that both branches compute alike; none if an If without outputs had to stay."""
    live = [i for i, v in enumerate(op.outputs) if not op.graph.is_unused(v)]
    alike = live
    for content in (sample_key, digest):  # large constants are read only if the rest agrees
        numbering = ValueNumbering(content)
        numbers = [numbering.outputs(branch) for branch in (then, otherwise)]
        alike = [i for i in alike if numbers[0][i] == numbers[1][i]]
        if not alike:
            return []
    return alike if len(alike) < len(live) or may_drop(op) else []
