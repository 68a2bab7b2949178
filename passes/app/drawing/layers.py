"""In which layer each box of a picture stands, and which boxes it is connected with.

Layers are the generations of the graph, counted from the bottom, so that each box stands as near as may be above what
it feeds. A line that skips layers gets a bend in each of them, which takes its room like a box.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import networkx as nx

from .picture import Line, Picture


@dataclass(frozen=True, slots=True)
class Layers:
    """`rows` from the top hold the places of boxes, and of bends from the number of boxes on.

    `routes` has the stations of each line; `above` and `below` what each station is connected with.
    """

    rows: list[list[int]]
    routes: list[list[int]]
    above: dict[int, list[int]]
    below: dict[int, list[int]]


def layered(picture: Picture) -> Layers:
    """The layers of a picture, whose lines make no circle. O(boxes + lines * layers)."""
    rows = _generations(picture)
    depth = {p: i for i, row in enumerate(rows) for p in row}
    routes: list[list[int]] = []
    free = len(picture.boxes)
    for line in picture.lines:
        bends = list(range(free, free + depth[line.target] - depth[line.source] - 1))
        free += len(bends)
        for bend, row in zip(bends, rows[depth[line.source] + 1 :], strict=False):
            row.append(bend)
        routes.append([line.source, *bends, line.target])
    above: dict[int, list[int]] = {p: [] for p in range(free)}
    below: dict[int, list[int]] = {p: [] for p in range(free)}
    for upper, lower in (pair for route in routes for pair in pairwise(route)):
        above[lower].append(upper)
        below[upper].append(lower)
    return Layers(rows, routes, above, below)


def _generations(picture: Picture) -> list[list[int]]:
    """The boxes by their longest way to the bottom, the farthest first."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(picture.boxes)))
    graph.add_edges_from(map(_upwards, picture.lines))
    rows: list[list[int]] = [list(row) for row in nx.topological_generations(graph)]
    return rows[::-1]


def _upwards(line: Line) -> tuple[int, int]:
    return line.target, line.source
