"""Pages of profiles: a timeline and tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from ...core.pass_manager.report import Report
from ..pages import number_text
from ..pages.rendering import compress_json
from ..pages.tiles import Tile
from ..run.page import page, run_tiles
from ..visualization.visualization import Visualization
from .profile_report import NodeTime, Profile, ProfileReport, TypeTime

MAX_NODES = 25
"""Nodes in the table; the timeline has all."""


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A type of op before and after, None where it does not occur."""

    op: str
    before: TypeTime | None
    after: TypeTime | None

    @property
    def seconds(self) -> float:
        """The longer of the two."""
        return max(t.seconds if t is not None else 0.0 for t in (self.before, self.after))


@dataclass(frozen=True, slots=True)
class SlowestNodes:
    """The slowest nodes of a profile, and the number of all."""

    profile: Profile
    nodes: list[NodeTime]
    total: int


@dataclass(frozen=True, slots=True)
class ProfileSection:
    """A profile and its tables."""

    report: ProfileReport
    types: list[TypeRow]
    slowest: list[SlowestNodes]


def profile_section(report: ProfileReport) -> ProfileSection:
    """The section of a profile, with the slowest types and nodes first."""
    sides = report.profiles
    by_type = [{t.op: t for t in side.types} for side in sides]
    ops = dict.fromkeys(op for types in by_type for op in types)
    after = by_type[1] if len(by_type) > 1 else {}
    types = sorted((TypeRow(op, by_type[0].get(op), after.get(op)) for op in ops), key=lambda t: -t.seconds)
    ordered = [sorted(side.nodes, key=lambda n: -n.seconds) for side in sides]
    slowest = [SlowestNodes(side, nodes[:MAX_NODES], len(nodes)) for side, nodes in zip(sides, ordered, strict=True)]
    return ProfileSection(report, types, slowest)


def timeline_data(report: ProfileReport) -> list[dict[str, Any]]:
    """A lane for each profile, with its nodes by start: an op comes before the nodes of its bodies."""
    lanes: list[dict[str, Any]] = []
    for side in report.profiles:
        nodes = [asdict(node) for node in sorted(side.nodes, key=lambda n: (n.start, -n.seconds))]
        lanes.append({"label": side.label, "seconds": side.seconds, "nodes": nodes})
    return lanes


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
        times=profile_section(profile_report),
        lanes=compress_json(timeline_data(profile_report)),
    )


def profile_tiles(report: ProfileReport) -> Iterator[Tile]:
    """The time of a run under the profiler; without an interval it is neither good nor bad."""
    before, after = report.before, report.after
    last = after or before
    was = number_text.duration(before.seconds) if after is not None else ""
    yield Tile("one run, profiled", number_text.duration(last.seconds), was, f"medians of {last.runs}")
