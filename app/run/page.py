"""Pages for a run, a comparison and a profile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ...core.pass_manager.report import Report
from ..environment import versions
from ..pages import number_text
from ..pages.embedded_data import compress_json
from ..pages.rendering import render_template
from ..pages.tiles import Tile, VerdictBanner, size_tile
from ..verify.render import verdict_lines
from ..visualization.visualization import Visualization
from .page_sections import graph_data, op_histogram, rewrite_data, rule_summaries


def run_page(report: Report, visualization: Visualization) -> str:
    """The page of `passes run`, as HTML."""
    done = f"optimized with the pipeline {report.pipeline}"
    return page("run", report.source, done, report.versions, run_tiles(report), report, visualization)


def page(
    command: str,
    source: str,
    summary: str,
    named_versions: dict[str, str],
    tiles: Iterable[Tile],
    report: Report | None,
    visualization: Visualization,
    **more: Any,
) -> str:
    """A page of any command as HTML: `tiles`, the rewrites and graphs of `visualization`, and `more` sections."""
    rewrites, pictures = rewrite_data(visualization)
    graph = graph_data(visualization)
    sections: dict[str, Any] = {"comparison": None, "times": None, "lanes": "", **more}
    return render_template(
        "page.html",
        command=command,
        source=source,
        model=Path(source).name or source,
        summary=summary,
        versions=named_versions or versions(),
        tiles=list(tiles),
        report=report,
        verdict=verdict_banner(report) if report is not None else None,
        histogram=op_histogram(report) if report is not None else None,
        rules=rule_summaries(visualization),
        rewrites=compress_json(rewrites) if rewrites else "",
        pictures=[compress_json(sheaf) for sheaf in pictures],
        rewrite_count=len(rewrites),
        drawn_count=sum(r.before is not None for r in visualization.rewrites),
        graph=compress_json(graph) if graph is not None else "",
        **sections,
    )


def verdict_banner(report: Report) -> VerdictBanner:
    """What verification came to."""
    verdict = report.verification
    if verdict is not None and verdict.failure is not None:
        return VerdictBanner([f"wrong: {verdict.failure}"], "bad")
    return VerdictBanner(list(verdict_lines(verdict)), "open" if verdict is None else "good")


def run_tiles(report: Report) -> Iterator[Tile]:
    """Sizes before and after, and how much was done."""
    b, a = report.before, report.after
    yield size_tile("nodes", b.nodes, a.nodes, number_text.thousands(b.nodes), number_text.thousands(a.nodes))
    yield size_tile("file", b.bytes, a.bytes, number_text.size(b.bytes), number_text.size(a.bytes))
    yield size_tile(
        "parameters", b.parameters, a.parameters, number_text.compact(b.parameters), number_text.compact(a.parameters)
    )
    changes = sum(p.changes for p in report.passes)
    rules = sum(bool(n) for p in report.passes for n in p.rules.values())
    yield Tile("rewrites", number_text.thousands(changes), note=f"of {rules} rule{'s' * (rules != 1)}")
    left_out = len(report.quarantined) + len(report.unfit)
    if left_out:
        yield Tile(
            "left out", number_text.thousands(left_out), note="see below", tone="bad" if report.quarantined else ""
        )
