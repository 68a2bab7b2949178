"""Finds passes that do not come with passwright: installed ones by entry point, local ones in a .py file."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from .errors import PluginError, told
from .pipeline import Pass, RulePass, leaves
from .rules import Rule

GROUP = "passwright.passes"
LOCAL = "passwright_local_"
Broken = dict[str, PluginError]
"""What is wrong with installed packages, by the name of the entry point or pass."""


@dataclass(frozen=True, slots=True)
class Found:
    """A pass and where it came from."""

    item: Pass
    source: str


def installed(broken: Broken | None = None) -> dict[str, Found]:
    """The passes of installed packages.

    What is wrong with them goes to `broken`; without that, the first PluginError is raised.
    """
    found: dict[str, Found] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        source = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
        name = entry.name
        try:
            for p in _loaded(entry, source):
                name = p.name
                add(found, p, source)
        except PluginError as e:
            if broken is None:
                raise
            broken[name] = e
    return found


def _loaded(entry: EntryPoint, source: str) -> list[Pass]:
    try:
        thing = entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as e:
        raise PluginError(f"entry point {entry.name} = {entry.value} of {source}: {told(e)}") from e
    if isinstance(thing, ModuleType):
        return defined_in(thing, source)
    if isinstance(thing, Rule):
        return [RulePass(entry.name, (thing,))]
    if not isinstance(thing, Pass) or isinstance(thing, type):
        raise PluginError(f"entry point {entry.name} of {source} is no pass, rule or module: {thing!r}")
    return [thing]


def from_file(path: Path) -> dict[str, Found]:
    """The passes of one Python file; loose rules become a pass named after it. Raises PluginError."""
    if not path.is_file() or path.suffix != ".py":
        raise PluginError(f"{path} is not a Python file")
    name = LOCAL + path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as e:
        raise PluginError(f"{path}: {told(e)}") from e
    found: dict[str, Found] = {}
    for p in defined_in(module, str(path)):
        add(found, p, str(path))
    if not found:
        raise PluginError(f"{path} defines no pass and no rule")
    return found


def defined_in(module: ModuleType, source: str) -> list[Pass]:
    """A module's passes, and its loose rules as one pass with the module's name. Raises PluginError if it is taken."""
    things = list(vars(module).values())
    passes = [t for t in things if isinstance(t, Pass) and not isinstance(t, type)]
    taken = {r for p in passes for r in rules_of(p)}
    loose = tuple(dict.fromkeys(r for r in _own_rules(module, things) if r not in taken))
    name = module.__name__.removeprefix(LOCAL).rpartition(".")[2].replace("_", "-")
    if loose and any(p.name == name for p in passes):
        rules = ", ".join(r.name for r in loose)
        raise PluginError(
            f"{source}: {rules} would form a pass named {name} after the module, which has a pass of that name; "
            "rename the pass or the module, or put the rules into a pass"
        )
    return [*passes, RulePass(name, loose)] if loose else passes


def rules_of(p: Pass) -> list[Rule]:
    """The rules of a pass and of those inside it."""
    return [r for leaf in leaves(p) if isinstance(leaf, RulePass) for r in leaf.rules]


def _own_rules(module: ModuleType, things: list[object]) -> Iterator[Rule]:
    for t in things:
        if isinstance(t, Rule) and t.build.__module__ == module.__name__:
            yield t


def add(found: dict[str, Found], p: Pass, source: str) -> None:
    """Add a pass under its name. Raises PluginError naming both sources if its name, or that of a rule, is taken."""
    for other in found.values():
        mine, theirs = ({q.name: q for q in (item, *leaves(item))} for item in (p, other.item))
        for shared in mine.keys() & theirs.keys():
            if mine[shared] != theirs[shared]:
                raise PluginError(f"two passes are named {shared}: one from {other.source}, one from {source}")
    mine = {r.name: r for r in rules_of(p)}
    for other in found.values():
        for r in rules_of(other.item):
            if r.name in mine and mine[r.name] != r:
                raise PluginError(f"two rules are named {r.name}: one from {other.source}, one from {source}")
    found.setdefault(p.name, Found(p, source))
