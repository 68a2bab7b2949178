"""A comparison of optimizers as charts and tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from markupsafe import Markup

from ...core.pass_manager.report import Report
from ..pages import number_text
from ..pages.charts import Bar, chart
from ..pages.tiles import Tile, latency_tile
from ..run.page import page, run_tiles
from ..visualization.visualization import Story
from .comparison_report import OURS, Compared, Row


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the tables: its name, how it stands out, and the row."""

    name: str
    tone: str
    row: Row


@dataclass(frozen=True, slots=True)
class Shown:
    """A comparison with its charts, None where nothing was measured."""

    compared: Compared
    lines: list[Line]
    latency: list[tuple[int, Markup]]
    size: Markup | None
    nodes: Markup | None


def shown(compared: Compared) -> Shown:
    """The comparison as the page has it."""
    lines = [Line(row.label, _tone(row, compared), row) for row in compared.rows]
    latency = [(batch, list(_latencies(lines, batch))) for batch in compared.batches]
    sizes = [
        Bar(line.name, a.bytes, number_text.size(a.bytes), tone=line.tone)
        for line in lines
        if (a := line.row.anatomy) is not None and not line.row.online
    ]
    nodes = [
        Bar(line.name, a.nodes, number_text.thousands(a.nodes), tone=line.tone)
        for line in lines
        if (a := line.row.left or line.row.anatomy) is not None
    ]
    return Shown(
        compared,
        lines,
        [(b, chart(f"Latency, {_samples(b)}", bars, number_text.duration)) for b, bars in latency if bars],
        chart("Bytes on disk", sizes, lambda n: number_text.size(round(n))) if sizes else None,
        chart("Nodes that run", nodes, lambda n: f"{n:,.0f}") if nodes else None,
    )


def _samples(batch: int) -> str:
    return "one sample" if batch == 1 else f"{batch} samples"


def _latencies(lines: list[Line], batch: int) -> Iterator[Bar]:
    for line in lines:
        measured = line.row.measured
        latency = measured.latencies.get(batch) if measured is not None else None
        if latency is not None:
            said = number_text.duration(latency.median)
            yield Bar(line.name, latency.median, said, latency.median_low, latency.median_high, line.tone)


def _tone(row: Row, compared: Compared) -> str:
    """Ours and what is wrong stand out; the baseline is told apart."""
    if row.is_bad:
        return "wrong"
    if row is compared.rows[compared.baseline]:
        return "baseline"
    return "ours" if row.made_by == OURS else "plain"


def compare_page(compared: Compared, report: Report, story: Story) -> str:
    """The page of `passes compare`; `report` and `story` are those of our own run."""
    tiles = chain(compare_tile(compared), run_tiles(report))
    done = f"compared: {len(compared.rows)} ways to run it, ours with the pipeline {compared.pipeline}"
    return page("compare", compared.source, done, compared.versions, tiles, report, story, comparison=shown(compared))


def compare_tile(compared: Compared) -> Iterator[Tile]:
    """How fast our result is in the end, beside the original under the same optimization of onnxruntime's."""
    ours = compared.made_by(OURS, online=True)
    batch = compared.batches[0] if compared.batches else 0
    if wrong := compared.misled(OURS):
        yield Tile("latency under ORT ALL", "wrong", note=f"onnxruntime, about {wrong}: no time counts", tone="bad")
    elif ours is not None and batch in ours.ratios:
        yield latency_tile(ours.ratios[batch], "latency under ORT ALL")
