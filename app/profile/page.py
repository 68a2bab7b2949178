"""A profile as a timeline and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from ...core.pass_manager.report import Report
from ..pages import number_text
from ..pages.embedded_data import compress_json
from ..pages.tiles import Tile
from ..run.page import page, run_tiles
from ..visualization.visualization import Visualization
from .profile_report import NodeTime, Profile, ProfileReport, TypeTime

MAX_NODES = 25
"""Nodes in the table, the slowest first; the timeline has all."""


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
    """The nodes of a profile that take longest, of how many."""

    profile: Profile
    nodes: list[NodeTime]
    total: int


@dataclass(frozen=True, slots=True)
class ProfileSection:
    """What was profiled, and its tables."""

    report: ProfileReport
    types: list[TypeRow]
    slowest: list[SlowestNodes]


def profile_section(report: ProfileReport) -> ProfileSection:
    """The tables of a profile, what takes longest first."""
    sides = report.profiles
    by_type = [{t.op: t for t in side.types} for side in sides]
    ops = dict.fromkeys(op for types in by_type for op in types)
    after = by_type[1] if len(by_type) > 1 else {}
    types = [TypeRow(op, by_type[0].get(op), after.get(op)) for op in ops]
    types.sort(key=lambda t: -t.seconds)
    return ProfileSection(report, types, [_slowest(side) for side in sides])


def timeline_data(report: ProfileReport) -> list[dict[str, Any]]:
    """A lane for each profile, its nodes as they began: what is in a body comes behind what holds it."""
    return [
        {"label": side.label, "seconds": side.seconds, "nodes": [asdict(node) for node in _by_start(side.nodes)]}
        for side in report.profiles
    ]


def _by_start(nodes: Sequence[NodeTime]) -> list[NodeTime]:
    return sorted(nodes, key=lambda n: (n.start, -n.seconds))


def _slowest(profile: Profile) -> SlowestNodes:
    ordered = sorted(profile.nodes, key=lambda n: -n.seconds)
    return SlowestNodes(profile, ordered[:MAX_NODES], len(ordered))


def profile_page(profile_report: ProfileReport, report: Report | None, visualization: Visualization | None) -> str:
    """The page of `passes profile`."""
    tiles = chain(profile_tiles(profile_report), run_tiles(report) if report is not None else ())
    done = f"profiled in onnxruntime at level {profile_report.level}"
    more = {"times": profile_section(profile_report), "lanes": compress_json(timeline_data(profile_report))}
    return page(
        "profile",
        profile_report.source,
        done,
        profile_report.versions,
        tiles,
        report,
        visualization or Visualization(),
        **more,
    )


def profile_tiles(report: ProfileReport) -> Iterator[Tile]:
    """How long a run took under the profiler, with no interval that says how sure it is: so no praise, no blame."""
    before, after = report.before, report.after
    last = after or before
    was = number_text.duration(before.seconds) if after is not None else ""
    yield Tile("one run, profiled", number_text.duration(last.seconds), was, f"medians of {last.runs}")
