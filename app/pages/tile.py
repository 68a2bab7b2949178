"""A number at the head of a page or a card."""

from __future__ import annotations

from ...core.support.dataclass_decorator import dataclass


@dataclass(frozen=True, slots=True)
class Tile:
    """A number at the head of a page or a card, its value before, and a note. `tone`: good, bad, or nothing."""

    label: str
    value: str
    was: str = ""
    note: str = ""
    tone: str = ""
