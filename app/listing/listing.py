"""Passes, rules, pipelines, targets and engines as data."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

from msgspec import Struct, to_builtins

from ...core.errors import PluginError, UnknownNameError, UsageError
from ...core.ort.engines import engine_names, engine_source, find_engine
from ...core.plugins.pass_registry import LoadErrors, Opsets, PassEntry, PassRegistry, PipelineEntry
from ...core.plugins.pass_spec import options_of
from ...core.plugins.plugin import PluginLike
from ...core.rewriting.rules import ROUNDING, Rule
from ...core.run.pipeline import Fixpoint, Pass, Pipeline, RulePass, leaves, rules_in
from ...core.run.report import option_of
from ...core.run.target import Support, Target
from ...core.run.transforms import TransformPass
from ...core.support.printable_text import json_text
from ...core.support.suggestions import did_you_mean
from ...passes.decompositions import DECOMPOSITIONS
from ...passes.legalization import function_rules
from ...passes.pipelines import PASS_STAGES
from ...passes.targets import TARGET_NAMES, shipped_target
from ..registry import adapter_names
from ..registry.environment import versions
from ..registry.guarantees import NO_GUARANTEE, recorded_proof
from ..registry.name_resolver import FilePipeline, NameResolver
from ..registry.pass_sources import own_label
from ..report.descriptions import pass_doc

TRANSFORM = "transform"
ANY, NEVER = "any", "never"  # forms of operators


class RuleInfo(Struct, frozen=True):
    """A rule: its pass, equation, contract, pattern operators, and the guarantee that is on record."""

    name: str
    pass_name: str
    equation: str
    contract: str
    doc: str
    critical_values: tuple[float, ...]
    operators: tuple[str, ...]
    guarantee: str = NO_GUARANTEE
    proof: str = ""


class OptionInfo(Struct, frozen=True):
    """An option of a pass, with its default as text."""

    name: str
    type: str
    default: str
    doc: str


class PassInfo(Struct, frozen=True):
    """A pass. `pipelines` are those that contain it; `opsets` are the first and last that it supports (None: any).

    `stage` is `transform` for a transform. `option` is the option of `passes run` that enables it, if there is one.
    """

    name: str
    source: str
    stage: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    opsets: Opsets | None
    pipelines: tuple[str, ...]
    option: str
    doc: str
    options: tuple[OptionInfo, ...]
    rules: tuple[RuleInfo, ...]

    @property
    def summary(self) -> str:
        """One line of description."""
        if len(self.rules) == 1:
            return self.rules[0].equation
        return f"{self.rules[0].equation}; ..." if self.rules else self.doc.partition("\n")[0]


class PipelineInfo(Struct, frozen=True):
    """A pipeline: its passes in order; `repeats`: they are repeated until nothing changes."""

    name: str
    source: str
    passes: tuple[str, ...]
    repeats: bool
    opsets: Opsets | None = None


class TargetInfo(Struct, frozen=True):
    """A target. `list_source` is the source of its list; `others` says which unlisted operators it supports.

    `operators` and `avoided` are operators by descriptions of their forms. `opset` is 0 for the highest opset of the
    installed onnxruntime. `rules` are the target's own decompositions.
    """

    name: str
    source: str
    description: str
    opset: int
    list_source: str
    others: str
    operators: Mapping[str, Sequence[str]]
    avoided: Mapping[str, Sequence[str]]
    rules: tuple[RuleInfo, ...]
    last: tuple[str, ...]


class EngineInfo(Struct, frozen=True):
    """An engine for `--engine`: its precisions and version; if the version is "", the command that installs it."""

    name: str
    source: str
    version: str
    install: str
    precisions: tuple[str, ...]


class Listing(Struct, frozen=True):
    """All passes, pipelines, targets and engines, or the named ones with `rules`; `adapters` and `broken` by name."""

    passes: tuple[PassInfo, ...]
    pipelines: tuple[PipelineInfo, ...]
    targets: tuple[TargetInfo, ...]
    rules: tuple[RuleInfo, ...]
    adapters: Mapping[str, str]
    broken: Mapping[str, str]
    engines: tuple[EngineInfo, ...] = ()

    def to_json(self) -> str:
        """The listing as JSON text."""
        return json_text({"versions": versions(), **to_builtins(self)})


def listing(wanted: Sequence[str] = (), plugins: Sequence[PluginLike] = ()) -> Listing:
    """List all passes, pipelines, targets and engines, or those `wanted`. Raises UnknownNameError and PluginError."""
    names = NameResolver(plugins)
    broken: LoadErrors = {}
    registry = names.full_registry(broken)
    if wanted:
        return _listing_by_name(wanted, registry, names)
    passes = tuple(_pass_info(entry, registry) for entry in registry.passes.values())
    pipelines = tuple(_pipeline_info(entry) for entry in registry.pipelines.values())
    targets = tuple(_target_info(target, source) for target, source in _targets(registry).values())
    broken_texts = {name: str(e) for name, e in broken.items()}
    engines = [*_engines(broken_texts)]
    return Listing(passes, pipelines, targets, (), adapter_names.available(), broken_texts, tuple(engines))


def _engines(broken: dict[str, str]) -> Iterator[EngineInfo]:
    """Yield the built-in and plugins' engines; add engines that cannot be loaded to `broken`."""
    for name in engine_names():
        source = engine_source(name)
        try:
            engine = find_engine(name)
        except PluginError as e:
            broken[name] = str(e)
            continue
        try:
            version, install = engine.installed_version(), ""
        except PluginError as e:
            broken[name] = str(e)
            continue
        except UsageError:
            version, install = "", engine.install
        yield EngineInfo(name, source or own_label(), version, install, engine.precisions)


def listing_by_operator(operator: str, plugins: Sequence[PluginLike] = ()) -> Listing:
    """List the rules whose patterns contain `operator`, and their passes. Raises UnknownNameError and PluginError."""
    everything = listing((), plugins)
    rules = tuple(dict.fromkeys(r for p in everything.passes for r in p.rules if operator in r.operators))
    if not rules:
        known = {t for p in everything.passes for r in p.rules for t in r.operators}
        raise UnknownNameError(f"no pattern has the operator {operator}{did_you_mean(operator, known)}")
    holding = {r.pass_name for r in rules}
    passes = tuple(p for p in everything.passes if any(r.pass_name in holding for r in p.rules))
    return Listing(passes, (), (), rules, {}, everything.broken)


def listing_by_search(text: str, plugins: Sequence[PluginLike] = ()) -> Listing:
    """List the passes, rules and targets with all words of `text` in names, equations, descriptions or operators.

    Case is ignored, and `layernorm` matches LayerNormalization, layer-norm and layer_norm. Raises UnknownNameError if
    nothing matches, and PluginError.
    """
    everything = listing((), plugins)
    words = [word for word in re.split(r"[-_\s]+", text.casefold()) if word]

    def matches(*texts: str) -> bool:
        searched = " ".join(texts).casefold().replace("-", "").replace("_", "")
        return all(word in searched for word in words)

    passes = tuple(p for p in everything.passes if matches(p.name, p.doc))
    rules = tuple(
        r
        for p in everything.passes
        for r in p.rules
        if matches(p.name, r.name, r.equation, r.doc, " ".join(r.operators))
    )
    targets = tuple(t for t in everything.targets if matches(t.name, t.description, t.list_source))
    if not words or not (passes or rules or targets):
        raise UnknownNameError(f"no pass or rule has {text!r} in its name, equation, description or operators")
    return Listing(passes, (), targets, tuple(dict.fromkeys(rules)), {}, everything.broken)


def _listing_by_name(wanted: Sequence[str], registry: PassRegistry, names: NameResolver) -> Listing:
    known = {r.name: r for r in _rule_infos(RulePass("legalize", (*DECOMPOSITIONS, *function_rules())))}
    known |= {r.name: r for target, _ in _targets(registry).values() for r in _decompositions(target)}
    known |= {r.name: r for entry in registry.passes.values() for p in entry.passes for r in _rule_infos(p)}
    passes, pipelines, targets, rules = list[PassInfo](), list[PipelineInfo](), list[TargetInfo](), list[RuleInfo]()
    for name in dict.fromkeys(wanted):
        if (target := names.find_target(name)) is not None:
            targets.append(_target_info(target, _targets(registry)[name][1] if name in _targets(registry) else name))
            if name.endswith(".toml"):
                continue
        if name in known and name not in registry:
            rules.append(known[name])
            continue
        try:
            found = names.lookup(name)
        except UnknownNameError as e:
            if near := did_you_mean(name, known):
                raise UnknownNameError(f"no rule is named {name}{near}") from e
            raise
        if isinstance(found, PassEntry):
            passes.append(_pass_info(found, registry))
        else:
            pipelines.append(_pipeline_info(found))
    return Listing(tuple(passes), tuple(pipelines), tuple(targets), tuple(rules), {}, {})


def _targets(registry: PassRegistry) -> Mapping[str, tuple[Target, str]]:
    """All targets by name with their sources: the built-in targets and the targets of a registry."""
    shipped = {name: (shipped_target(name), own_label()) for name in TARGET_NAMES}
    return shipped | {name: (t, registry.target_sources[name]) for name, t in registry.targets.items()}


def _target_info(target: Target, source: str) -> TargetInfo:
    """A target, with its operators grouped by the description of their forms."""
    others = target.others if isinstance(target.others, str) else "function"
    return TargetInfo(
        target.name,
        source,
        target.description,
        target.opset,
        target.source,
        others,
        _by_words(target.forms),
        _by_words({name: (form,) for name, form in target.avoided.items()}),
        _decompositions(target),
        tuple(p.name for p in target.last),
    )


def _decompositions(target: Target) -> tuple[RuleInfo, ...]:
    return tuple(_rule_infos(RulePass(target.name, tuple(target.decompositions))))


def _by_words(forms: Mapping[str, Sequence[Support]]) -> dict[str, list[str]]:
    """The operators by descriptions of their forms, in list order."""
    found = defaultdict[str, list[str]](list)
    for name, own in forms.items():
        found[" or ".join(filter(None, map(_form_words, own))) or ANY].append(name)
    return dict(found)


def _form_words(form: Support) -> str:
    """The description of an operator's form; "" for any form."""
    if form.last is not None and form.last < form.first:
        return NEVER
    said = [f"opset {form.first} to {form.last}"] if form.last is not None else []
    said += [f"opset {form.first} and later"] if form.last is None and form.first > 1 else []
    said += [*_facts_in_words("type", form.dtypes), *_facts_in_words("rank", form.ranks)]
    said += [f"{name} {_alternatives(values)}" for name, values in form.attributes.items()]
    said += [f"{name} constant" for name in form.constant] + [f"without {name}" for name in form.omitted]
    said += [f"outputs up to {form.outputs}"] if form.outputs is not None else []
    said += [f"if {getattr(form.condition, '__name__', 'a condition holds')}"] if form.condition is not None else []
    return ", ".join(said)


def _facts_in_words(what: str, facts: Collection[object] | Mapping[str, Collection[object]]) -> Iterator[str]:
    """Yield descriptions of the types, or the ranks, of the first input, or of inputs by name."""
    if isinstance(facts, Mapping):
        by_input = cast("Mapping[str, Collection[object]]", facts)
        yield from (f"{what} of {name} {_alternatives(values)}" for name, values in by_input.items())
    elif facts:
        yield f"{what} {_alternatives(facts)}"


def _alternatives(values: Collection[object]) -> str:
    return "|".join(map(str, values))


def _pass_info(entry: PassEntry, registry: PassRegistry) -> PassInfo:
    p, placed = entry.item, entry.placed
    stage = (
        TRANSFORM if isinstance(p, TransformPass) else placed.stage if placed is not None else PASS_STAGES.get(p.name)
    )
    pipelines = (f.name for f in registry.pipelines.values() if any(q.name == p.name for q in f.passes))
    return PassInfo(
        p.name,
        entry.source,
        stage or "",
        tuple(placed.before) if placed is not None else (),
        tuple(placed.after) if placed is not None else (),
        entry.opsets,
        tuple(pipelines),
        option_of(p),
        pass_doc(p),
        tuple(OptionInfo(o.name, o.type, o.value, o.doc) for o in options_of(p)),
        tuple(r for q in leaves(p) for r in _rule_infos(q)),
    )


def _rule_infos(p: Pass) -> Iterator[RuleInfo]:
    """The rules of a single pass; rules of other tools count as rounding, and have no more data."""
    for r in rules_in(p):
        if isinstance(r, Rule):
            doc = inspect.getdoc(r.build) or ""
            operators = tuple(dict.fromkeys(t for p in r.patterns for t in p.operators()))
            proof = recorded_proof(r)
            yield RuleInfo(
                r.name,
                p.name,
                r.equation,
                str(r.contract),
                doc,
                r.critical_values,
                operators,
                proof.guarantee if proof is not None else NO_GUARANTEE,
                proof.text if proof is not None else "",
            )
        else:
            yield RuleInfo(r.name, p.name, "", str(ROUNDING), "", (), ())


def _pipeline_info(found: PipelineEntry | FilePipeline) -> PipelineInfo:
    if isinstance(found, FilePipeline):
        return PipelineInfo(found.name, str(found.path), tuple(map(str, found.specs)), found.repeat)
    content = found.content
    inner = content.passes if isinstance(content, Pipeline | Fixpoint) else (content,)
    names = tuple(q if isinstance(q, str) else q.name for q in inner)
    return PipelineInfo(found.name, found.source, names, isinstance(content, Fixpoint), found.opsets)
