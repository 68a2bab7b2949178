"""Texts of the catalogue on rules and passes: their docstrings and opsets."""

from __future__ import annotations

import re
import sys
from dataclasses import fields, is_dataclass
from functools import cache
from inspect import cleandoc, getdoc
from typing import Any

from onnx import defs
from passwright.core import Pass, Rule, RulePass
from passwright.core.rewriting.pattern import Var, VariadicVar
from passwright.passes.pipelines import BUILT_IN, OPTIONAL_PASSES
from record import Example
from shown import apply_to_example

FAMILIES = ("cleanup", "folding", "shapes", "structure", "linear", "fusion", "arithmetic", "movement", "decomposition")
"""The families in the order of the pipeline: sub-packages of `passwright.passes`."""


def passes_by_family() -> dict[str, list[Pass]]:
    """The passes of each family, in the order in which they run; those of no pipeline last."""
    found: dict[str, list[Pass]] = {name: [] for name in FAMILIES}
    for p in (*BUILT_IN, *OPTIONAL_PASSES):
        found[defining_module(p).split(".")[2]].append(p)
    return found


def defining_module(p: Pass) -> str:
    """The module that a pass is written in."""
    return p.rules[0].build.__module__ if isinstance(p, RulePass) else type(p).__module__


def family_docstring(name: str) -> str:
    """The docstring of its package."""
    return getdoc(sys.modules[f"passwright.passes.{name}"]) or ""


def pass_docstring(p: Pass) -> str:
    """The docstring of a pass; of rules, the text on the group in the docstring of their module, or all of that."""
    if not isinstance(p, RulePass):
        return cleandoc(type(p).__doc__ or "")
    text = cleandoc(sys.modules[defining_module(p)].__doc__ or "")
    found = re.search(rf"^`{p.name}`: (.*?)(?=\n`|\Z)", text, re.DOTALL | re.MULTILINE)
    return found[1].strip() if found else text.partition("\n\n`")[0]


def options(p: Pass) -> list[tuple[str, Any]]:
    """The options of a pass with their defaults."""
    if isinstance(p, RulePass) or not is_dataclass(p):
        return []
    return [(f.name, f.default) for f in fields(p) if f.name != "name"]


def rule_details(rule: Rule) -> str:
    """The docstring of a rule without its equation."""
    return (getdoc(rule.build) or "").partition("\n")[2].strip()


def opsets(rule: Rule, example: Example) -> tuple[int, int]:
    """The first and the last opset with every operator of one of its patterns and of those it writes in its example.

    It may ask for more than that; then it declines.
    """
    graph, _ = apply_to_example(rule, example)
    written = [opset_span((op.type,), (), ()) for op in graph.ops() if op.by == rule.name and not op.domain]
    spans: list[tuple[int, int]] = []
    for pattern in rule.patterns:
        found = [*written, *(opset_span(p.types, p.inputs, p.attrs) for p in pattern.walk() if not p.domain)]
        spans.append((max(first for first, _ in found), min(last for _, last in found)))
    return min(first for first, _ in spans), max(last for _, last in spans)


def rules_by_operator() -> dict[str, list[tuple[str, Rule]]]:
    """The rules whose patterns have each operator, in order of names, each with its family."""
    found: dict[str, list[tuple[str, Rule]]] = {}
    for family, passes in passes_by_family().items():
        for rule in (r for p in passes if isinstance(p, RulePass) for r in p.rules):
            for operator in dict.fromkeys(t for p in rule.patterns for t in p.operators()):
                found.setdefault(operator, []).append((family, rule))
    return dict(sorted(found.items()))


def opset_span(types: tuple[str, ...], inputs: tuple[Any, ...], attrs: tuple[tuple[str, Any], ...]) -> tuple[int, int]:
    """The opsets at which one of the operators exists, takes that many inputs and knows the attributes."""
    needed = sum(not (i is None or isinstance(i, VariadicVar) or (isinstance(i, Var) and i.optional)) for i in inputs)
    wanted = [name for name, _ in attrs]
    fitting = [
        version
        for version in range(1, defs.onnx_opset_version() + 1)
        for schema in (schema_at(op_type, version) for op_type in types)
        if schema is not None
        and schema.max_input >= needed
        and all(has_attribute_or_input(schema, name) for name in wanted)
    ]
    return min(fitting), max(fitting)


@cache
def schema_at(op_type: str, version: int) -> defs.OpSchema | None:
    """The schema in force, unless the operator is not there yet, or not any more."""
    if not defs.has(op_type, version, ""):
        return None
    schema = defs.get_schema(op_type, version, "")
    return None if schema.deprecated else schema


def has_attribute_or_input(schema: defs.OpSchema, name: str) -> bool:
    """Whether an operator has an attribute, or an input in its place."""
    return name in schema.attributes or any(i.name == name for i in schema.inputs)
