"""All passes there are, built in, installed and local, and pipelines composed of them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from pathlib import Path

from ...core.errors import PluginError
from ...core.pipeline import Pass, RulePass, leaves
from ...core.plugins import Broken, Found, add, from_file, installed
from ...core.rules import Rule
from ...core.selection import UnknownName, extended, selected
from ..pipelines import BUILT_IN, OPTIONAL, PIPELINES

Plugin = str | Path | Pass | Rule


BUILT_IN_SOURCE = "passwright"
LOG = logging.getLogger(__name__)


def catalogue(plugins: Sequence[Plugin] = (), broken: Broken | None = None) -> dict[str, Found]:
    """Every pass by name. Raises PluginError for a plugin that cannot be loaded or a name taken twice.

    With `broken`, what is wrong with installed packages goes there instead.
    """
    found = known(plugins)
    for name, other in installed(broken).items():
        try:
            add(found, other.item, other.source)
        except PluginError as e:
            if broken is None:
                raise
            broken[name] = e
    return found


def known(plugins: Sequence[Plugin] = ()) -> dict[str, Found]:
    """The passes that are built in, and those that were given as files, passes or rules."""
    found = {p.name: Found(p, BUILT_IN_SOURCE) for p in (*BUILT_IN, *OPTIONAL)}
    for other in local(plugins).values():
        add(found, other.item, other.source)
    return found


def local(plugins: Sequence[Plugin]) -> dict[str, Found]:
    """The passes that were given as files, passes or rules; a file that is given twice counts once."""
    found: dict[str, Found] = {}
    files: set[Path] = set()
    for plugin in plugins:
        if isinstance(plugin, str | Path):
            path = Path(plugin)
            passes = from_file(path) if path.resolve() not in files else {}
            files.add(path.resolve())
            for other in passes.values():
                add(found, other.item, other.source)
        elif isinstance(plugin, Rule):
            add(found, RulePass(plugin.name.replace("_", "-"), (plugin,)), "the caller")
        else:
            add(found, plugin, "the caller")
    return found


def pipeline_of(
    pipeline: str | Pass,
    plugins: Sequence[Plugin] = (),
    only: Collection[str] = (),
    skip: Collection[str] = (),
    enable: Collection[str] = (),
) -> Pass:
    """The pipeline of that name with the local plugins and what is to be enabled, less what is not wanted.

    Passes of installed packages run only if they are enabled by name. Raises UnknownName.
    """
    if isinstance(pipeline, str):
        if pipeline not in PIPELINES:
            raise UnknownName(f"no pipeline is named {pipeline} (there are {', '.join(PIPELINES)})")
        pipeline = PIPELINES[pipeline]
    taken = {p.name for p in leaves(pipeline)}
    every = known(plugins)
    mine = [name for name, found in every.items() if found.source != BUILT_IN_SOURCE]
    if not every.keys() >= set(enable):
        _add_installed(every, enable)
    more = [every[name].item for name in dict.fromkeys([*mine, *enable]) if name not in taken]
    return selected(extended(pipeline, more), only, skip)


def _add_installed(found: dict[str, Found], names: Collection[str]) -> None:
    """Add the named passes of installed packages. Raises PluginError for one that is broken, or UnknownName."""
    broken: Broken = {}
    others = installed(broken)
    for name in (n for n in names if n not in found):
        if name in broken:
            raise broken.pop(name)
        if name not in others:
            raise UnknownName(f"no pass is named {name} (see `passes list`)")
        add(found, others[name].item, others[name].source)
    for error in broken.values():
        LOG.warning("warning: %s", error)
