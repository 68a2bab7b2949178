"""Finds passes that do not come with passwright: installed ones by entry point, local ones in a .py file."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from .errors import PassesError, PluginError
from .pipeline import Pass, RulePass
from .rules import Rule

GROUP = "passwright.passes"
LOCAL = "passwright_local_"


@dataclass(frozen=True, slots=True)
class Found:
    """A pass and where it came from."""

    item: Pass
    source: str


def installed() -> dict[str, Found]:
    """The passes of installed packages. Raises PluginError for one that cannot be loaded, or a name taken twice."""
    found: dict[str, Found] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        source = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
        for p in _loaded(entry, source):
            add(found, p, source)
    return found


def _loaded(entry: EntryPoint, source: str) -> list[Pass]:
    try:
        thing = entry.load()
    except Exception as e:
        raise PluginError(f"entry point {entry.name} = {entry.value} of {source}: {type(e).__name__}: {e}") from e
    if isinstance(thing, ModuleType):
        return defined_in(thing)
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
    except PassesError as e:
        raise PluginError(f"{path}: {e}") from e
    except Exception as e:
        raise PluginError(f"{path}: {type(e).__name__}: {e}") from e
    found: dict[str, Found] = {}
    for p in defined_in(module):
        add(found, p, str(path))
    if not found:
        raise PluginError(f"{path} defines no pass and no rule")
    return found


def defined_in(module: ModuleType) -> list[Pass]:
    """A module's passes, and its loose rules as one pass with the module's name."""
    things = list(vars(module).values())
    passes = [t for t in things if isinstance(t, Pass) and not isinstance(t, type)]
    taken = {r for p in passes if isinstance(p, RulePass) for r in p.rules}
    loose = tuple(dict.fromkeys(r for r in _own_rules(module, things) if r not in taken))
    if loose:
        stem = module.__name__.removeprefix(LOCAL).rpartition(".")[2]
        passes.append(RulePass(stem.replace("_", "-"), loose))
    return passes


def _own_rules(module: ModuleType, things: list[object]) -> Iterator[Rule]:
    for t in things:
        if isinstance(t, Rule) and t.build.__module__ == module.__name__:
            yield t


def add(found: dict[str, Found], p: Pass, source: str) -> None:
    """Add a pass under its name. Raises PluginError naming both sources if the name is taken."""
    if p.name in found and found[p.name].item is not p:
        raise PluginError(f"two passes are named {p.name}: one from {found[p.name].source}, one from {source}")
    found[p.name] = Found(p, source)
