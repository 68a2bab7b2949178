"""Pipelines of runs, with passes added, configured, and skipped."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import is_dataclass, replace
from math import inf
from pathlib import Path
from typing import cast

from msgspec import Struct, field, structs

from ...core.errors import UsageError
from ...core.plugins.pass_registry import PassEntry
from ...core.plugins.pass_spec import PassSpec, parse_specs, with_options
from ...core.plugins.plugin import PassPlacement, PluginLike, as_pass, insert_passes
from ...core.run.pipeline import (
    Fixpoint,
    Pass,
    Pipeline,
    exclude,
    fallback_of,
    leaves,
    map_passes,
    nested_passes,
    select,
    selectable_names,
)
from ...core.run.target import Target
from ...core.run.transforms import RequestedTransform, RunOpsets, SkippedPass, TransformPass
from ...passes.pipelines import PASS_STAGES, pipeline_for
from ...passes.structure.opset import ConvertOpset, RaiseOpset
from .name_resolver import NameResolver


class ResolvedPipeline(Struct, frozen=True):
    """A pipeline, and the entries of its passes that support only some opsets.

    Attributes:
        transforms: the transforms that the pipeline or the caller names, in order; they are not in the pipeline.
        spec, enabled_specs: the requests as text, with absolute paths and without transforms.
        read_files: the pipeline files.
        fallbacks: the pipelines to fall back to, in order, with the same passes added and selected.
        last_fallback: no passes, except a requested opset conversion.
        target: the engine for the result.
        others: the built-in and given passes and transforms that are in neither.
    """

    pipeline: Pass
    opset_limited: Mapping[str, PassEntry]
    spec: str = ""
    enabled_specs: Sequence[PassSpec] = ()
    read_files: Sequence[Path] = ()
    fallbacks: Sequence[Pass] = ()
    last_fallback: Pass = field(default_factory=lambda: Pipeline("none", ()))
    transforms: Sequence[RequestedTransform] = ()
    target: Target | None = None
    others: Sequence[Pass] = ()

    def for_opsets(self, opsets: Mapping[str, int]) -> tuple[Pass, list[SkippedPass]]:
        """The pipeline for a model with these opsets by domain, and the passes that do not support them.

        If the pipeline converts the model to another opset, passes before and after the conversion must support the
        opsets on both sides, unless the conversion is first.
        """
        names = {self.pipeline.name, *(p.name for p in nested_passes(self.pipeline))}
        present = _opsets_in_run(self.pipeline, opsets.get(""))
        limited = {name: entry for name, entry in self.opset_limited.items() if name in names}
        found = (present.misfit(name, entry.source, entry.opsets) for name, entry in limited.items())
        unfit = [skipped for skipped in found if skipped is not None]
        return exclude(self.pipeline, [u.pass_name for u in unfit]), unfit


def resolve_pipeline(
    pipeline: str | Pass,
    plugin: Sequence[PluginLike] = (),
    only: Collection[str] = (),
    skip: Collection[str] = (),
    enable: Collection[str] = (),
    target: str | Target | None = None,
) -> ResolvedPipeline:
    """Resolve a pipeline, optionally for a target; add plugins and enabled passes; select by `only` and `skip`.

    Passes of a plugin are added unless the pipeline names some of them. Passes of installed packages run only if they
    are named. An enabled ConvertOpset comes first, and passes that raise the opset further are dropped. Raises
    UsageError, UnknownNameError and PluginError.
    """
    for parameter, given in (("plugin", plugin), ("only", only), ("skip", skip), ("enable", enable)):
        if not isinstance(cast("object", given), Collection) or isinstance(given, str):  # not letters
            raise UsageError(f"{parameter} must be a list, such as {parameter}=[{given!r}]")
    names = NameResolver(plugin)
    start = names.pipeline_from_text(pipeline) if isinstance(pipeline, str) else as_pass(PassPlacement(pipeline).item)
    goal = names.target_named(target) if target else None
    start = start if goal is None else _pipeline_for(goal, start)
    specs = _merge_specs(enable)
    more = _added_passes(start, names, list(specs))
    stages = {
        n: f.placed.stage for n, f in names.used_passes.items() if f.placed is not None and f.placed.stage is not None
    }
    added = [
        structs.replace(f.placed or PassPlacement(f.item), item=f.item)
        for f in more
        if not isinstance(f.item, TransformPass)
    ]
    conversions = [a.item for a in added if isinstance(a.item, ConvertOpset)]
    converting = [p.name for p in conversions]
    for name in (a.item.name for a in added if conversions and isinstance(a.item, RaiseOpset)):
        raise UsageError(f"{name} and {converting[0]} (--opset) are mutually exclusive")

    def complete(p: Pass) -> Pass:
        existing = {q.name for q in nested_passes(p)}
        missing = [a for a in added if a.item.name not in {*existing, *converting}]
        whole = insert_passes(p, missing, {**PASS_STAGES, **stages})
        return _configure_passes(_convert_first(whole, conversions) if conversions else whole, specs)

    whole = complete(start)
    highest = goal.opset if goal is not None and goal.opset else inf
    for p in leaves(whole):
        if isinstance(p, ConvertOpset) and p.opset > highest:
            raise UsageError(f"--opset {p.opset}: the target supports at most opset {highest}")
    seen: dict[str, Pass] = {}
    for p in nested_passes(whole):
        other = seen.setdefault(p.name, p)
        if type(other) is not type(p) or (is_dataclass(p) and other != p):
            raise UsageError(f"the pipeline has two different passes named {p.name}; --enable sets options of both")
    enabled = [_configure_passes(f.item, specs) for f in more]
    transforms = {p.name: p for p in (*leaves(whole), *enabled) if isinstance(p, TransformPass)}
    names.warn_about_broken()
    kept = [*(n for n in only if n not in transforms), *converting]
    some = select(whole, kept if only else (), [n for n in skip if n not in transforms])
    chosen = exclude(some, [*transforms]) if kept or not only else Pipeline(whole.name, ())
    running = {p.name for p in nested_passes(chosen)} | transforms.keys()
    texts = parse_specs(pipeline) if isinstance(pipeline, str) else []
    return ResolvedPipeline(
        chosen,
        {name: found for name, found in names.used_passes.items() if found.opsets is not None},
        ",".join(str(names.absolute_spec(s)) for s in texts if s.name not in transforms),
        [s.with_absolute_paths(Path()) for s in specs.values() if s.name not in transforms],
        names.read_files,
        [p for f in _fallbacks(start, names) if (p := _select_known(complete(f), only, skip)) is not None],
        Pipeline("none", tuple(p for p in leaves(whole) if p.name in converting)),
        [_requested_transform(p, names) for p in transforms.values() if p.name not in skip],
        goal,
        [f.item for f in names.registry.passes.values() if f.name not in running],
    )


def _pipeline_for(target: Target, p: Pass) -> Pass:
    """A pipeline for a target. Raises UsageError for a pipeline of another target."""
    others = [q.name for q in (p, *nested_passes(p)) if isinstance(q, Pipeline) and q.runs is not None]
    if others == [target.name] == [p.name] and not target.forms:
        return p
    if others:
        raise UsageError(f"pipeline {others[0]} has a target already: leave out --pipeline or --target {target.name}")
    return pipeline_for(target, p)


def _opsets_in_run(pipeline: Pass, opset: int | None) -> RunOpsets:
    """The opsets of a model with `opset` during a run of a pipeline."""
    found = RunOpsets.of(opset)
    if opset is None:
        return found
    for i, p in enumerate(leaves(pipeline)):
        if isinstance(p, RaiseOpset) and p.highest > opset:
            found = found.then(p.highest, f"raised up to {p.highest}")
        elif isinstance(p, ConvertOpset) and p.opset != opset:
            found = found.then(p.opset, f"converted to {p.opset}", is_first=i == 0)
    return found


def _convert_first(p: Pass, conversions: Sequence[Pass]) -> Pass:
    """The pipeline with opset conversions first, without passes that raise the opset."""
    rest = exclude(p, [q.name for q in leaves(p) if isinstance(q, RaiseOpset)])
    if isinstance(rest, Pipeline):
        return replace(rest, passes=(*conversions, *rest.passes))
    name = rest.name if isinstance(rest, Fixpoint) else ",".join(q.name for q in (*conversions, rest))
    return Pipeline(name, (*conversions, rest), fallback=fallback_of(rest))


def _requested_transform(p: TransformPass, names: NameResolver) -> RequestedTransform:
    entry = names.used_passes.get(p.name)
    return RequestedTransform(p.item) if entry is None else RequestedTransform(p.item, entry.source, entry.opsets)


def _fallbacks(start: Pass, names: NameResolver) -> list[Pass]:
    """The pipelines to fall back to. Raises UsageError for cycles."""
    found: list[Pass] = []
    tried = [start.name]
    while name := fallback_of(last := found[-1] if found else start):
        try:
            found.append(names.pipeline_from_text(name))
        except UsageError as e:
            raise type(e)(f"the fallback of {last.name}: {e}") from e
        tried.append(found[-1].name)
        if tried[-1] in tried[:-1]:
            raise UsageError(f"pipelines that fall back to each other: {' -> '.join(tried)}")
    return found


def _select_known(p: Pass, only: Collection[str], skip: Collection[str]) -> Pass | None:
    """A fallback with the known passes and rules of `only` and `skip`; None if nothing of `only` is left."""
    known = selectable_names(p)
    wanted = [name for name in only if name in known]
    return select(p, wanted, [name for name in skip if name in known]) if wanted or not only else None


def _merge_specs(enable: Collection[str]) -> dict[str, PassSpec]:
    """The enabled passes by name, with the merged options of their occurrences."""
    specs: dict[str, PassSpec] = {}
    for spec in (s for text in enable for s in parse_specs(text)):
        before = specs.get(spec.name, spec).options
        for option, text in spec.options.items():
            if before.get(option, text) != text:
                raise UsageError(f"{spec.name}: option {option} is set twice, to {before[option]} and to {text}")
        specs[spec.name] = PassSpec(spec.name, {**before, **spec.options})
    return specs


def _added_passes(start: Pass, names: NameResolver, enabled: Sequence[str]) -> list[PassEntry]:
    """The passes of plugins and the enabled passes that are not in the pipeline; transforms only if enabled.

    Enabled passes with a placement are in the order of their packages, so that the order of options does not matter.
    """
    existing = {p.name for p in nested_passes(start)}
    unused = [registry for registry in names.plugin_registries if not any(f.name in names.looked_up for f in registry)]
    own = {f.name: f for registry in unused for f in registry.passes.values() if f.name not in existing}
    own = {name: f for name, f in own.items() if name in enabled or not isinstance(f.item, TransformPass)}
    added = [names.pass_named(name) for name in enabled if name not in existing | own.keys()]
    placed = [f for f in added if f.placed is not None and not f.placed.is_unconstrained]
    free = [f for f in added if f not in placed]
    return [*own.values(), *sorted(placed, key=names.placement_order), *free]


def _configure_passes(p: Pass, specs: Mapping[str, PassSpec]) -> Pass:
    """Set the options of the passes in a pipeline."""
    groups = {q.name for q in nested_passes(p)} - {q.name for q in leaves(p)}
    for spec in specs.values():
        if spec.options and spec.name in groups:
            raise UsageError(
                f"{spec}: {spec.name} is a group of passes and has no options; set the options of its passes"
            )
    return map_passes(p, lambda q: with_options(q, specs[q.name].options) if q.name in specs else q)
