"""All passes there are, built in, installed and local, and pipelines composed of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from ..core.pipeline import Pass, RulePass, leaves
from ..core.plugins import Found, add, from_file, installed
from ..core.rules import Rule
from ..core.selection import UnknownName, extended, selected
from .pipelines import BUILT_IN, PIPELINES

Plugin = str | Path | Pass | Rule


def catalogue(plugins: Sequence[Plugin] = ()) -> dict[str, Found]:
    """Every pass by name. Raises PluginError for a plugin that cannot be loaded or a name taken twice."""
    found = {p.name: Found(p, "passwright") for p in BUILT_IN}
    for name, other in (*installed().items(), *local(plugins).items()):
        add(found, other.item, other.source)
        del name
    return found


def local(plugins: Sequence[Plugin]) -> dict[str, Found]:
    """The passes that were given as files, passes or rules."""
    found: dict[str, Found] = {}
    for plugin in plugins:
        if isinstance(plugin, str | Path):
            for other in from_file(Path(plugin)).values():
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
    mine = local(plugins)
    taken = {p.name for p in leaves(pipeline)}
    every = catalogue(plugins)
    wanted = dict.fromkeys([*mine, *enable])
    for name in wanted:
        if name not in every:
            raise UnknownName(f"no pass is named {name} (see `passes list`)")
    more = [every[name].item for name in wanted if name not in taken]
    return selected(extended(pipeline, more), only, skip)
