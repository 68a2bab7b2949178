"""Tiles: the numbers at the head of a page."""

from __future__ import annotations

from dataclasses import dataclass

from ..measure.metrics import RatioInterval
from . import number_text


@dataclass(frozen=True, slots=True)
class Tile:
    """A number, its value before, and a note. `tone`: good, bad, or nothing."""

    label: str
    value: str
    was: str = ""
    note: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class VerdictBanner:
    """The verdict on a result: `tone` is good, open or bad."""

    lines: list[str]
    tone: str


def latency_tile(interval: RatioInterval, label: str) -> Tile:
    """A ratio of latencies, unless its interval contains 1."""
    if not interval.is_significant:
        return Tile(label, "no difference", note=f"{number_text.bounds(interval)} of the original's")
    tone, said = ("good", "faster") if interval.ratio < 1 else ("bad", "slower")
    return Tile(
        label, number_text.ratio(interval), note=f"{said}: {number_text.bounds(interval)} of the original's", tone=tone
    )


def size_tile(label: str, before: float, after: float, was: str, is_now: str) -> Tile:
    """A number that is better when smaller."""
    if before == after:
        return Tile(label, is_now, note="as before")
    return Tile(label, is_now, was, number_text.change(before, after), "good" if after < before else "bad")
