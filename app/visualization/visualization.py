"""What there is to look at after a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..drawing.picture import Picture


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A change with what it looked like just before and just after. None where there were too many to draw.

    `equation`: what its rule does, or its pass in a line. `contract`: exact, rounding or conditional.
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


@dataclass(frozen=True, slots=True)
class NodeView:
    """An op, input, output or constant of a whole graph, in its place: centre, width and height.

    `kind` is "op", "constant" (a Constant op, or an initializer that is given out), "input" or "output"; what a body
    reads from around it is an input, too. `title` has a line for each in the box, the type first. `name` is an op's
    label, which changes call it by, or a value's name.
    `mark`: "gone" for an op that a rewrite replaced, "made" for one that a rewrite put in, else "". `rule` made it,
    `origin` are the nodes of the file that it stands for, `rewrites` the ordinals of the changes that touched it.
    `details`: attributes, inputs and outputs with their types, a line each. `bodies`: the sheets inside it, by place.
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
    """A value on its way from node to node, by their places on the sheet, through points: edge of box to edge of box.

    Lines that leave and reach each point straight down stay clear of the boxes.
    """

    source: int
    target: int
    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class GraphView:
    """A graph drawn as a whole: the main one, or a body of an op in it.

    Of a graph that is too large only the first nodes are there; `undrawn` is how many ops are not.
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
