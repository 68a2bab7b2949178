"""What a rule or pass is by its name, in a pipeline or outside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.pass_manager.pass_selection import passes_in
from ...core.pass_manager.pipeline import Pass, Pipeline, RulePass, choosable_rules, leaves, with_rules
from ...core.rewriting.rules import Rule
from .pass_sources import Given, given, known, search


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
    """The rule, or the pass or group with all its rules, of that name.

    Raises UnknownName with names like it, and PluginError.
    """
    if found := _found(name, (pipeline, *passes_in(pipeline)), in_pipeline=True):
        return found
    return search(name, known(given(plugins)), lambda passes: _found(name, passes, in_pipeline=False), (pipeline,))


def _leaves(passes: Sequence[Pass]) -> list[Pass]:
    """Those of all of them, each once."""
    return leaves(Pipeline("", tuple(passes)))


def _found(name: str, passes: Sequence[Pass], *, in_pipeline: bool) -> Subject | None:
    """What has that name in passes: those that do the work and their rules come before groups."""
    if found := _named(name, _leaves(passes)):
        return _subject(found, in_pipeline=in_pipeline)
    group = next((p for p in passes if p.name == name), None)
    if group is None:
        return None
    return replace(_subject([(p, choosable_rules(p)) for p in leaves(group)], in_pipeline=in_pipeline), is_group=True)


def _named(name: str, passes: Sequence[Pass]) -> list[tuple[Pass, tuple[Any, ...]]]:
    """The passes of that name with all their rules, and those with a rule of that name with that."""
    found: list[tuple[Pass, tuple[Any, ...]]] = []
    for p in passes:
        rules = choosable_rules(p)
        chosen = rules if p.name == name else tuple(r for r in rules if r.name == name)
        if chosen or p.name == name:
            found.append((p, chosen))
    return found


def _subject(found: Sequence[tuple[Pass, tuple[Any, ...]]], *, in_pipeline: bool) -> Subject:
    rules = {r.name: (r, p) for p, chosen in found if isinstance(p, RulePass) for r in chosen}
    passes = tuple(with_rules(p, chosen) for p, chosen in found if not isinstance(p, RulePass))
    return Subject(tuple(rules.values()), passes, in_pipeline)
