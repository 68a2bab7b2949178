"""The whole model as data for the viewer: what a node is, where it stands, and what it is linked with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..story.story import Edge, Node, Sheet, Story

TOLD = ("mark", "rule", "told", "origin", "rewrites", "bodies")


def graph_data(story: Story) -> dict[str, Any] | None:
    """Both sides, None where nothing is drawn."""
    if not story.before and not story.after:
        return None
    return {"before": _sheets(story.before), "after": _sheets(story.after)}


def _sheets(sheets: Sequence[Sheet]) -> list[dict[str, Any]]:
    return [
        {
            "title": sheet.title,
            "width": round(sheet.width, 1),
            "height": round(sheet.height, 1),
            "nodes": [_node(node) for node in sheet.nodes],
            "edges": [_edge(edge) for edge in sheet.edges],
            "undrawn": sheet.undrawn,
        }
        for sheet in sheets
    ]


def _node(node: Node) -> dict[str, Any]:
    """Its place, and of the rest what there is to say."""
    box = {"x": round(node.x, 1), "y": round(node.y, 1), "width": round(node.width, 1), "height": round(node.height, 1)}
    more = {field: value for field in TOLD if (value := getattr(node, field))}
    return {"name": node.name, "kind": node.kind, "title": node.title, **box, **more}


def _edge(edge: Edge) -> list[Any]:
    """Source, target, name, and the points, x and y in turns."""
    return [edge.source, edge.target, edge.name, *(round(c, 1) for point in edge.points for c in point)]
