"""Boxes, and lines between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class BoxKind(Enum):
    """The subject of a box."""

    OP = "op"
    CONSTANT = "constant"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Box:
    """A box with a few lines of text; `tooltip` is shown in full on hover."""

    kind: BoxKind
    lines: tuple[str, ...]
    tooltip: str = ""
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line from one box down to another, by their indices in the picture."""

    source: int
    target: int
    tooltip: str = ""


@dataclass(slots=True)
class Picture:
    """Boxes and lines, with no coordinates yet."""

    boxes: list[Box] = field(default_factory=list[Box])
    lines: list[Line] = field(default_factory=list[Line])

    def add(self, box: Box) -> int:
        """Add a box, and return its index."""
        self.boxes.append(box)
        return len(self.boxes) - 1

    def link(self, source: int, target: int, tooltip: str = "") -> None:
        """Add a line, once for each time the one box feeds the other."""
        self.lines.append(Line(source, target, tooltip))
