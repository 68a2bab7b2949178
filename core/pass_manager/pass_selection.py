"""Choosing passes and rules by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from ..errors import PassesError
from ..support.suggestions import meant
from .pipeline import Fixpoint, Pass, Pipeline, choosable_rules, leaves, with_rules


class BadUsage(PassesError):
    """A run was asked for in a way that makes no sense, whatever the model."""


class UnknownName(BadUsage):
    """A pass or rule was asked for that does not exist."""


def names_in(p: Pass) -> set[str]:
    """The names of all passes and rules in a pipeline, and of the groups inside it."""
    rules = {r.name for leaf in leaves(p) for r in choosable_rules(leaf)}
    return rules | {inner.name for inner in passes_in(p)}


def passes_in(p: Pass) -> Iterator[Pass]:
    """The passes and groups inside a pipeline, each as often as it stands there; a pass itself if it holds none."""
    if not isinstance(p, Pipeline | Fixpoint):
        yield p
        return
    for q in p.passes:
        if isinstance(q, Pipeline | Fixpoint):
            yield q
        yield from passes_in(q)


def require_names(p: Pass, names: Collection[str]) -> None:
    """Raise UnknownName unless the pipeline holds passes and rules of all these names."""
    known = names_in(p) if names else set[str]()
    for name in names:
        if name not in known:
            near = meant(name, known) or " (see `passes list`; what is in no pipeline is added with --enable)"
            raise UnknownName(f"no pass or rule of the pipeline is named {name}{near}")


def selected(p: Pass, only: Collection[str] = (), skip: Collection[str] = ()) -> Pass:
    """The pipeline with `only` the named passes and rules, or all but those to `skip`. Raises UnknownName."""
    require_names(p, (*only, *skip))
    return _selected(p, set(only) or names_in(p), set(skip))


def without(p: Pass, names: Collection[str]) -> Pass:
    """The pipeline less the named passes; rules of these names stay."""
    if p.name in names:
        return Pipeline(p.name, ())
    if isinstance(p, Pipeline | Fixpoint):
        return replace(p, passes=tuple(without(q, names) for q in p.passes if q.name not in names))
    return p


def _selected(p: Pass, only: set[str], skip: set[str]) -> Pass:
    if isinstance(p, Pipeline | Fixpoint):
        inner = [_selected(q, _wanted(q, only), skip) for q in p.passes if _has(q, only) and q.name not in skip]
        return replace(p, passes=tuple(inner))
    rules = choosable_rules(p)
    chosen = p.name in only and only.isdisjoint(r.name for r in rules)
    return with_rules(p, [r for r in rules if r.name not in skip and (chosen or r.name in only)])


def _wanted(p: Pass, only: set[str]) -> set[str]:
    """`only`, or all of a group that is named itself while nothing in it is."""
    names = names_in(p)
    return names if p.name in only and only.isdisjoint(names - {p.name}) else only


def _has(p: Pass, only: set[str]) -> bool:
    return not only.isdisjoint(names_in(p)) or p.name in only


def changed(p: Pass, change: Callable[[Pass], Pass]) -> Pass:
    """The pipeline with each of its passes as `change` makes it."""
    if isinstance(p, Pipeline | Fixpoint):
        return replace(p, passes=tuple(changed(q, change) for q in p.passes))
    return change(p)
