"""The numbers of a run at the head of its page and its card."""

from __future__ import annotations

from collections.abc import Iterator

from ...core.run.report import Report
from ..report.number_text import compact
from ..report.terminal import plural
from ..report.tile import Tile, latency_tile, size_tile


def run_tiles(report: Report) -> Iterator[Tile]:
    """Sizes before and after, and the number of rewrites."""
    b, a = report.before, report.after
    yield size_tile("nodes", b.nodes, a.nodes, "{:,}".format)
    yield size_tile("file", b.bytes, a.bytes)
    yield size_tile("parameters", b.parameters, a.parameters, compact)
    changes = sum(p.changes for p in report.passes)
    rules = sum(bool(n) for p in report.passes for n in p.rules.values())
    yield Tile("rewrites", f"{changes:,}", note=f"of {plural(rules, 'rule')}")
    lost = report.speed.lost if report.speed is not None else []
    yield from _speed_tiles(report)
    if left_out := len(report.rejected) + len(report.unfit) + len(lost):
        yield Tile("left out", f"{left_out:,}", note="see below", tone="bad" if report.rejected or lost else "")


def _speed_tiles(report: Report) -> Iterator[Tile]:
    """The latency of the result divided by that of the original, where they were raced."""
    for race in report.speed.races if report.speed is not None else ():
        if not race.is_lost and race.ratio is not None:
            yield latency_tile(race.ratio)
