"""What a comparison came to, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal

Plain = Any
"""What JSON has a form for: a number, a text, a list of them, None."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Something that was `before` and is `after`; None where there was or is nothing."""

    what: str
    before: Plain
    after: Plain


@dataclass(frozen=True, slots=True)
class ConstantDifference:
    """Two constants in one place: what they are called, their types, and how far their elements are apart.

    `differing` and `largest` (the greatest absolute difference) are None where types or dims differ, or it cannot be
    said; `location` is the input's number or what the constant stands for.
    """

    location: str
    before: str
    after: str
    types: tuple[str, str]
    elements: int
    differing: int | None
    largest: float | None


@dataclass(frozen=True, slots=True)
class Node:
    """An op as a file has it. An input left out is an empty name; attributes are those that are written."""

    type: str
    domain: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Plain]
    ops: int
    """The op and all in its bodies."""


@dataclass(frozen=True, slots=True)
class SubgraphChange:
    """Connected ops that went, came, or took the place of others, with what they read and what others read of them.

    `rules` names the rules of passwright that made them, where they say so.
    """

    kind: Literal["removed", "added", "replaced"]
    removed: list[Node]
    added: list[Node]
    reads: list[Delta]
    writes: list[Delta]
    rules: list[str]


@dataclass(frozen=True, slots=True)
class ChangedOp:
    """An op that kept its type and its place, and what of it changed. `inputs` are those that lead elsewhere now."""

    before: Node
    after: Node
    attributes: list[Delta]
    inputs: list[Delta]
    weights: list[ConstantDifference]
    commuted: bool
    bodies: dict[str, GraphDifference]
    kind: Literal["changed"] = "changed"


@dataclass(slots=True)
class Counts:
    """Ops, bodies included: `before` is the sum of unchanged, changed, removed and replaced; `after` of the others.

    Ops that only hold a constant do not count.
    """

    before: int = 0
    after: int = 0
    unchanged: int = 0
    changed: int = 0
    removed: int = 0
    added: int = 0
    replaced: int = 0
    replacing: int = 0

    def add(self, other: Counts) -> None:
        """Count what is inside as well."""
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))


@dataclass(slots=True)
class GraphDifference:
    """Two graphs. `changes` are in the order of the first; `names` and `notes` mean nothing to what is computed."""

    counts: Counts = field(default_factory=Counts)
    interface: list[Delta] = field(default_factory=list[Delta])
    weights: list[ConstantDifference] = field(default_factory=list[ConstantDifference])
    changes: list[SubgraphChange | ChangedOp] = field(default_factory=list["SubgraphChange | ChangedOp"])
    names: list[Delta] = field(default_factory=list[Delta])
    notes: list[Delta] = field(default_factory=list[Delta])

    @property
    def is_empty(self) -> bool:
        """Whether the graphs are the same but for names and notes."""
        return not (self.interface or self.weights or self.changes)

    def with_bodies(self) -> Iterator[GraphDifference]:
        """The graph, then those in its bodies."""
        yield self
        for change in self.changes:
            for body in change.bodies.values() if isinstance(change, ChangedOp) else ():
                yield from body.with_bodies()


@dataclass(slots=True)
class ModelDifference:
    """Two models: `header` has versions, metadata and functions that came or went; `notes` who made them and texts."""

    header: list[Delta]
    graph: GraphDifference
    functions: dict[str, GraphDifference]
    notes: list[Delta]

    @property
    def graphs(self) -> Iterator[GraphDifference]:
        """The main graph, the functions, and all inside them."""
        for g in (self.graph, *self.functions.values()):
            yield from g.with_bodies()

    @property
    def is_empty(self) -> bool:
        """Whether the models are the same but for names and notes."""
        return not self.header and all(g.is_empty for g in (self.graph, *self.functions.values()))

    @property
    def is_identical(self) -> bool:
        """Whether not even names and notes differ."""
        return self.is_empty and not self.notes and not any(g.names or g.notes for g in self.graphs)

    @property
    def counts(self) -> Counts:
        """Ops of the main graph and of the functions, bodies included."""
        total = Counts()
        for g in (self.graph, *self.functions.values()):
            total.add(g.counts)
        return total
