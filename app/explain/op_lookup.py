"""The ops that a name stands for, and those at which a pattern that covers them would start."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.errors import ModelError
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.rewriting.pattern import OpPattern
from ...core.support.suggestions import did_you_mean


def ops_named(graph: Graph, name: str) -> list[Op]:
    """The nodes of that name, and what makes the values of that name, bodies included."""
    return [op for g in graph.with_subgraphs() for op in g.ops() if name in _op_and_value_names(op)]


def all_op_names(graph: Graph) -> set[str]:
    """What `ops_named` takes."""
    return {name for g in graph.with_subgraphs() for op in g.ops() for name in _op_and_value_names(op) if name}


def require_op_name(name: str, known: Iterable[str]) -> None:
    """Raise ModelError for a name that no node and no value made by one has."""
    names = set(known)
    if name not in names:
        raise ModelError(f"no node is named {name}, and none makes a value of that name{did_you_mean(name, names)}")


def pattern_roots_near(ops: Iterable[Op], pattern: OpPattern) -> set[Op]:
    """Those of `ops` at which the pattern could start; if there are none, what they feed, as far as it reaches."""
    found = set(ops)
    if roots := {op for op in found if op.type in pattern.types}:
        return roots
    edge = found
    for _ in range(pattern_depth(pattern) - 1):
        edge = {user for op in edge for v in op.outputs for user in v.consumers if user.graph is op.graph} - found
        found = found | edge
    return found


def pattern_depth(pattern: OpPattern) -> int:
    """Operators on the longest way up a pattern."""
    return 1 + max((pattern_depth(p) for p in pattern.inputs if isinstance(p, OpPattern)), default=0)


def _op_and_value_names(op: Op) -> tuple[str, ...]:
    return (op.name, *(v.name for v in op.outputs))
