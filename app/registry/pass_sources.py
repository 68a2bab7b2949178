"""Sources of passes, and lookup of passes and rules by name."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...core.errors import PluginError, UnknownNameError
from ...core.plugins.pass_registry import (
    InstalledPlugins,
    LoadErrors,
    PassEntry,
    PassRegistry,
    PipelineEntry,
    registry_from_file,
    registry_from_plugin,
)
from ...core.plugins.plugin import FINAL, PassPlacement, Plugin, PluginLike, as_pass
from ...core.rewriting.rules import Rule
from ...core.run.pipeline import Pass, Pipeline, RulePass, leaves, nested_passes, selectable_rules, with_rules
from ...core.run.target import Target
from ...core.support.suggestions import MAX_SUGGESTIONS, did_you_mean
from ...passes.pipelines import BUILT_IN, OPTIONAL_PASSES, PASS_STAGES, PIPELINES, TRANSFORMS

DISTRIBUTION = "passwright"
INSTALLED = frozenset({"site-packages", "dist-packages"})
MIN_WORD = 4  # characters of an unknown name that is looked for in equations


def plugin_registries(plugins: Sequence[PluginLike]) -> list[PassRegistry]:
    """A registry for each plugin of the caller, and one for all single rules; a repeated file counts once.

    Raises PluginError.
    """
    rules = tuple(plugin for plugin in plugins if isinstance(plugin, Rule))
    registries = [registry_from_plugin(Plugin(rules), "the caller")] if rules else []
    files: set[Path] = set()
    for plugin in plugins:
        if isinstance(plugin, Rule):
            continue
        if not isinstance(plugin, str | Path):
            plugin = Plugin(targets=(plugin,)) if isinstance(plugin, Target) else plugin  # noqa: PLW2901 - as a plugin
            own = plugin if isinstance(plugin, Plugin) else Plugin((plugin,))
            registries.append(registry_from_plugin(own, "the caller"))
        elif (path := Path(plugin)).resolve() not in files:
            files.add(path.resolve())
            registries.append(registry_from_file(path))
    return registries


def own_label() -> str:
    """The source of built-in passes."""
    return f"{DISTRIBUTION} {version(DISTRIBUTION)}"


def caller_registry(plugins: Iterable[PassRegistry]) -> PassRegistry:
    """The registry of built-in passes and the caller's passes. Raises PluginError for duplicate names."""
    source, passes = own_label(), (*BUILT_IN, *OPTIONAL_PASSES, *map(as_pass, TRANSFORMS))
    placed = {p.name: PassPlacement(p, FINAL) for p in passes if PASS_STAGES.get(p.name) == FINAL}  # after the loop
    registry = PassRegistry(
        {p.name: PassEntry(p, source, placed.get(p.name)) for p in passes},
        {name: PipelineEntry(name, p, source) for name, p in PIPELINES.items()},
    )
    for other in plugins:
        registry.update(other)
    return registry


def full_registry(registry: PassRegistry, installed: InstalledPlugins, broken: LoadErrors) -> PassRegistry:
    """A registry extended by all installed passes and pipelines; load errors and name clashes go to `broken`."""
    installed.load_all()
    broken |= installed.load_errors
    both = PassRegistry(
        dict(registry.passes), dict(registry.pipelines), dict(registry.targets), dict(registry.target_sources)
    )
    for other in installed.registry:
        try:
            both.add(other)
        except PluginError as e:
            broken[other.name] = e
    for name, target in installed.registry.targets.items():
        try:
            both.add_target(target, installed.registry.target_sources[name])
        except PluginError as e:
            broken[name] = e
    return both


class Decompositions(RulePass):
    """The rules of a target, as a pass named like it. Only runs for the target plan with them."""


def all_passes(registry: PassRegistry) -> list[Pass]:
    """The passes of a registry, of its pipelines and of its targets, without built-in passes of pipelines.

    The decompositions of a target are a pass with the target's name.
    """
    targets = registry.targets.values()
    inner = [p for found in registry.pipelines.values() for p in found.passes]
    inner += [leaf for target in targets for p in target.last for leaf in leaves(p)]
    known = {p.name for p in (*BUILT_IN, *OPTIONAL_PASSES)} | registry.passes.keys()
    own = {p.name: p for p in inner if p.name not in known}
    decompositions = [Decompositions(t.name, tuple(t.decompositions)) for t in targets if t.decompositions]
    return [*(found.item for found in registry.passes.values()), *own.values(), *decompositions]


def _candidate_passes(
    name: str, plugins: Sequence[PluginLike], installed: InstalledPlugins, broken: LoadErrors
) -> Iterator[list[Pass]]:
    registry = caller_registry(plugin_registries(plugins))
    yield all_passes(registry)
    from . import adapter_names  # noqa: PLC0415 - seldom needed

    if (other := adapter_names.adapter(name)) is not None:
        yield [other]
    yield all_passes(full_registry(registry, installed, broken))


def _unknown_name_error(name: str, passes: Iterable[Pass]) -> UnknownNameError:
    """An error for an unknown name, with similar names among `passes` and their rules, and passes of such operators."""
    singles = [leaf for p in passes for leaf in (p, *leaves(p))]
    names = [n for leaf in singles for n in (leaf.name, *(r.name for r in selectable_rules(leaf)))]
    word = name.casefold().replace("-", "").replace("_", "")
    counts = Counter({p.name: sum(word in r.equation.casefold() for r in selectable_rules(p)) for p in singles})
    about = [n for n, count in counts.most_common(MAX_SUGGESTIONS) if count and len(word) >= MIN_WORD]
    where = f"rules of {', '.join(about)} are about it; " if about else ""
    return UnknownNameError(
        f"no pass or rule is named {name}{did_you_mean(name, names)} ({where}see `passes list --search {name}`)"
    )


class Subject(Struct, frozen=True):
    """Rules with the passes that run them, and passes that do not consist of our rules.

    `in_pipeline`: a run of the pipeline runs them. `is_group`: they are the passes of a pipeline or group.
    """

    rules: tuple[tuple[Rule, Pass], ...]
    passes: tuple[Pass, ...]
    in_pipeline: bool
    is_group: bool = False

    @property
    def selection(self) -> list[Pass]:
        """The passes, restricted to these rules."""
        chosen: dict[Pass, list[Rule]] = {}
        for rule, p in self.rules:
            chosen.setdefault(p, []).append(rule)
        return [*(with_rules(p, rules) for p, rules in chosen.items()), *self.passes]


def find_subject(name: str, pipeline: Pass, plugins: Sequence[PluginLike] | None = ()) -> Subject:
    """Find the rule, or the pass or group with all its rules, with that name.

    The pipeline is searched first, then built-in passes and `plugins`, adapters, and installed packages, which are
    loaded in that order; if `plugins` is None, only the pipeline. Raises UnknownNameError with similar names, and
    PluginError, also for a broken plugin with that name.
    """
    if found := _subject_in(name, (pipeline, *nested_passes(pipeline)), in_pipeline=True):
        return found
    broken: LoadErrors = {}
    others: Sequence[Pass] = ()
    installed = InstalledPlugins()
    for others in _candidate_passes(name, plugins, installed, broken) if plugins is not None else ():
        if found := _subject_in(name, others, in_pipeline=False):
            installed.use_kernels(installed.sources_of(p.name for p in found.selection))
            return found
    raise broken.get(name) or _unknown_name_error(name, (pipeline, *others))


def _subject_in(name: str, passes: Sequence[Pass], *, in_pipeline: bool) -> Subject | None:
    """Find a subject in `passes`; single passes and rules precede groups."""
    found: list[tuple[Pass, tuple[Any, ...]]] = []
    for p in leaves(Pipeline("", tuple(passes))):
        rules = selectable_rules(p)
        chosen = rules if p.name == name else tuple(r for r in rules if r.name == name)
        if chosen or p.name == name:
            found.append((p, chosen))
    group = None if found else next((p for p in passes if p.name == name), None)
    if group is not None:
        found = [(p, selectable_rules(p)) for p in leaves(group)]
    elif not found:
        return None
    rules = {r.name: (r, p) for p, chosen in found if isinstance(p, RulePass) for r in chosen}
    others = tuple(with_rules(p, chosen) for p, chosen in found if not isinstance(p, RulePass))
    return Subject(tuple(rules.values()), others, in_pipeline, is_group=group is not None)


def package_root(file: Path) -> Path:
    """The folder of a Python file, or of the outermost package that contains it."""
    folder = file.absolute().parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


def modules_beside(file: Path) -> Iterator[Path]:
    """Yield the files of loaded modules in the outermost package of a file, or in its folder."""
    root, folder = package_root(file), file.absolute().parent
    is_package = root != folder
    if is_package:
        folder = root / folder.relative_to(root).parts[0]
    elif folder.name in INSTALLED:
        return  # unrelated modules
    for module in list(sys.modules.values()):
        path = Path(getattr(module, "__file__", None) or "")
        is_near = path.is_relative_to(folder) if is_package else path.parent == folder
        if is_near and path.suffix == ".py" and INSTALLED.isdisjoint(path.relative_to(folder).parts):
            yield path
