"""All passes and pipelines there are: built in, installed, and given by the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from ...core.errors import PluginError
from ...core.pass_manager.pass_selection import UnknownName
from ...core.pass_manager.pipeline import Pass, choosable_rules, leaves
from ...core.plugins.discovery import Broken, Installed, file_shelf, unpacked
from ...core.plugins.pass_registry import Found, FoundPipeline, Shelf
from ...core.plugins.plugin import Placed, Plugin
from ...core.rewriting.rules import Rule
from ...core.support.suggestions import meant
from ...passes.pipelines import BUILT_IN, OPTIONAL, PIPELINES
from ..adapters import adapter

Given = str | Path | Pass | Rule | Placed | Plugin
"""What a caller may add: a Python file, or a thing of one's own."""
OWN = "passwright"
T = TypeVar("T")


def built_in() -> Shelf:
    """What comes with passwright."""
    source = f"{OWN} {version(OWN)}"
    return Shelf(
        {p.name: Found(p, source) for p in (*BUILT_IN, *OPTIONAL)},
        {name: FoundPipeline(name, p, source) for name, p in PIPELINES.items()},
    )


def given(plugins: Sequence[Given]) -> list[Shelf]:
    """What the caller gave, each by itself; a file that is given twice counts once. Raises PluginError."""
    shelves: list[Shelf] = []
    files: set[Path] = set()
    for plugin in plugins:
        if not isinstance(plugin, str | Path):
            own = plugin if isinstance(plugin, Plugin) else Plugin((plugin,))
            shelves.append(unpacked(own, "the caller"))
        elif (path := Path(plugin)).resolve() not in files:
            files.add(path.resolve())
            shelves.append(file_shelf(path))
    return shelves


def known(plugins: Iterable[Shelf]) -> Shelf:
    """What is built in, and what the caller gave. Raises PluginError for a name taken twice."""
    shelf = built_in()
    for other in plugins:
        shelf.take(other)
    return shelf


def everything(shelf: Shelf, installed: Installed, broken: Broken) -> Shelf:
    """Every pass and pipeline there is: those of a shelf, and all that are installed.

    What cannot be loaded, or is named as something on the shelf, goes to `broken`.
    """
    installed.load_all()
    broken |= installed.broken
    both = Shelf(dict(shelf.passes), dict(shelf.pipelines))
    for other in installed.shelf:
        try:
            both.add(other)
        except PluginError as e:
            broken[other.name] = e
    return both


def search(name: str, shelf: Shelf, find: Callable[[Sequence[Pass]], T | None], own: Sequence[Pass] = ()) -> T:
    """What `find` finds first where a rule or pass of that name may be.

    Raises PluginError for what is broken under that name, UnknownName with names like it, of `own` passes too.
    """
    broken: Broken = {}
    passes: Sequence[Pass] = ()
    for passes in candidates(name, shelf, broken):
        if (found := find(passes)) is not None:
            return found
    if name in broken:
        raise broken[name]
    raise unknown(name, (*own, *passes))


def unknown(name: str, passes: Iterable[Pass]) -> UnknownName:
    """That no pass or rule has that name, with those of `passes` that are like it."""
    singles = [leaf for p in passes for leaf in (p, *leaves(p))]
    names = [n for leaf in singles for n in (leaf.name, *(r.name for r in choosable_rules(leaf)))]
    return UnknownName(f"no pass or rule is named {name}{meant(name, names) or ' (see `passes list`)'}")


def candidates(name: str, shelf: Shelf, broken: Broken) -> Iterator[list[Pass]]:
    """Where a rule or pass of that name may be: on a shelf, in another optimizer, in all that is installed too.

    Nothing is imported before its turn comes. What cannot be loaded goes to `broken`.
    """
    yield [found.item for found in shelf.passes.values()]
    if (other := adapter(name)) is not None:
        yield [other]
    yield [found.item for found in everything(shelf, Installed(), broken).passes.values()]
