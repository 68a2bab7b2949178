"""What a run is to do: a pipeline by name or of one's own, with what is added, set, left out and not supported."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

from ...core.pass_manager.pass_selection import UsageError, exclude, map_passes, nested_passes, select
from ...core.pass_manager.pipeline import Pass, leaves
from ...core.pass_manager.report import SkippedPass
from ...core.plugins.pass_placement import insert_passes
from ...core.plugins.pass_registry import PassEntry
from ...core.plugins.pass_spec import PassSpec, parse_specs, with_options
from ...core.plugins.plugin import Placed, as_pass
from ...passes.pipelines import STAGES
from .name_resolver import NameResolver
from .pass_sources import PluginLike


@dataclass(frozen=True, slots=True)
class ResolvedPipeline:
    """A pipeline, and of those of its passes that are not for every model, where they come from.

    `spec` and `enabled_specs` are how it was asked for, in words that mean the same in any folder; `read_files` were
    read for it.
    """

    pipeline: Pass
    opset_limited: Mapping[str, PassEntry]
    spec: str = ""
    enabled_specs: Sequence[PassSpec] = ()
    read_files: Sequence[Path] = ()

    def for_opsets(self, opsets: Mapping[str, int]) -> tuple[Pass, list[SkippedPass]]:
        """The pipeline for a model that imports these opsets by domain, and what is not in it."""
        there = {self.pipeline.name, *(p.name for p in nested_passes(self.pipeline))}
        unfit = [
            SkippedPass(name, why)
            for name, f in self.opset_limited.items()
            if name in there and (why := _opset_mismatch(f, opsets))
        ]
        return exclude(self.pipeline, [u.pass_name for u in unfit]), unfit


def _opset_mismatch(found: PassEntry, opsets: Mapping[str, int]) -> str:
    assert found.opsets is not None
    first, last = found.opsets
    if "" not in opsets:
        return f"{found.source} supports opsets {first} to {last}, the model imports no standard one"
    if first <= opsets[""] <= last:
        return ""
    return f"{found.source} supports opsets {first} to {last}, the model has {opsets['']}"


def resolve_pipeline(
    pipeline: str | Pass,
    plugins: Sequence[PluginLike] = (),
    only: Collection[str] = (),
    skip: Collection[str] = (),
    enable: Collection[str] = (),
) -> ResolvedPipeline:
    """The pipeline that is asked for, with what the caller gave and enabled, less what is not wanted.

    What a caller gives is added, unless the pipeline itself names something that comes from there. Passes of
    installed packages run only where they are named. Raises UsageError, UnknownNameError and PluginError.
    """
    for what, several in (("plugins", plugins), ("only", only), ("skip", skip), ("enable", enable)):
        _require_collection(what, several)
    names = NameResolver(plugins)
    start = names.pipeline_from_text(pipeline) if isinstance(pipeline, str) else as_pass(Placed(pipeline).item)
    specs = _merge_specs(enable)
    more = _added_passes(start, names, list(specs))
    stages = {
        n: f.placed.stage for n, f in names.used_passes.items() if f.placed is not None and f.placed.stage is not None
    }
    whole = insert_passes(start, [replace(f.placed or Placed(f.item), item=f.item) for f in more], {**STAGES, **stages})
    whole = _configure_passes(whole, specs)
    _require_consistent(whole)
    names.warn_about_broken()
    return ResolvedPipeline(
        select(whole, only, skip),
        {name: found for name, found in names.used_passes.items() if found.opsets is not None},
        ",".join(str(names.absolute_spec(s)) for s in parse_specs(pipeline)) if isinstance(pipeline, str) else "",
        [s.with_absolute_paths(Path()) for s in specs.values()],
        names.read_files,
    )


def _require_collection(what: str, given: Any) -> None:
    """Raise UsageError for one thing where a list is meant: the letters of a name are no names."""
    if not isinstance(given, Collection) or isinstance(given, str):
        raise UsageError(f"{what} is to be a list, as in {what}=[{given!r}]")


def _merge_specs(enable: Collection[str]) -> dict[str, PassSpec]:
    """What is to be enabled, by name; a pass may be named again to set further options."""
    specs: dict[str, PassSpec] = {}
    for spec in (s for text in enable for s in parse_specs(text)):
        before = specs.get(spec.name, spec).options
        for option, text in spec.options.items():
            if before.get(option, text) != text:
                raise UsageError(f"{spec.name}: option {option} is given twice, as {before[option]} and as {text}")
        specs[spec.name] = PassSpec(spec.name, {**before, **spec.options})
    return specs


def _added_passes(start: Pass, names: NameResolver, enabled: Sequence[str]) -> list[PassEntry]:
    """What the caller gave or enabled and is not there yet.

    What is enabled and wants a place comes in the order of the packages, so that the caller's does not matter.
    """
    there = {p.name for p in nested_passes(start)}
    untouched = [
        shelf for shelf in names.plugin_registries if not any(found.name in names.looked_up for found in shelf)
    ]
    own = {f.name: f for shelf in untouched for f in shelf.passes.values() if f.name not in there}
    asked = [names.pass_named(name) for name in enabled if name not in there | own.keys()]
    placed = [f for f in asked if f.placed is not None and not f.placed.is_unconstrained]
    free = [f for f in asked if f not in placed]
    return [*own.values(), *sorted(placed, key=names.placement_order), *free]


def _configure_passes(p: Pass, specs: Mapping[str, PassSpec]) -> Pass:
    """The pipeline with the options of its passes set."""
    groups = {q.name for q in nested_passes(p)} - {q.name for q in leaves(p)}
    for spec in specs.values():
        if spec.options and spec.name in groups:
            raise UsageError(f"{spec}: {spec.name} is a group of passes and has no options; set those of its passes")
    return map_passes(p, lambda q: with_options(q, specs[q.name].options) if q.name in specs else q)


def _require_consistent(p: Pass) -> None:
    """Raise UsageError if two passes of the pipeline have one name, and are not the same."""
    seen: dict[str, Pass] = {}
    for q in nested_passes(p):
        other = seen.setdefault(q.name, q)
        if type(other) is not type(q) or (is_dataclass(q) and other != q):
            raise UsageError(f"{q.name} stands in the pipeline twice, not the same; what --enable sets counts for both")
