"""Choosing passes and rules by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from .errors import PassesError
from .pipeline import Fixpoint, Pass, Pipeline, RulePass, leaves


class BadUsage(PassesError):
    """A run was asked for in a way that makes no sense, whatever the model."""


class UnknownName(BadUsage):
    """A pass or rule was asked for that does not exist."""


def names_in(p: Pass) -> set[str]:
    """The names of all passes and rules in a pipeline."""
    rules = {r.name for leaf in leaves(p) if isinstance(leaf, RulePass) for r in leaf.rules}
    return rules | {leaf.name for leaf in leaves(p)}


def selected(p: Pass, only: Collection[str] = (), skip: Collection[str] = ()) -> Pass:
    """The pipeline with `only` the named passes and rules, or all but those to `skip`. Raises UnknownName."""
    known = names_in(p)
    for name in (*only, *skip):
        if name not in known:
            raise UnknownName(f"no pass or rule of the pipeline is named {name} (see `passes list`)")
    return _selected(p, set(only) or known, set(skip))


def _selected(p: Pass, only: set[str], skip: set[str]) -> Pass:
    if isinstance(p, Pipeline | Fixpoint):
        inner = [_selected(q, only, skip) for q in p.passes if _has(q, only) and q.name not in skip]
        return replace(p, passes=tuple(inner))
    if isinstance(p, RulePass):
        chosen = p.rules if p.name in only and not any(r.name in only for r in p.rules) else None
        kept = tuple(r for r in p.rules if r.name not in skip and (chosen is not None or r.name in only))
        return replace(p, rules=kept)
    return p


def _has(p: Pass, only: set[str]) -> bool:
    return not only.isdisjoint(names_in(p)) or p.name in only


def extended(p: Pass, more: Collection[Pass]) -> Pass:
    """The pipeline with further passes at its end, inside its loop if it is one."""
    if not more:
        return p
    if isinstance(p, Pipeline | Fixpoint):
        return replace(p, passes=(*p.passes, *more))
    return Pipeline(p.name, (p, *more))
