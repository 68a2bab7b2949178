"""Passes and pipelines by name, with where they came from; no name stands for two things."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import PluginError
from ..pass_manager.pipeline import Pass, RulePass, leaves
from ..rewriting.rules import Rule
from .plugin import Placed

Opsets = tuple[int, int]
"""The first and the last that are supported."""


@dataclass(frozen=True, slots=True)
class Found:
    """A pass and where it came from; where it wants to stand, and the opsets it is for (None: any)."""

    item: Pass
    source: str
    placed: Placed | None = None
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
class FoundPipeline:
    """A pipeline that a plugin brings, as text or as a pass, and where it came from."""

    name: str
    content: str | Pass
    source: str
    opsets: Opsets | None = None

    @property
    def passes(self) -> list[Pass]:
        """The passes inside it, as far as they can be told."""
        return [] if isinstance(self.content, str) else leaves(self.content)


Anything = Found | FoundPipeline


@dataclass(slots=True)
class Shelf:
    """Passes and pipelines by name."""

    passes: dict[str, Found] = field(default_factory=dict[str, Found])
    pipelines: dict[str, FoundPipeline] = field(default_factory=dict[str, FoundPipeline])
    _holders: dict[str, list[tuple[Pass, Anything]]] = field(init=False)  # of passes by name, those inside others too
    _rules: dict[str, tuple[Rule, Anything]] = field(init=False)

    def __post_init__(self) -> None:
        """Take note of all passes and rules."""
        self._holders, self._rules = {}, {}
        for found in self:
            self._note(found)

    def __iter__(self) -> Iterator[Anything]:
        """Everything, the passes first."""
        yield from (*self.passes.values(), *self.pipelines.values())

    def __contains__(self, name: str) -> bool:
        return name in self.passes or name in self.pipelines

    def get(self, name: str) -> Anything | None:
        """What has that name."""
        return self.passes.get(name) or self.pipelines.get(name)

    def require_fit(self, new: Anything) -> None:
        """Raise PluginError naming both sources if the name of `new`, or a name in it, stands for something else."""
        _require_one_kind(new, self.get(new.name))
        for p in new.passes:
            for q, old in self._holders.get(p.name, ()):
                _require_same_pass(p, new, q, old)
            for r in _rules(p):
                other, old = self._rules.get(r.name, (r, new))
                if other != r:
                    raise PluginError(f"two rules are named {r.name}: one from {old.source}, one from {new.source}")

    def add(self, new: Anything) -> None:
        """Add something under its name. Raises PluginError if it does not fit."""
        self.require_fit(new)
        if new.name in self:
            return
        if isinstance(new, Found):
            self.passes[new.name] = new
        else:
            self.pipelines[new.name] = new
        self._note(new)

    def take(self, others: Shelf) -> None:
        """Add everything of another shelf. Raises PluginError, as `add`."""
        for other in others:
            self.add(other)

    def _note(self, found: Anything) -> None:
        for p in found.passes:
            self._holders.setdefault(p.name, []).append((p, found))
            self._rules |= {r.name: (r, found) for r in _rules(p)}


def _require_one_kind(new: Anything, old: Anything | None) -> None:
    if isinstance(new, FoundPipeline) and isinstance(old, FoundPipeline):
        if (new.content, new.source) != (old.content, old.source):
            raise PluginError(f"two pipelines are named {new.name}: one from {old.source}, one from {new.source}")
    elif old is not None and type(new) is not type(old):
        first, second = ("pass", "pipeline") if isinstance(old, Found) else ("pipeline", "pass")
        raise PluginError(f"{new.name} is a {first} from {old.source}, and a {second} from {new.source}")


def _require_same_pass(p: Pass, new: Anything, q: Pass, old: Anything) -> None:
    """Raise PluginError if two passes of one name differ; a pipeline may hold a variant."""
    may_differ = isinstance(new, FoundPipeline) or isinstance(old, FoundPipeline)
    if p != q and not (may_differ and _is_variant(p, q)):
        raise PluginError(f"two passes are named {p.name}: one from {old.source}, one from {new.source}")


def _is_variant(p: Pass, q: Pass) -> bool:
    """Whether two passes differ in their options, or in rules that one of them leaves out."""
    if isinstance(p, RulePass) and isinstance(q, RulePass):
        return set(p.rules) <= set(q.rules) or set(q.rules) <= set(p.rules)
    return type(p) is type(q)


def _rules(p: Pass) -> tuple[Rule, ...]:
    return p.rules if isinstance(p, RulePass) else ()


def rules_of(p: Pass) -> list[Rule]:
    """The rules of a pass and of those inside it."""
    return [r for leaf in leaves(p) for r in _rules(leaf)]
