"""What a rule or pass is by its name, in a pipeline or outside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.pass_manager.pass_selection import nested_passes
from ...core.pass_manager.pipeline import Pass, Pipeline, RulePass, leaves, selectable_rules, with_rules
from ...core.rewriting.rules import Rule
from .pass_sources import PluginLike, caller_registry, plugin_registries, search_passes


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


def find_subject(name: str, pipeline: Pass, plugins: Sequence[PluginLike] = ()) -> Subject:
    """The rule, or the pass or group with all its rules, of that name.

    Raises UnknownNameError with names like it, and PluginError.
    """
    if found := _subject_in(name, (pipeline, *nested_passes(pipeline)), in_pipeline=True):
        return found
    return search_passes(
        name,
        caller_registry(plugin_registries(plugins)),
        lambda passes: _subject_in(name, passes, in_pipeline=False),
        (pipeline,),
    )


def _leaf_passes(passes: Sequence[Pass]) -> list[Pass]:
    """Those of all of them, each once."""
    return leaves(Pipeline("", tuple(passes)))


def _subject_in(name: str, passes: Sequence[Pass], *, in_pipeline: bool) -> Subject | None:
    """What has that name in passes: those that do the work and their rules come before groups."""
    if found := _passes_named(name, _leaf_passes(passes)):
        return _new_subject(found, in_pipeline=in_pipeline)
    group = next((p for p in passes if p.name == name), None)
    if group is None:
        return None
    return replace(
        _new_subject([(p, selectable_rules(p)) for p in leaves(group)], in_pipeline=in_pipeline), is_group=True
    )


def _passes_named(name: str, passes: Sequence[Pass]) -> list[tuple[Pass, tuple[Any, ...]]]:
    """The passes of that name with all their rules, and those with a rule of that name with that."""
    found: list[tuple[Pass, tuple[Any, ...]]] = []
    for p in passes:
        rules = selectable_rules(p)
        chosen = rules if p.name == name else tuple(r for r in rules if r.name == name)
        if chosen or p.name == name:
            found.append((p, chosen))
    return found


def _new_subject(found: Sequence[tuple[Pass, tuple[Any, ...]]], *, in_pipeline: bool) -> Subject:
    rules = {r.name: (r, p) for p, chosen in found if isinstance(p, RulePass) for r in chosen}
    passes = tuple(with_rules(p, chosen) for p, chosen in found if not isinstance(p, RulePass))
    return Subject(tuple(rules.values()), passes, in_pipeline)
