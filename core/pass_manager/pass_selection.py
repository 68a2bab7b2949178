"""Selection of passes and rules by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from ..errors import UnknownNameError
from ..support.suggestions import did_you_mean
from .pipeline import Fixpoint, Pass, Pipeline, leaves, selectable_rules, with_rules


def selectable_names(p: Pass) -> set[str]:
    """The names of all passes and rules in a pipeline, and of the groups inside it."""
    rules = {r.name for leaf in leaves(p) for r in selectable_rules(leaf)}
    return rules | {inner.name for inner in nested_passes(p)}


def nested_passes(p: Pass) -> Iterator[Pass]:
    """The passes and groups inside a pipeline, with repetitions; a pass that contains none gives itself."""
    if not isinstance(p, Pipeline | Fixpoint):
        yield p
        return
    for q in p.passes:
        if isinstance(q, Pipeline | Fixpoint):
            yield q
        yield from nested_passes(q)


def require_known_names(p: Pass, names: Collection[str]) -> None:
    """Raise UnknownNameError unless the pipeline has passes or rules of all these names."""
    known = selectable_names(p) if names else set[str]()
    for name in names:
        if name not in known:
            near = (
                did_you_mean(name, known) or " (see `passes list --search`; add passes outside pipelines with --enable)"
            )
            raise UnknownNameError(f"no pass or rule of the pipeline is named {name}{near}")


def select(p: Pass, only: Collection[str] = (), skip: Collection[str] = ()) -> Pass:
    """The pipeline with `only` the named passes and rules, or without those in `skip`. Raises UnknownNameError."""
    if not only and not skip:
        return p  # with the indexes that its passes made in earlier runs
    require_known_names(p, (*only, *skip))
    return _select(p, set(only) or selectable_names(p), set(skip))


def exclude(p: Pass, names: Collection[str]) -> Pass:
    """The pipeline without the named passes; rules of these names stay."""
    if p.name in names:
        return Pipeline(p.name, ())
    if isinstance(p, Pipeline | Fixpoint):
        return replace(p, passes=tuple(exclude(q, names) for q in p.passes if q.name not in names))
    return p


def _select(p: Pass, only: set[str], skip: set[str]) -> Pass:
    if isinstance(p, Pipeline | Fixpoint):
        chosen = [
            q for q in p.passes if q.name not in skip and (q.name in only or not only.isdisjoint(selectable_names(q)))
        ]
        return replace(p, passes=tuple(_select(q, _effective_only(q, only), skip) for q in chosen))
    rules = selectable_rules(p)
    is_whole = p.name in only and only.isdisjoint(r.name for r in rules)
    return with_rules(p, [r for r in rules if r.name not in skip and (is_whole or r.name in only)])


def _effective_only(p: Pass, only: set[str]) -> set[str]:
    """`only`, or all names in a group that is named itself while none of its members is."""
    names = selectable_names(p)
    return names if p.name in only and only.isdisjoint(names - {p.name}) else only


def map_passes(p: Pass, transform: Callable[[Pass], Pass]) -> Pass:
    """The pipeline with `transform` applied to each of its passes."""
    if isinstance(p, Pipeline | Fixpoint):
        return replace(p, passes=tuple(map_passes(q, transform) for q in p.passes))
    return transform(p)
