"""Rows with what was measured of them, and what follows from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core.ort.sessions import DISABLE_ALL, ENABLE_ALL
from ...core.pass_manager.phase_timer import PhaseTimer
from ..measure.benchmark import BenchmarkTarget, compare_latencies, run_benchmark
from ..measure.metrics import ModelMetrics, RatioInterval
from .comparison_report import Conditions, OnlineOptimization, Row


def measure_rows(
    rows: Sequence[Row],
    files: Mapping[str, Path],
    feeds: Mapping[int, Mapping[str, Any]],
    conditions: Conditions,
    timer: PhaseTimer,
    baseline: int,
) -> list[Row]:
    """The rows that load, each raced against all others, with their share of the time of the `baseline`."""
    places = [i for i, row in enumerate(rows) if not row.failure and conditions.is_timed(row)]
    entries = [
        BenchmarkTarget(
            files[rows[i].made_by], conditions.session_setting(ENABLE_ALL if rows[i].online else DISABLE_ALL)
        )
        for i in places
    ]
    beside = places.index(baseline) if baseline in places else 0
    with timer.phase("measuring"):
        measured = run_benchmark(entries, feeds, conditions.effort, timer.progress, beside) if entries and feeds else []
    found = list(rows)
    for i, figures in zip(places, measured, strict=False):
        found[i] = replace(found[i], measured=figures, failure=figures.failure)
    against = found[baseline].measured
    return [
        row if row is found[baseline] else replace(row, ratios=_latency_ratios(row.measured, against)) for row in found
    ]


def _latency_ratios(row: ModelMetrics | None, baseline: ModelMetrics | None) -> dict[int, RatioInterval]:
    if row is None or baseline is None:
        return {}
    shared = row.latencies.keys() & baseline.latencies.keys()
    return {batch: compare_latencies(row.latencies[batch], baseline.latencies[batch]) for batch in sorted(shared)}


def online_optimizations(rows: Sequence[Row]) -> list[OnlineOptimization]:
    """What onnxruntime still does to each model that runs both ways."""
    online = {row.made_by: row for row in rows if row.online}
    pairs = ((row, online[row.made_by]) for row in rows if not row.online and row.made_by in online)
    return [left for written, then in pairs if (left := _online_optimization(written, then)) is not None]


def _online_optimization(written: Row, online: Row) -> OnlineOptimization | None:
    if written.stats is None or online.online_stats is None or written.measured is None or online.measured is None:
        return None
    creation = online.measured.creation_seconds - written.measured.creation_seconds
    ratio = _latency_ratios(online.measured, written.measured)
    nodes = (written.stats.nodes, online.online_stats.nodes)
    return OnlineOptimization(written.made_by, *nodes, creation, next(iter(ratio.values()), None))
