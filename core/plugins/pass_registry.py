"""A registry of passes and pipelines by name, with their sources; names are unique."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..errors import PluginError
from ..rewriting.rules import Rule
from ..run.pipeline import Pass, RulePass, leaves
from ..run.transforms import definition
from .plugin import PassPlacement

Opsets = tuple[int, int]
"""The first and the last supported opset."""


@dataclass(frozen=True, slots=True)
class PassEntry:
    """A pass, its source, its position in pipelines, and the opsets that it supports (None: any)."""

    item: Pass
    source: str
    placed: PassPlacement | None = None
    opsets: Opsets | None = None

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.item.name

    @property
    def passes(self) -> list[Pass]:
        """The pass and those inside it."""
        return [self.item, *leaves(self.item)]


@dataclass(frozen=True, slots=True)
class PipelineEntry:
    """A pipeline of a plugin, as text or as a pass, and its source."""

    name: str
    content: str | Pass
    source: str
    opsets: Opsets | None = None

    @property
    def passes(self) -> list[Pass]:
        """The passes inside it; none are known of a text."""
        return [] if isinstance(self.content, str) else leaves(self.content)


Entry = PassEntry | PipelineEntry


@dataclass(slots=True)
class PassRegistry:
    """Passes and pipelines by name."""

    passes: dict[str, PassEntry] = field(default_factory=dict[str, PassEntry])
    pipelines: dict[str, PipelineEntry] = field(default_factory=dict[str, PipelineEntry])
    _entries_by_pass: dict[str, list[tuple[Pass, Entry]]] = field(default_factory=dict[str, Any], init=False)
    _entries_by_rule: dict[str, tuple[Rule, Entry]] = field(default_factory=dict[str, Any], init=False)

    def __post_init__(self) -> None:
        """Index all passes, those inside others too, and all rules."""
        for found in self:
            self._index(found)

    def __iter__(self) -> Iterator[Entry]:
        """All entries, passes first."""
        yield from (*self.passes.values(), *self.pipelines.values())

    def __contains__(self, name: str) -> bool:
        return name in self.passes or name in self.pipelines

    def get(self, name: str) -> Entry | None:
        """The entry of that name."""
        return self.passes.get(name) or self.pipelines.get(name)

    def require_no_clash(self, new: Entry) -> None:
        """Raise PluginError naming both sources if `new`, or a pass or rule in it, has the name of another."""
        old = self.get(new.name)
        if isinstance(new, PipelineEntry) and isinstance(old, PipelineEntry):
            if (new.content, new.source) != (old.content, old.source):
                raise PluginError(f"two pipelines are named {new.name}: one from {old.source}, one from {new.source}")
        elif old is not None and type(new) is not type(old):
            first, second = ("pass", "pipeline") if isinstance(old, PassEntry) else ("pipeline", "pass")
            raise PluginError(f"{new.name} is a {first} from {old.source}, and a {second} from {new.source}")
        self._require_same_contents(new)

    def _require_same_contents(self, new: Entry) -> None:
        for p in new.passes:
            for q, old in self._entries_by_pass.get(p.name, ()):
                may_differ = isinstance(new, PipelineEntry) or isinstance(old, PipelineEntry)
                if p != q and not (may_differ and _is_variant(p, q)):
                    raise PluginError(f"two passes are named {p.name}: one from {old.source}, one from {new.source}")
            for r in _own_rules(p):
                other, old = self._entries_by_rule.get(r.name, (r, new))
                if other != r:
                    raise PluginError(f"two rules are named {r.name}: one from {old.source}, one from {new.source}")

    def add(self, new: Entry) -> None:
        """Add an entry, unless it is there already. Raises PluginError if a name clashes."""
        self.require_no_clash(new)
        if new.name in self:
            return
        if isinstance(new, PassEntry):
            self.passes[new.name] = new
        else:
            self.pipelines[new.name] = new
        self._index(new)

    def update(self, others: PassRegistry) -> None:
        """Add all entries of another registry. Raises PluginError, as `add`."""
        for other in others:
            self.add(other)

    def _index(self, entry: Entry) -> None:
        for p in entry.passes:
            self._entries_by_pass.setdefault(p.name, []).append((p, entry))
            self._entries_by_rule |= {r.name: (r, entry) for r in _own_rules(p)}


def _is_variant(p: Pass, q: Pass) -> bool:
    """Whether two passes differ in their options, or in rules that one pass leaves out."""
    if isinstance(p, RulePass) and isinstance(q, RulePass):
        return set(p.rules) <= set(q.rules) or set(q.rules) <= set(p.rules)
    return type(definition(p)) is type(definition(q))


def _own_rules(p: Pass) -> tuple[Rule, ...]:
    return p.rules if isinstance(p, RulePass) else ()


def all_rules(p: Pass) -> list[Rule]:
    """The rules of a pass and of those inside it."""
    return [r for leaf in leaves(p) for r in _own_rules(leaf)]
