"""Every rewrite of a run, by rule: words for the list, and pictures for those that are opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..drawing.picture import Box, Line, Picture
from ..drawing.placing import Frame, Placed, frame_of, placed
from ..drawing.svg import svg
from ..story.story import Rewrite, Story

Shape = tuple[tuple[Box, ...], tuple[Line, ...]]
Place = tuple[int, int]
"""Which sheaf of pictures it is in, and where in that."""
SHEAF = 200
"""Pictures that a page unpacks at once, when one of them is looked at."""


@dataclass(slots=True)
class Rule:
    """What one rule, or one pass without rules, did in all."""

    pass_name: str
    name: str
    equation: str
    contract: str
    rewrites: list[int] = field(default_factory=list[int])
    nodes_saved: int = 0
    weight_bytes_saved: int = 0


@dataclass(slots=True)
class Gallery:
    """Pictures as SVG; those that are the same are one, and those that differ in words are laid out once."""

    sheaves: list[list[str]] = field(default_factory=list[list[str]])
    places: dict[Shape, Place] = field(default_factory=dict[Shape, Place])
    layouts: dict[Frame, Placed] = field(default_factory=dict[Frame, Placed])

    def place(self, picture: Picture | None) -> Place | None:
        """Where in `sheaves` it is."""
        if picture is None:
            return None
        shape = tuple(picture.boxes), tuple(picture.lines)
        if shape not in self.places:
            self.places[shape] = divmod(len(self.places), SHEAF)
            if self.places[shape][1] == 0:
                self.sheaves.append([])
            self.sheaves[-1].append(svg(picture, "a piece of the graph", self._layout(picture)))
        return self.places[shape]

    def _layout(self, picture: Picture) -> Placed:
        frame = frame_of(picture)
        if frame not in self.layouts:
            self.layouts[frame] = placed(picture)
        return self.layouts[frame]


def rules_of(story: Story) -> list[Rule]:
    """The rules with their rewrites by place in the story, those that save most nodes first."""
    rules: dict[tuple[str, str], Rule] = {}
    for place, r in enumerate(story.rewrites):
        rule = rules.setdefault((r.pass_name, r.by), Rule(r.pass_name, r.by, r.equation, r.contract))
        rule.rewrites.append(place)
        rule.nodes_saved += r.nodes_saved
        rule.weight_bytes_saved += r.weight_bytes_saved
    return sorted(rules.values(), key=lambda r: (-r.nodes_saved, -len(r.rewrites), r.name))


def rewrite_data(story: Story) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """What is said of each rewrite, and the pictures that `before` and `after` give the places of."""
    gallery = Gallery()
    return [_told(rewrite, gallery) for rewrite in story.rewrites], gallery.sheaves


def _told(r: Rewrite, gallery: Gallery) -> dict[str, Any]:
    return {
        "ordinal": r.ordinal,
        "pass": r.pass_name,
        "by": r.by,
        "equation": r.equation,
        "contract": r.contract,
        "place": r.place,
        "replaced": r.replaced,
        "made": r.made,
        "nodes": r.nodes_saved,
        "bytes": r.weight_bytes_saved,
        "before": gallery.place(r.before),
        "after": gallery.place(r.after),
    }
