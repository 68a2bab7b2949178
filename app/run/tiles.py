"""The numbers of a run at the head of its page and its card."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.filesize import decimal

from ...core.pass_manager.report import Report
from ...core.support.intervals import RatioInterval
from ..number_text import bounds, change, compact, ratio
from ..pages.tile import Tile
from ..terminal import plural

LATENCY = "latency under ORT ALL"  # of a tile


def run_tiles(report: Report) -> Iterator[Tile]:
    """Sizes before and after, and the number of rewrites."""
    b, a = report.before, report.after
    yield _size_tile("nodes", b.nodes, a.nodes, "{:,}".format)
    yield _size_tile("file", b.bytes, a.bytes, decimal)
    yield _size_tile("parameters", b.parameters, a.parameters, compact)
    changes = sum(p.changes for p in report.passes)
    rules = sum(bool(n) for p in report.passes for n in p.rules.values())
    yield Tile("rewrites", f"{changes:,}", note=f"of {plural(rules, 'rule')}")
    lost = report.speed.lost if report.speed is not None else []
    yield from _speed_tiles(report)
    if left_out := len(report.quarantined) + len(report.unfit) + len(lost):
        yield Tile("left out", f"{left_out:,}", note="see below", tone="bad" if report.quarantined or lost else "")


def _speed_tiles(report: Report) -> Iterator[Tile]:
    """The latency of the result divided by that of the original, where they were raced."""
    for race in report.speed.races if report.speed is not None else ():
        if not race.is_lost and race.ratio is not None:
            yield latency_tile(race.ratio)


def latency_tile(interval: RatioInterval) -> Tile:
    """The latency of our result divided by that of the original, both under ORT ALL."""
    note = f"{bounds(interval)} of the original's"
    change, tone = ("faster: ", "good") if interval.ratio < 1 else ("slower: ", "bad")
    if not interval.is_significant:
        change, tone = "", ""
    return Tile(LATENCY, ratio(interval), note=change + note, tone=tone)


def _size_tile(label: str, before: int, after: int, text: Callable[[int], str]) -> Tile:
    """A number that is better when smaller."""
    if before == after:
        return Tile(label, text(after), note="as before")
    return Tile(label, text(after), text(before), change(before, after), "good" if after < before else "bad")
