"""The rewrites of a run, and its model before and after, for pages."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..drawing.picture import Picture


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A change, with its pictures just before and just after; None where there were too many to draw.

    `equation`: that of its rule, or the summary of its pass. `contract`: exact, rounding or conditional.
    """

    ordinal: int
    pass_name: str
    by: str
    equation: str
    contract: str
    place: str
    replaced: tuple[str, ...]
    made: tuple[str, ...]
    nodes_saved: int
    weight_bytes_saved: int
    before: Picture | None = None
    after: Picture | None = None


@dataclass(slots=True)
class NodeView:
    """An op, input, output or constant of a whole graph, with its centre, width and height.

    `kind` is "op", "constant" (a Constant op, or an initializer that is an output), "input" or "output"; a value that a
    body reads from around it is an input, too. `name` is the label of an op, as in changes, or the name of a value;
    `title` are the lines in the box, the type first. `details`: attributes, inputs and outputs with their types.
    `mark`: "gone" for an op that a rewrite replaced, "made" for one that a rewrite added, else "". `rule` made it,
    `origin` are the nodes of the file that it replaces, `rewrites` the ordinals of the changes that touched it.
    `bodies`: the indices of the graphs inside it.
    """

    name: str
    kind: str
    title: str
    x: float
    y: float
    width: float
    height: float
    details: tuple[str, ...] = ()
    mark: str = ""
    rule: str = ""
    origin: tuple[str, ...] = ()
    rewrites: tuple[int, ...] = ()
    bodies: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EdgeView:
    """A line for a value, from the node at index `source` to that at `target`, through points from edge to edge.

    A line that leaves and reaches each point straight down stays clear of the boxes.
    """

    source: int
    target: int
    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class GraphView:
    """A graph drawn as a whole: the main one, or a body of an op in it.

    Of a graph that is too large only the first nodes are drawn; `undrawn` is the number of the other ops.
    """

    title: str
    width: float
    height: float
    nodes: list[NodeView]
    edges: list[EdgeView]
    undrawn: int = 0


@dataclass(slots=True)
class Visualization:
    """The rewrites in order, and the model before and after: its main graph, then the bodies in it."""

    rewrites: list[Rewrite] = field(default_factory=list[Rewrite])
    before: list[GraphView] = field(default_factory=list[GraphView])
    after: list[GraphView] = field(default_factory=list[GraphView])
