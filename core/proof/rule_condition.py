"""Conditions of a rule on a model: all assumptions of its contract where it fires, as a model with bool outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from msgspec import Struct, structs

from ..errors import MatchFailure, require
from ..io.convert import from_onnx, to_onnx
from ..ir.graph import Graph, defined_values
from ..ir.op import Op
from ..ir.values import Value
from ..rewriting.assumptions import Assumption
from ..rewriting.builder import RewriteBuilder
from ..rewriting.change_log import ChangeLog
from ..rewriting.driver import rewrite
from ..rewriting.rules import Match, Rule, bound_values
from ..transform.extract import keep_outputs
from .obligation import NotApplicable

MAX_FIRINGS = 64  # whose assumptions are included


class Firing(Struct, frozen=True):
    """A match for which a rule built a replacement: its bindings, with names instead of values, and all its values."""

    assumption: Assumption
    graph: Graph
    root: str
    bound: dict[str, Any]
    values: list[str]


@np.errstate(all="ignore")  # as where rules are applied
def condition_of(rule: Rule, proto: onnx.ModelProto) -> onnx.ModelProto | None:
    """The condition under which `rule` keeps the numbers of a model where it fires: a model with the same inputs.

    Its outputs are bools. None if the contract has no condition as an expression for the element types at which it
    fires. Raises NotApplicable if the condition cannot be expressed, such as in a body or for values that the model
    lacks, and PassesError.
    """
    if not rule.contract.assumptions:
        return None
    model, rewritten = from_onnx(proto), from_onnx(proto)
    firings, change_log = list[Firing](), ChangeLog(record=True)
    rewrite(rewritten.graph, [WatchedRule(**structs.asdict(rule), firings=firings)], change_log)
    places = {c.place for c in change_log.changes}
    held = [f for f in firings if f.root in places]
    if len(held) > MAX_FIRINGS or any(f.graph is not rewritten.graph for f in held):
        raise NotApplicable("its condition is not said where it fires in bodies, or too often")
    known = {v.name: v for v in defined_values(model.graph)}
    try:
        bools = [b for f in held for b in _build(f, model.graph, known)]
    except MatchFailure as why:
        raise NotApplicable(f"its condition is not said: {why}") from why
    if not bools:
        return None
    keep_outputs(model, [b.name for b in dict.fromkeys(bools)])
    return to_onnx(model)


class WatchedRule(Rule, frozen=True, kw_only=True, eq=False):
    """A rule that records each match for which it builds a replacement."""

    firings: list[Firing]

    def replacement(self, g: RewriteBuilder, match: Match) -> Any:
        """Build the replacement of a match, and record the match."""
        new = Rule.replacement(self, g, match)
        root = match.ops[0]
        assumption = self.contract_at(root).assumption
        if assumption is not None:
            values = [v for v in bound_values(match.bindings) if isinstance(v, Value)]
            values += [v for op in match.ops for v in op.outputs if v.consumers or root.graph.is_output(v)]
            names = [v.name for v in values]
            place = next(v.name for v in root.outputs if v in values)
            bound = {name: _named(b) for name, b in match.bindings.items()}
            self.firings.append(Firing(assumption, root.graph, place, bound, names))
        return new


class ValueName(Struct, frozen=True):
    """The name of a value that is bound to a variable."""

    name: str


def _named(binding: Any) -> Any:
    if isinstance(binding, Op):
        return ValueName(binding.outputs[0].name)
    return ValueName(binding.name) if isinstance(binding, Value) else binding


def _build(firing: Firing, graph: Graph, known: dict[str, Value]) -> list[Value]:
    """Build the bools for the assumptions of a firing in the original graph. Raises MatchFailure."""

    def value(name: str) -> Value:
        require(name in known, f"the model has no {name}")
        return known[name]

    root = graph.producer(value(firing.root))
    require(root is not None, f"{firing.root} is not computed")
    assert root is not None  # as required
    bound = {n: value(b.name) if isinstance(b, ValueName) else b for n, b in firing.bound.items()}
    return firing.assumption.build(RewriteBuilder(graph, root), bound, [value(name) for name in firing.values])
