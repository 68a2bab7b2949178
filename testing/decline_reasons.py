"""Reasons for which a rule declines."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.errors import Declined, PassesError
from ..core.io.convert import from_onnx
from ..core.ir.graph import Graph
from ..core.ir.op import Op
from ..core.rewriting.builder import Build
from ..core.rewriting.rules import Rule
from .case import Case


def decline_reasons(rule: Rule, case: Case) -> Iterator[str]:
    """The reasons for which `rule` declines, at each match of its pattern."""
    for graph in from_onnx(case.model).graph.with_subgraphs():
        for op in list(graph.ops(*rule.pattern.types)):
            yield from _reasons_at(rule, graph, op)


def _reasons_at(rule: Rule, graph: Graph, root: Op) -> Iterator[str]:
    try:
        for match in rule.matches(graph, root):
            try:
                rule.build(Build(graph, root), **match.bindings)
            except Declined as why:
                yield str(why)
    except (Declined, PassesError) as why:
        yield str(why)
