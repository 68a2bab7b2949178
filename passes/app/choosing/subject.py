"""What a rule or pass is by its name, in a pipeline or outside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....core.pipeline import Pass, RulePass, choosable_rules, leaves, with_rules
from ....core.plugins.discovery import Broken
from ....core.rules import Rule
from ....core.selection import UnknownName, passes_in
from ....core.suggestions import meant
from .catalogue import Given, catalogue


@dataclass(frozen=True, slots=True)
class Subject:
    """Rules, each with the pass that runs it, and passes that are not made of our rules, with what is meant of theirs.

    `in_pipeline`: whether a run of the pipeline runs them. `is_group`: whether they are the passes of a pipeline, or
    of a group in one.
    """

    rules: tuple[tuple[Rule, Pass], ...]
    passes: tuple[Pass, ...]
    in_pipeline: bool
    is_group: bool = False


def subject_of(name: str, pipeline: Pass, plugins: Sequence[Given] = ()) -> Subject:
    """The rule, or the pass or group with all its rules, of that name: of the pipeline, else of all that there are.

    Raises UnknownName with names like it.
    """
    mine = leaves(pipeline)
    if found := _named(name, mine):
        return _subject(found, in_pipeline=True)
    if group := next((p for p in (pipeline, *passes_in(pipeline)) if p.name == name), None):
        return replace(_subject([(p, choosable_rules(p)) for p in leaves(group)], in_pipeline=True), is_group=True)
    broken: Broken = {}
    every = [leaf for f in catalogue(plugins, broken).values() for leaf in leaves(f.item)]
    if found := _named(name, every):
        return _subject(found, in_pipeline=False)
    if name in broken:
        raise broken[name]
    names = [n for leaf in (*mine, *every) for n in _names(leaf)]
    raise UnknownName(f"no pass or rule is named {name}{meant(name, names) or ' (see `passes list`)'}")


def _named(name: str, passes: Sequence[Pass]) -> list[tuple[Pass, tuple[Any, ...]]]:
    """The passes of that name with all their rules, and those with a rule of that name with that."""
    found: list[tuple[Pass, tuple[Any, ...]]] = []
    for p in passes:
        rules = choosable_rules(p)
        chosen = rules if p.name == name else tuple(r for r in rules if r.name == name)
        if chosen or p.name == name:
            found.append((p, chosen))
    return found


def _names(p: Pass) -> list[str]:
    return [p.name, *(r.name for r in choosable_rules(p))]


def _subject(found: Sequence[tuple[Pass, tuple[Any, ...]]], *, in_pipeline: bool) -> Subject:
    rules = {r.name: (r, p) for p, chosen in found if isinstance(p, RulePass) for r in chosen}
    passes = tuple(with_rules(p, chosen) for p, chosen in found if not isinstance(p, RulePass))
    return Subject(tuple(rules.values()), passes, in_pipeline)
