"""All passes and pipelines there are: built in, installed, and given by the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from ...core.errors import PluginError
from ...core.pass_manager.pass_selection import UnknownNameError
from ...core.pass_manager.pipeline import Pass, leaves, selectable_rules
from ...core.plugins.discovery import InstalledPlugins, LoadErrors, registry_from_file, registry_from_plugin
from ...core.plugins.pass_registry import PassEntry, PassRegistry, PipelineEntry
from ...core.plugins.plugin import Placed, Plugin
from ...core.rewriting.rules import Rule
from ...core.support.suggestions import did_you_mean
from ...passes.pipelines import BUILT_IN, OPTIONAL_PASSES, PIPELINES
from ..adapters import adapter

PluginLike = str | Path | Pass | Rule | Placed | Plugin
"""What a caller may add: a Python file, or a thing of one's own."""
DISTRIBUTION = "passwright"
T = TypeVar("T")


def built_in_registry() -> PassRegistry:
    """What comes with passwright."""
    source = f"{DISTRIBUTION} {version(DISTRIBUTION)}"
    return PassRegistry(
        {p.name: PassEntry(p, source) for p in (*BUILT_IN, *OPTIONAL_PASSES)},
        {name: PipelineEntry(name, p, source) for name, p in PIPELINES.items()},
    )


def plugin_registries(plugins: Sequence[PluginLike]) -> list[PassRegistry]:
    """What the caller gave, each by itself; a file that is given twice counts once. Raises PluginError."""
    shelves: list[PassRegistry] = []
    files: set[Path] = set()
    for plugin in plugins:
        if not isinstance(plugin, str | Path):
            own = plugin if isinstance(plugin, Plugin) else Plugin((plugin,))
            shelves.append(registry_from_plugin(own, "the caller"))
        elif (path := Path(plugin)).resolve() not in files:
            files.add(path.resolve())
            shelves.append(registry_from_file(path))
    return shelves


def caller_registry(plugins: Iterable[PassRegistry]) -> PassRegistry:
    """What is built in, and what the caller gave. Raises PluginError for a name taken twice."""
    shelf = built_in_registry()
    for other in plugins:
        shelf.update(other)
    return shelf


def full_registry(registry: PassRegistry, installed: InstalledPlugins, broken: LoadErrors) -> PassRegistry:
    """Every pass and pipeline there is: those of a shelf, and all that are installed.

    What cannot be loaded, or is named as something on the shelf, goes to `broken`.
    """
    installed.load_all()
    broken |= installed.load_errors
    both = PassRegistry(dict(registry.passes), dict(registry.pipelines))
    for other in installed.registry:
        try:
            both.add(other)
        except PluginError as e:
            broken[other.name] = e
    return both


def search_passes(
    name: str, registry: PassRegistry, find: Callable[[Sequence[Pass]], T | None], extra_passes: Sequence[Pass] = ()
) -> T:
    """What `find` finds first where a rule or pass of that name may be.

    Raises PluginError for what is broken under that name, UnknownNameError with names like it, of `extra_passes` passes
    too.
    """
    broken: LoadErrors = {}
    passes: Sequence[Pass] = ()
    for passes in candidate_passes(name, registry, broken):
        if (found := find(passes)) is not None:
            return found
    if name in broken:
        raise broken[name]
    raise unknown_name_error(name, (*extra_passes, *passes))


def unknown_name_error(name: str, passes: Iterable[Pass]) -> UnknownNameError:
    """That no pass or rule has that name, with those of `passes` that are like it."""
    singles = [leaf for p in passes for leaf in (p, *leaves(p))]
    names = [n for leaf in singles for n in (leaf.name, *(r.name for r in selectable_rules(leaf)))]
    return UnknownNameError(f"no pass or rule is named {name}{did_you_mean(name, names) or ' (see `passes list`)'}")


def candidate_passes(name: str, registry: PassRegistry, broken: LoadErrors) -> Iterator[list[Pass]]:
    """Where a rule or pass of that name may be: on a shelf, in another optimizer, in all that is installed too.

    Nothing is imported before its turn comes. What cannot be loaded goes to `broken`.
    """
    yield [found.item for found in registry.passes.values()]
    if (other := adapter(name)) is not None:
        yield [other]
    yield [found.item for found in full_registry(registry, InstalledPlugins(), broken).passes.values()]
