"""What there is to choose from, as data."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ...core.pass_manager.pass_selection import UnknownName
from ...core.pass_manager.pipeline import Fixpoint, Pass, Pipeline, RulePass, leaves, rules_in
from ...core.plugins.discovery import Broken
from ...core.plugins.pass_options import options_of
from ...core.plugins.pass_registry import Found, FoundPipeline, Opsets, Shelf
from ...core.rewriting.rules import ROUNDING, Rule
from ...core.support.suggestions import meant
from ...passes.pipelines import STAGES
from .. import adapters
from ..environment import versions
from ..registry.name_resolver import InFile, Names
from ..registry.pass_sources import Given


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """A rule: the pass it is in, what it makes of what, and what it promises."""

    name: str
    pass_name: str
    equation: str
    contract: str
    doc: str
    fragile: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class OptionFacts:
    """An option of a pass, its value as it is written if nobody sets it."""

    name: str
    type: str
    default: str
    doc: str


@dataclass(frozen=True, slots=True)
class PassFacts:
    """A pass. `pipelines` are the built-in ones that it runs in; `opsets` the first and last it is for (None: any)."""

    name: str
    source: str
    stage: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    opsets: Opsets | None
    pipelines: tuple[str, ...]
    doc: str
    options: tuple[OptionFacts, ...]
    rules: tuple[RuleFacts, ...]

    @property
    def summary(self) -> str:
        """One line that says what it does."""
        if len(self.rules) == 1:
            return self.rules[0].equation
        return f"{self.rules[0].equation}; ..." if self.rules else self.doc.partition("\n")[0]


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """A pipeline: what runs in it, in order, once or again and again."""

    name: str
    source: str
    passes: tuple[str, ...]
    repeats: bool
    opsets: Opsets | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """What there is, or what was asked for by name; `rules` are those that were. `adapters` and `broken`: by name."""

    passes: tuple[PassFacts, ...]
    pipelines: tuple[PipelineFacts, ...]
    rules: tuple[RuleFacts, ...]
    adapters: Mapping[str, str]
    broken: Mapping[str, str]

    def to_json(self) -> str:
        """The whole of it as JSON text."""
        return json.dumps({"versions": versions(), **asdict(self)}, indent=1, allow_nan=False)


def listing(wanted: Sequence[str] = (), plugins: Sequence[Given] = ()) -> Listing:
    """What there is, or what has the names that are wanted. Raises UnknownName and PluginError."""
    names = Names(plugins)
    broken: Broken = {}
    shelf = names.everything(broken)
    if wanted:
        return _wanted(wanted, shelf, names)
    return Listing(
        tuple(_pass(f, shelf) for f in shelf.passes.values()),
        tuple(_pipeline(f) for f in shelf.pipelines.values()),
        (),
        adapters.available(),
        {name: str(e) for name, e in broken.items()},
    )


def _wanted(wanted: Sequence[str], shelf: Shelf, names: Names) -> Listing:
    rules = {r.name: r for f in shelf.passes.values() for p in f.passes for r in _rules(p)}
    facts: list[PassFacts | PipelineFacts | RuleFacts] = []
    for name in dict.fromkeys(wanted):
        if name in rules and name not in shelf:
            facts.append(rules[name])
            continue
        try:
            found = names.find(name)
        except UnknownName as e:
            if near := meant(name, rules):
                raise UnknownName(f"no rule is named {name}{near}") from e
            raise
        facts.append(_pass(found, shelf) if isinstance(found, Found) else _pipeline(found))
    return Listing(
        tuple(f for f in facts if isinstance(f, PassFacts)),
        tuple(f for f in facts if isinstance(f, PipelineFacts)),
        tuple(f for f in facts if isinstance(f, RuleFacts)),
        {},
        {},
    )


def _pass(found: Found, shelf: Shelf) -> PassFacts:
    p, placed = found.item, found.placed
    stage = placed.stage if placed is not None else STAGES.get(p.name)
    return PassFacts(
        p.name,
        found.source,
        stage or "",
        tuple(placed.before) if placed is not None else (),
        tuple(placed.after) if placed is not None else (),
        found.opsets,
        tuple(f.name for f in shelf.pipelines.values() if any(q.name == p.name for q in f.passes)),
        doc_of(p),
        tuple(OptionFacts(o.name, o.type, o.value, o.doc) for o in options_of(p)),
        tuple(r for q in leaves(p) for r in _rules(q)),
    )


def doc_of(p: Pass) -> str:
    """What a pass says of itself; rules speak for theirs."""
    if isinstance(p, Pipeline | Fixpoint | RulePass):
        return "" if isinstance(p, RulePass) else ", ".join(q.name for q in p.passes)
    doc = inspect.getdoc(type(p)) or ""
    return "" if doc.startswith(f"{type(p).__name__}(") else doc  # what a dataclass makes up is its signature


def _rules(p: Pass) -> list[RuleFacts]:
    """The rules of a single pass; those of other tools count as rounding, and say no more."""
    return [
        RuleFacts(r.name, p.name, r.equation, str(r.contract), inspect.getdoc(r.build) or "", r.fragile)
        if isinstance(r, Rule)
        else RuleFacts(r.name, p.name, "", str(ROUNDING), "", ())
        for r in rules_in(p)
    ]


def _pipeline(found: FoundPipeline | InFile) -> PipelineFacts:
    if isinstance(found, tuple):
        file, name = found
        written = file.pipelines[name]
        return PipelineFacts(name, str(file.path), tuple(map(str, written.specs)), written.repeat)
    content = found.content
    if isinstance(content, str):
        return PipelineFacts(found.name, found.source, (content,), repeats=False, opsets=found.opsets)
    inner = content.passes if isinstance(content, Pipeline | Fixpoint) else (content,)
    repeats = isinstance(content, Fixpoint)
    return PipelineFacts(found.name, found.source, tuple(q.name for q in inner), repeats, found.opsets)
