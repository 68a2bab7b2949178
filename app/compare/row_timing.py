"""Rows with what was measured of them, and what follows from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core.pass_manager.phase_timer import Stopwatch
from ..measure.benchmark import Entry, compared, race
from ..measure.metrics import Interval, Measured
from .comparison_report import Conditions, Left, Row


def timed_rows(
    rows: Sequence[Row],
    files: Mapping[str, Path],
    feeds: Mapping[int, Mapping[str, Any]],
    conditions: Conditions,
    watch: Stopwatch,
    baseline: int,
) -> list[Row]:
    """The rows that load, each raced against all others, with their share of the time of the `baseline`."""
    places = [i for i, row in enumerate(rows) if not row.failure and conditions.is_timed(row)]
    entries = [
        Entry(files[rows[i].made_by], conditions.setting("ENABLE_ALL" if rows[i].online else "DISABLE_ALL"))
        for i in places
    ]
    beside = places.index(baseline) if baseline in places else 0
    with watch.phase("measuring"):
        measured = race(entries, feeds, conditions.effort, watch.progress, beside) if entries and feeds else []
    found = list(rows)
    for i, figures in zip(places, measured, strict=False):
        found[i] = replace(found[i], measured=figures, failure=figures.failure)
    against = found[baseline].measured
    return [row if row is found[baseline] else replace(row, ratios=_ratios(row.measured, against)) for row in found]


def _ratios(row: Measured | None, baseline: Measured | None) -> dict[int, Interval]:
    if row is None or baseline is None:
        return {}
    shared = row.latencies.keys() & baseline.latencies.keys()
    return {batch: compared(row.latencies[batch], baseline.latencies[batch]) for batch in sorted(shared)}


def left_of(rows: Sequence[Row]) -> list[Left]:
    """What onnxruntime still does to each model that runs both ways."""
    online = {row.made_by: row for row in rows if row.online}
    pairs = ((row, online[row.made_by]) for row in rows if not row.online and row.made_by in online)
    return [left for written, then in pairs if (left := _left(written, then)) is not None]


def _left(written: Row, online: Row) -> Left | None:
    if written.anatomy is None or online.left is None or written.measured is None or online.measured is None:
        return None
    creation = online.measured.creation - written.measured.creation
    ratio = _ratios(online.measured, written.measured)
    nodes = (written.anatomy.nodes, online.left.nodes)
    return Left(written.made_by, *nodes, creation, next(iter(ratio.values()), None))
