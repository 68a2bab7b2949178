"""Pages for a run, a comparison and a profile."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ....core.errors import ModelError
from ....core.report import Report
from ..comparing.compared import Compared
from ..profiling.profiled import Profiled
from ..story.story import Story
from ..versions import versions
from .blobs import packed
from .comparison import shown
from .graphs import graph_data
from .headline import Tile, claim_of, compare_tile, profile_tile, run_tiles
from .histogram import histogram_of
from .rendering import rendered
from .rewrites import rewrite_data, rules_of
from .times import timeline_data, times_of


def run_page(report: Report, story: Story) -> str:
    """The page of `passes run`, as HTML."""
    done = f"optimized with the pipeline {report.pipeline}"
    return _page("run", report.source, done, report.versions, run_tiles(report), report, story)


def compare_page(compared: Compared, report: Report, story: Story) -> str:
    """The page of `passes compare`; `report` and `story` are those of our own run."""
    tiles = chain(compare_tile(compared), run_tiles(report))
    done = f"compared: {len(compared.rows)} ways to run it, ours with the pipeline {compared.pipeline}"
    return _page("compare", compared.source, done, compared.versions, tiles, report, story, comparison=shown(compared))


def profile_page(profiled: Profiled, report: Report | None, story: Story | None) -> str:
    """The page of `passes profile`."""
    tiles = chain(profile_tile(profiled), run_tiles(report) if report is not None else ())
    done = f"profiled in onnxruntime at level {profiled.level}"
    more = {"times": times_of(profiled), "lanes": packed(timeline_data(profiled))}
    return _page("profile", profiled.source, done, profiled.versions, tiles, report, story or Story(), **more)


def write_page(page: str, path: Path) -> None:
    """Write a page, whole or not at all. Raises ModelError if that cannot be done."""
    try:
        with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as stage:
            made = Path(stage) / path.name
            made.write_text(page, encoding="utf-8")
            made.replace(path)
    except OSError as e:
        raise ModelError(f"cannot write {path}: {e.strerror}") from e


def _page(
    command: str,
    source: str,
    done: str,
    named_versions: dict[str, str],
    tiles: Iterable[Tile],
    report: Report | None,
    story: Story,
    **more: Any,
) -> str:
    told, pictures = rewrite_data(story)
    graph = graph_data(story)
    sections: dict[str, Any] = {"comparison": None, "times": None, "lanes": "", **more}
    return rendered(
        "page.html",
        command=command,
        source=source,
        model=Path(source).name or source,
        done=done,
        versions=named_versions or versions(),
        tiles=list(tiles),
        report=report,
        claim=claim_of(report) if report is not None else None,
        histogram=histogram_of(report) if report is not None else None,
        rules=rules_of(story),
        rewrites=packed(told) if told else "",
        pictures=[packed(sheaf) for sheaf in pictures],
        rewrite_count=len(told),
        drawn_count=sum(r.before is not None for r in story.rewrites),
        graph=packed(graph) if graph is not None else "",
        **sections,
    )
