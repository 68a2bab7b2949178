"""Pages of searches: decisions, trials, and the fronts of time, memory and size."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..optimize.page import page
from ..report.charts import Bar, Chart, Curve, bar_chart, front_chart, size_text
from ..report.number_text import bounds, ratio
from ..report.tile import Tile, size_tile
from .racing import RaceEntry
from .render import comparison_rows, decision_rows, note_lines, summary_lines, trial_rows
from .report import TuneReport
from .search import TAKEN


def tune_page(report: TuneReport) -> str:
    """The page of `passes tune`."""
    return page(
        "tune",
        report.source,
        f"tuned for {report.objective.figure} on {report.machine}",
        report.versions,
        tune_tiles(report),
        tuning=report,
        outcome=summary_lines(report),
        notes=note_lines(report),
        decisions=list(decision_rows(report)),
        compared=list(comparison_rows(report)),
        trials=list(trial_rows(report.trials)),
        fronts=list(front_charts(report)),
        ablation=list(ablation_charts(report)),
    )


def tune_tiles(report: TuneReport) -> Iterator[Tile]:
    """The figure of the objective, memory, file, and the number of choices."""
    a, b = report.original, report.result
    if report.ratio is None:
        yield Tile("result", "the original", note="nothing was surely better")
    else:
        yield Tile(
            report.objective.figure, ratio(report.ratio), note=f"{bounds(report.ratio)} of the original's", tone="good"
        )
    yield size_tile("memory, peak", a.peak, b.peak)
    yield size_tile("file", a.bytes, b.bytes)
    yield Tile("choices", f"{sum(t.raced is not None for t in report.trials)}", note="raced")
    if report.noise.busy:
        yield Tile("busy machine", f"{report.noise.busy} of {report.noise.races}", note="races", tone="bad")


def ablation_charts(report: TuneReport) -> Iterator[Chart]:
    """The gain of each decision that was kept."""
    kept = [(d, d.brought) for d in report.decisions if d.is_kept and d.brought is not None]
    if kept:
        title = "What each decision brought"
        bars = [Bar(f"{d.decision}: {d.label}", r.ratio, f"{r.ratio:.2f}", r.low, r.high, "ours") for d, r in kept]
        note = (
            f"{report.objective.figure} with it, divided by that without it, all others being the same; less is better"
        )
        yield title, note, bar_chart(title, bars, "{:.2f}".format)


def front_charts(report: TuneReport) -> Iterator[Chart]:
    """Peak memory and bytes against the time of all that was raced; only figures that differ."""
    figures: tuple[tuple[str, Callable[[RaceEntry], int]], ...] = (
        ("Peak memory", lambda r: r.peak),
        ("Bytes on disk", lambda r: r.bytes),
    )
    for title, figure in figures:
        placed = [
            (t, (t.to_original, float(figure(t.raced)))) for t in report.trials if t.raced is not None and t.to_original
        ]
        original = [(1.0, float(figure(report.original)))]
        time = report.result.time
        ours = [(time.ratio, float(figure(report.result)))] if time is not None and not report.is_original else []
        others = [point for t, point in placed if t.outcome != TAKEN]
        steps = [point for t, point in placed if t.outcome == TAKEN]
        curves = [Curve(others, "plain"), Curve(steps, "step"), Curve(original, "baseline"), Curve(ours, "ours")]
        if len({y for c in curves for _, y in c.points}) < 2 or not placed:
            continue
        note = "estimated from a chain of races; better is down and left, the line joins those that no other beats"
        axes = "time, the original's being 1", title.lower()
        texts = "{:.2f}".format, size_text
        yield front_chart(f"{title} against time", note, curves, axes, texts, is_less_better=True)
