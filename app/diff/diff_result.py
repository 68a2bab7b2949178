"""Differences of models as data, and the report of `diff`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from msgspec import Struct, to_builtins

from ...core.support.printable_text import json_text
from ..report.notebook import report_card, report_line

Plain = Any
"""A JSON value: a number, a string, a list of them, or None."""


class Delta(Struct, frozen=True):
    """A change from `before` to `after`; None if absent."""

    what: str
    before: Plain
    after: Plain


class ConstantDifference(Struct, frozen=True):
    """Two constants at one location: their names and types, and the difference of their elements.

    `differing` and `largest` (the greatest absolute difference) are None if types or dims differ, or if unknown.
    `location` is the index of the input, or a description.
    """

    location: str
    before: str
    after: str
    types: tuple[str, str]
    elements: int
    differing: int | None
    largest: float | None


class Node(Struct, frozen=True):
    """An op as stored in a file. An omitted input is an empty name; attributes with default values may be absent."""

    type: str
    domain: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Plain]
    ops: int
    """The number of ops, including those in bodies."""


class SubgraphChange(Struct, frozen=True):
    """Connected ops that were removed, added or replaced, with the inputs and outputs of their region.

    `rules` names the rules of passwright that made them, if their metadata say so.
    """

    kind: Literal["removed", "added", "replaced"]
    removed: list[Node]
    added: list[Node]
    reads: list[Delta]
    writes: list[Delta]
    rules: list[str]


class ChangedOp(Struct, frozen=True):
    """The changes of an op that kept its type and position. `inputs` are those that have another producer now."""

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
    """Numbers of ops, including bodies, without Constant ops.

    `before` is the sum of unchanged, changed, removed and replaced ops; `after` of unchanged, changed, added and
    replacing.
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
        """Add the numbers of a body or function."""
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))


@dataclass(slots=True)
class GraphDifference:
    """The difference of two graphs, in the order of the first; `names` and `notes` do not affect the results."""

    counts: Counts = field(default_factory=Counts)
    interface: list[Delta] = field(default_factory=list[Delta])
    weights: list[ConstantDifference] = field(default_factory=list[ConstantDifference])
    changes: list[SubgraphChange | ChangedOp] = field(default_factory=list["SubgraphChange | ChangedOp"])
    names: list[Delta] = field(default_factory=list[Delta])
    notes: list[Delta] = field(default_factory=list[Delta])

    @property
    def is_empty(self) -> bool:
        """Whether the graphs are equal except for names and notes."""
        return not (self.interface or self.weights or self.changes)

    def with_bodies(self) -> Iterator[GraphDifference]:
        """Yield the difference of the graph, then the differences of its bodies."""
        yield self
        for change in self.changes:
            for body in change.bodies.values() if isinstance(change, ChangedOp) else ():
                yield from body.with_bodies()


@dataclass(slots=True)
class ModelDifference:
    """Two models: `header` has versions, metadata and changed sets of functions; `notes` producers and doc strings."""

    header: list[Delta]
    graph: GraphDifference
    functions: dict[str, GraphDifference]
    notes: list[Delta]

    @property
    def graphs(self) -> Iterator[GraphDifference]:
        """Yield the differences of the main graph, the functions, and all bodies."""
        for g in (self.graph, *self.functions.values()):
            yield from g.with_bodies()

    @property
    def is_empty(self) -> bool:
        """Whether the models are equal except for names and notes."""
        return not self.header and all(g.is_empty for g in (self.graph, *self.functions.values()))

    @property
    def is_identical(self) -> bool:
        """Whether names and notes are also equal."""
        return self.is_empty and not self.notes and not any(g.names or g.notes for g in self.graphs)

    @property
    def counts(self) -> Counts:
        """The ops of the main graph and the functions, including bodies."""
        total = Counts()
        for g in (self.graph, *self.functions.values()):
            total.add(g.counts)
        return total


@dataclass(slots=True)
class DiffReport:
    """The differences of two models.

    `include_names`: whether names, doc strings, metadata of nodes and the storage of constants are compared.

    Examples:
        >>> diff("model.onnx", "model.onnx").difference.is_identical
        True
    """

    original: str
    other: str
    difference: ModelDifference
    include_names: bool = False
    versions: dict[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_equal(self) -> bool:
        """Whether the models are equal in everything that was compared."""
        return self.difference.is_identical if self.include_names else self.difference.is_empty

    def __bool__(self) -> bool:
        """Whether the models are equal."""
        return self.is_equal

    def to_json(self) -> str:
        """The differences as deterministic JSON text, including names and notes."""
        data = {
            "original": self.original,
            "other": self.other,
            "equal": self.is_equal,
            "names_count": self.include_names,
            "counts": to_builtins(self.difference.counts),
            **to_builtins(self.difference),
            "versions": self.versions,
            "options": self.options,
        }
        return json_text(data)

    __repr__, _repr_html_ = report_line, report_card
