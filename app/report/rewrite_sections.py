"""Page sections with the rewrites of a run, and the graphs before and after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...core.run.report import Savings
from .document import PAGE, Section, Widget
from .graph_layout import GraphLayout, Point
from .picture import Box, LayoutKey, Line, Picture, layout_key, picture_layout, svg
from .visualization import GraphView, NodeView, Rewrite, Visualization

PictureKey = tuple[tuple[Box, ...], tuple[Line, ...]]
PictureIndex = tuple[int, int]
"""The chunk of a picture, and the index in the chunk."""
CHUNK_SIZE = 200
"""Pictures that a page decompresses together."""
OPTIONAL_FIELDS = ("mark", "rule", "details", "origin", "rewrites", "bodies")  # of nodes in the viewer


def rewrite_sections(visualization: Visualization) -> Iterator[Section]:
    """The rewrites by rule, and the viewer of the graphs, if there are any."""
    if visualization.rewrites:
        values = {
            "rules": rewrites_by_rule(visualization.rewrites),
            "rewrite_count": len(visualization.rewrites),
            "drawn_count": sum(r.before is not None for r in visualization.rewrites),
        }
        widget = Widget("rewrites.html", values, partial(rewrite_data, visualization.rewrites))
        yield Section("rewrites", "Rewrites", [widget], on=PAGE)
    if visualization.before or visualization.after:
        sides = {"before": visualization.before, "after": visualization.after}
        widget = Widget("graph.html", {}, lambda: {"graph": {side: _view_data(views) for side, views in sides.items()}})
        yield Section("graph", "Graph", [widget], on=PAGE)


@dataclass(slots=True)
class PicturePool:
    """Pictures as SVG without duplicates; pictures that differ only in texts share a layout."""

    chunks: list[list[str]] = field(default_factory=list[list[str]])
    indices: dict[PictureKey, PictureIndex] = field(default_factory=dict[PictureKey, PictureIndex])
    layouts: dict[LayoutKey, GraphLayout] = field(default_factory=dict[LayoutKey, GraphLayout])

    def index(self, picture: Picture | None) -> PictureIndex | None:
        """The index of a picture in `chunks`."""
        if picture is None:
            return None
        shape = tuple(picture.boxes), tuple(picture.lines)
        if shape not in self.indices:
            self.indices[shape] = divmod(len(self.indices), CHUNK_SIZE)
            if self.indices[shape][1] == 0:
                self.chunks.append([])
            key = layout_key(picture)
            if key not in self.layouts:
                self.layouts[key] = picture_layout(picture)
            self.chunks[-1].append(svg(picture, "a piece of the graph", self.layouts[key]))
        return self.indices[shape]


def rewrites_by_rule(rewrites: Sequence[Rewrite]) -> list[tuple[Rewrite, list[int], Savings]]:
    """The first rewrite of each rule, the indices of all, and their savings; rules that save most nodes first."""
    indices: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, r in enumerate(rewrites):
        indices[r.change.pass_name, r.change.by].append(index)
    found = [
        (rewrites[own[0]], own, sum((Savings.of_change(rewrites[i].change) for i in own), Savings()))
        for own in indices.values()
    ]
    return sorted(found, key=lambda rule: (-rule[2].nodes, -len(rule[1]), rule[0].change.by))


def rewrite_data(rewrites: Sequence[Rewrite]) -> dict[str, Any]:
    """The data of each rewrite, and the chunks of pictures referred to by `before` and `after`."""
    pool = PicturePool()
    entries = [_rewrite_entry(rewrite, pool) for rewrite in rewrites]
    return {"rewrites": entries} | {f"pictures-{n}": chunk for n, chunk in enumerate(pool.chunks)}


def _rewrite_entry(r: Rewrite, pool: PicturePool) -> dict[str, Any]:
    return {
        "ordinal": r.change.ordinal,
        "pass": r.change.pass_name,
        "by": r.change.by,
        "equation": r.equation,
        "contract": r.contract,
        "place": r.change.place,
        "replaced": r.change.replaced,
        "made": r.change.made,
        "nodes": r.change.nodes_saved,
        "bytes": r.change.weight_bytes_saved,
        "before": pool.index(r.before),
        "after": pool.index(r.after),
    }


def _view_data(views: Sequence[GraphView]) -> list[dict[str, Any]]:
    return [
        {
            "title": view.title,
            "width": round(view.layout.width, 1),
            "height": round(view.layout.height, 1),
            "nodes": [_node_data(*node) for node in zip(view.nodes, view.layout.centres, strict=True)],
            "edges": [
                [link.source, link.target, link.name, *(round(c, 1) for point in path for c in point)]
                for link, path in zip(view.links, view.layout.paths, strict=True)
            ],
            "undrawn": view.undrawn,
        }
        for view in views
    ]


def _node_data(node: NodeView, centre: Point) -> dict[str, Any]:
    """The name, box and non-empty optional fields of a node."""
    box = dict(zip(("x", "y", "width", "height"), (*centre, node.width, node.height), strict=True))
    more = {field: value for field in OPTIONAL_FIELDS if (value := getattr(node, field))}
    rounded = {field: round(number, 1) for field, number in box.items()}
    return {"name": node.name, "kind": node.kind, "title": node.title, **rounded, **more}
