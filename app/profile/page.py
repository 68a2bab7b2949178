"""Pages of profiles: a timeline and tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from msgspec import to_builtins

from ...core.run.report import Report
from ..optimize.page import page
from ..optimize.tiles import run_tiles
from ..report.number_text import duration
from ..report.rendering import compress_json
from ..report.tile import Tile
from ..report.visualization import Visualization
from .profile_report import ProfileReport

MAX_NODES = 25
"""Nodes in the table; the timeline has all."""


def profile_page(profile_report: ProfileReport, report: Report | None, visualization: Visualization | None) -> str:
    """The page of `passes profile`."""
    return page(
        "profile",
        profile_report.source,
        f"profiled in onnxruntime at level {profile_report.level}",
        profile_report.versions,
        chain(profile_tiles(profile_report), run_tiles(report) if report is not None else ()),
        report,
        visualization,
        profile=profile_report,
        max_nodes=MAX_NODES,
        lanes=compress_json(timeline_data(profile_report)),
    )


def timeline_data(report: ProfileReport) -> list[dict[str, Any]]:
    """A lane for each profile, with its nodes by start: an op comes before the nodes of its bodies."""
    lanes: list[dict[str, Any]] = []
    for side in report.profiles:
        nodes = [to_builtins(node) for node in sorted(side.nodes, key=lambda n: (n.start, -n.seconds))]
        lanes.append({"label": side.label, "seconds": side.seconds, "nodes": nodes})
    return lanes


def profile_tiles(report: ProfileReport) -> Iterator[Tile]:
    """The time of a run under the profiler; without an interval it is neither good nor bad."""
    before, after = report.before, report.after
    last = after or before
    was = duration(before.seconds) if after is not None else ""
    yield Tile("one run, profiled", duration(last.seconds), was, f"medians of {last.runs}")
