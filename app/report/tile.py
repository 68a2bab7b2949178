"""Numbers at the head of a page or a card."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from rich.filesize import decimal

from ...core.support.confidence_intervals import RatioInterval
from .number_text import bounds, change, ratio

LATENCY = "latency under ORT ALL"  # of a tile


class Tile(Struct, frozen=True):
    """A number at the head of a page or a card, its value before, and a note. `tone`: good, bad, or nothing."""

    label: str
    value: str
    was: str = ""
    note: str = ""
    tone: str = ""


def latency_tile(interval: RatioInterval) -> Tile:
    """The latency of our result divided by that of the original, both under ORT ALL."""
    note = f"{bounds(interval)} of the original's"
    relation, tone = ("faster: ", "good") if interval.ratio < 1 else ("slower: ", "bad")
    if not interval.is_significant:
        relation, tone = "", ""
    return Tile(LATENCY, ratio(interval), note=relation + note, tone=tone)


def size_tile(label: str, before: int, after: int, text: Callable[[int], str] = decimal) -> Tile:
    """A number that is better when smaller."""
    if before == after:
        return Tile(label, text(after), note="as before")
    return Tile(label, text(after), text(before), change(before, after), "good" if after < before else "bad")
