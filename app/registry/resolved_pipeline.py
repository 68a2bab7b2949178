"""What a run is to do: a pipeline by name or of one's own, with what is added, set, left out and not supported."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

from ...core.pass_manager.pass_selection import BadUsage, changed, passes_in, selected, without
from ...core.pass_manager.pipeline import Pass, leaves
from ...core.pass_manager.report import Unfit
from ...core.plugins.pass_options import configured
from ...core.plugins.pass_placement import extended
from ...core.plugins.pass_registry import Found
from ...core.plugins.pass_spec import Spec, parse
from ...core.plugins.plugin import Placed, as_pass
from ...passes.pipelines import STAGES
from .name_resolver import Names
from .pass_sources import Given


@dataclass(frozen=True, slots=True)
class Choice:
    """A pipeline, and of those of its passes that are not for every model, where they come from.

    `spec` and `enabled` are how it was asked for, in words that mean the same in any folder; `files` were read for it.
    """

    pipeline: Pass
    limited: Mapping[str, Found]
    spec: str = ""
    enabled: Sequence[Spec] = ()
    files: Sequence[Path] = ()

    def fitting(self, opsets: Mapping[str, int]) -> tuple[Pass, list[Unfit]]:
        """The pipeline for a model that imports these opsets by domain, and what is not in it."""
        there = {self.pipeline.name, *(p.name for p in passes_in(self.pipeline))}
        unfit = [Unfit(name, why) for name, f in self.limited.items() if name in there and (why := _misfit(f, opsets))]
        return without(self.pipeline, [u.pass_name for u in unfit]), unfit


def _misfit(found: Found, opsets: Mapping[str, int]) -> str:
    assert found.opsets is not None
    first, last = found.opsets
    if "" not in opsets:
        return f"{found.source} supports opsets {first} to {last}, the model imports no standard one"
    if first <= opsets[""] <= last:
        return ""
    return f"{found.source} supports opsets {first} to {last}, the model has {opsets['']}"


def choose(
    pipeline: str | Pass,
    plugins: Sequence[Given] = (),
    only: Collection[str] = (),
    skip: Collection[str] = (),
    enable: Collection[str] = (),
) -> Choice:
    """The pipeline that is asked for, with what the caller gave and enabled, less what is not wanted.

    What a caller gives is added, unless the pipeline itself names something that comes from there. Passes of
    installed packages run only where they are named. Raises BadUsage, UnknownName and PluginError.
    """
    for what, several in (("plugins", plugins), ("only", only), ("skip", skip), ("enable", enable)):
        _require_several(what, several)
    names = Names(plugins)
    start = names.pipeline(pipeline) if isinstance(pipeline, str) else as_pass(Placed(pipeline).item)
    specs = _merged(enable)
    more = _added(start, names, list(specs))
    stages = {n: f.placed.stage for n, f in names.used.items() if f.placed is not None and f.placed.stage is not None}
    whole = extended(start, [replace(f.placed or Placed(f.item), item=f.item) for f in more], {**STAGES, **stages})
    whole = _set(whole, specs)
    _require_alike(whole)
    names.warn()
    return Choice(
        selected(whole, only, skip),
        {name: found for name, found in names.used.items() if found.opsets is not None},
        ",".join(str(names.from_anywhere(s)) for s in parse(pipeline)) if isinstance(pipeline, str) else "",
        [s.from_anywhere(Path()) for s in specs.values()],
        names.files,
    )


def _require_several(what: str, given: Any) -> None:
    """Raise BadUsage for one thing where a list is meant: the letters of a name are no names."""
    if not isinstance(given, Collection) or isinstance(given, str):
        raise BadUsage(f"{what} is to be a list, as in {what}=[{given!r}]")


def _merged(enable: Collection[str]) -> dict[str, Spec]:
    """What is to be enabled, by name; a pass may be named again to set further options."""
    specs: dict[str, Spec] = {}
    for spec in (s for text in enable for s in parse(text)):
        before = specs.get(spec.name, spec).options
        for option, text in spec.options.items():
            if before.get(option, text) != text:
                raise BadUsage(f"{spec.name}: option {option} is given twice, as {before[option]} and as {text}")
        specs[spec.name] = Spec(spec.name, {**before, **spec.options})
    return specs


def _added(start: Pass, names: Names, enabled: Sequence[str]) -> list[Found]:
    """What the caller gave or enabled and is not there yet.

    What is enabled and wants a place comes in the order of the packages, so that the caller's does not matter.
    """
    there = {p.name for p in passes_in(start)}
    untouched = [shelf for shelf in names.given if not any(found.name in names.named for found in shelf)]
    own = {f.name: f for shelf in untouched for f in shelf.passes.values() if f.name not in there}
    asked = [names.pass_named(name) for name in enabled if name not in there | own.keys()]
    placed = [f for f in asked if f.placed is not None and not f.placed.is_free]
    free = [f for f in asked if f not in placed]
    return [*own.values(), *sorted(placed, key=names.rank), *free]


def _set(p: Pass, specs: Mapping[str, Spec]) -> Pass:
    """The pipeline with the options of its passes set."""
    groups = {q.name for q in passes_in(p)} - {q.name for q in leaves(p)}
    for spec in specs.values():
        if spec.options and spec.name in groups:
            raise BadUsage(f"{spec}: {spec.name} is a group of passes and has no options; set those of its passes")
    return changed(p, lambda q: configured(q, specs[q.name].options) if q.name in specs else q)


def _require_alike(p: Pass) -> None:
    """Raise BadUsage if two passes of the pipeline have one name, and are not the same."""
    seen: dict[str, Pass] = {}
    for q in passes_in(p):
        other = seen.setdefault(q.name, q)
        if type(other) is not type(q) or (is_dataclass(q) and other != q):
            raise BadUsage(f"{q.name} stands in the pipeline twice, not the same; what --enable sets counts for both")
