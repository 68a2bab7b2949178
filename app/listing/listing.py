"""What there is to choose from, as data."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ...core.pass_manager.pass_selection import UnknownNameError
from ...core.pass_manager.pipeline import Fixpoint, Pass, Pipeline, RulePass, leaves, rules_in
from ...core.plugins.discovery import LoadErrors
from ...core.plugins.pass_registry import Opsets, PassEntry, PassRegistry, PipelineEntry
from ...core.plugins.pass_spec import options_of
from ...core.rewriting.rules import ROUNDING, Rule
from ...core.support.suggestions import did_you_mean
from ...passes.pipelines import STAGES
from .. import adapters
from ..environment import versions
from ..registry.name_resolver import FilePipeline, NameResolver
from ..registry.pass_sources import PluginLike


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """A rule: the pass it is in, its equation, its contract, and the operators of its pattern."""

    name: str
    pass_name: str
    equation: str
    contract: str
    doc: str
    fragile: tuple[float, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OptionInfo:
    """An option of a pass, its value as it is written if nobody sets it."""

    name: str
    type: str
    default: str
    doc: str


@dataclass(frozen=True, slots=True)
class PassInfo:
    """A pass. `pipelines` are the built-in ones that it runs in; `opsets` the first and last it is for (None: any)."""

    name: str
    source: str
    stage: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    opsets: Opsets | None
    pipelines: tuple[str, ...]
    doc: str
    options: tuple[OptionInfo, ...]
    rules: tuple[RuleInfo, ...]

    @property
    def summary(self) -> str:
        """One line that says what it does."""
        if len(self.rules) == 1:
            return self.rules[0].equation
        return f"{self.rules[0].equation}; ..." if self.rules else self.doc.partition("\n")[0]


@dataclass(frozen=True, slots=True)
class PipelineInfo:
    """A pipeline: what runs in it, in order, once or again and again."""

    name: str
    source: str
    passes: tuple[str, ...]
    repeats: bool
    opsets: Opsets | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """What there is, or what was asked for by name; `rules` are those that were. `adapters` and `broken`: by name."""

    passes: tuple[PassInfo, ...]
    pipelines: tuple[PipelineInfo, ...]
    rules: tuple[RuleInfo, ...]
    adapters: Mapping[str, str]
    broken: Mapping[str, str]

    def to_json(self) -> str:
        """The whole of it as JSON text."""
        return json.dumps({"versions": versions(), **asdict(self)}, indent=1, allow_nan=False)


def listing(wanted: Sequence[str] = (), plugins: Sequence[PluginLike] = ()) -> Listing:
    """What there is, or what has the names that are wanted. Raises UnknownNameError and PluginError."""
    names = NameResolver(plugins)
    broken: LoadErrors = {}
    shelf = names.full_registry(broken)
    if wanted:
        return _listing_by_name(wanted, shelf, names)
    return Listing(
        tuple(_pass_info(f, shelf) for f in shelf.passes.values()),
        tuple(_pipeline_info(f) for f in shelf.pipelines.values()),
        (),
        adapters.available(),
        {name: str(e) for name, e in broken.items()},
    )


def listing_by_operator(operator: str, plugins: Sequence[PluginLike] = ()) -> Listing:
    """The rules whose patterns have `operator`, and their passes. Raises UnknownNameError and PluginError."""
    broken: LoadErrors = {}
    registry = NameResolver(plugins).full_registry(broken)
    passes = [_pass_info(entry, registry) for entry in registry.passes.values()]
    rules = tuple(dict.fromkeys(r for p in passes for r in p.rules if operator in r.operators))
    if not rules:
        known = {t for p in passes for r in p.rules for t in r.operators}
        raise UnknownNameError(f"no pattern has the operator {operator}{did_you_mean(operator, known)}")
    holding = {r.pass_name for r in rules}
    found = tuple(p for p in passes if any(r.pass_name in holding for r in p.rules))
    return Listing(found, (), rules, {}, {name: str(e) for name, e in broken.items()})


def _listing_by_name(wanted: Sequence[str], registry: PassRegistry, names: NameResolver) -> Listing:
    rules = {r.name: r for f in registry.passes.values() for p in f.passes for r in _rule_infos(p)}
    facts: list[PassInfo | PipelineInfo | RuleInfo] = []
    for name in dict.fromkeys(wanted):
        if name in rules and name not in registry:
            facts.append(rules[name])
            continue
        try:
            found = names.lookup(name)
        except UnknownNameError as e:
            if near := did_you_mean(name, rules):
                raise UnknownNameError(f"no rule is named {name}{near}") from e
            raise
        facts.append(_pass_info(found, registry) if isinstance(found, PassEntry) else _pipeline_info(found))
    return Listing(
        tuple(f for f in facts if isinstance(f, PassInfo)),
        tuple(f for f in facts if isinstance(f, PipelineInfo)),
        tuple(f for f in facts if isinstance(f, RuleInfo)),
        {},
        {},
    )


def _pass_info(found: PassEntry, registry: PassRegistry) -> PassInfo:
    p, placed = found.item, found.placed
    stage = placed.stage if placed is not None else STAGES.get(p.name)
    return PassInfo(
        p.name,
        found.source,
        stage or "",
        tuple(placed.before) if placed is not None else (),
        tuple(placed.after) if placed is not None else (),
        found.opsets,
        tuple(f.name for f in registry.pipelines.values() if any(q.name == p.name for q in f.passes)),
        pass_doc(p),
        tuple(OptionInfo(o.name, o.type, o.value, o.doc) for o in options_of(p)),
        tuple(r for q in leaves(p) for r in _rule_infos(q)),
    )


def pass_doc(p: Pass) -> str:
    """What a pass says of itself; rules speak for theirs."""
    if isinstance(p, Pipeline | Fixpoint | RulePass):
        return "" if isinstance(p, RulePass) else ", ".join(q.name for q in p.passes)
    doc = inspect.getdoc(type(p)) or ""
    return "" if doc.startswith(f"{type(p).__name__}(") else doc  # what a dataclass makes up is its signature


def _rule_infos(p: Pass) -> list[RuleInfo]:
    """The rules of a single pass; those of other tools count as rounding, and say no more."""
    return [
        RuleInfo(
            r.name,
            p.name,
            r.equation,
            str(r.contract),
            inspect.getdoc(r.build) or "",
            r.fragile,
            tuple(dict.fromkeys(t for p in r.patterns for t in p.operators())),
        )
        if isinstance(r, Rule)
        else RuleInfo(r.name, p.name, "", str(ROUNDING), "", (), ())
        for r in rules_in(p)
    ]


def _pipeline_info(found: PipelineEntry | FilePipeline) -> PipelineInfo:
    if isinstance(found, tuple):
        file, name = found
        written = file.pipelines[name]
        return PipelineInfo(name, str(file.path), tuple(map(str, written.specs)), written.repeat)
    content = found.content
    if isinstance(content, str):
        return PipelineInfo(found.name, found.source, (content,), repeats=False, opsets=found.opsets)
    inner = content.passes if isinstance(content, Pipeline | Fixpoint) else (content,)
    repeats = isinstance(content, Fixpoint)
    return PipelineInfo(found.name, found.source, tuple(q.name for q in inner), repeats, found.opsets)
