"""The document of a search: decisions, choices, and the fronts of time, memory and size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from rich.filesize import decimal

from ...core.ort.engines import ONNXRUNTIME
from ..report.charts import Bar, BarChart, Chart, Curve, front_chart, size_text
from ..report.document import (
    CARD,
    PAGE,
    TERMINAL,
    Charts,
    Document,
    Lines,
    Section,
    Table,
    TableRow,
    Tile,
    size_tile,
    table,
)
from ..report.number_text import bounds, change, duration, plural, ratio, ratio_with_bounds
from ..report.verdict_text import verdict_line
from .racing import RaceEntry
from .report import TuneReport
from .search import TAKEN

LEGEND = {"ours": "result", "baseline": "original", "step": "taken on the way", "plain": "others"}


def describe(report: TuneReport, output: Path | None = None) -> Document:
    """Describe the gain of each decision, the comparison with the original, the choices, and the files."""
    verdict, *others = summary_lines(report)
    files = ", ".join(report.written_to)
    end = f"written to {files}" if output is not None else "not written: give -o FILE to keep it"
    race = "The final race, in fresh processes side by side: the original with the defaults of onnxruntime"
    conditions = f"{race}, and the result with its settings, on inputs of {'; '.join(report.sizes)}."
    decisions = [Charts([*ablation_charts(report)]), decision_table(report)]
    choices = [Charts([*front_charts(report)], LEGEND), choice_table(report)]
    return Document(
        "passes tune",
        report.source,
        verdict,
        "open" if report.is_original else "good",
        summary=f"for {report.objective.figure} on {report.machine}",
        tiles=[*tune_tiles(report)],
        evidence=[
            Section("decisions", "Effect of each decision", decisions, "Decisions"),
            Section(
                "tuning", "Original and result", [comparison_table(report), Lines([conditions], on=PAGE)], "Result"
            ),
            Section("choices", "Choices", choices, on=CARD | PAGE),
        ],
        blocks=[
            Lines(others),
            Lines([*filter(None, [str(report.noise)]), *report.notes], "note"),
            Lines([end], on=TERMINAL),
        ],
        footer=[f"{name} {version}" for name, version in report.versions.items()],
    )


def tune_tiles(report: TuneReport) -> Iterator[Tile]:
    """Yield the figure of the objective, memory, file size, and the number of choices."""
    a, b = report.original, report.result
    if report.ratio is None:
        why = "the time was too short" if report.is_undecided else "nothing was significantly better"
        yield Tile("result", "the original", note=why)
    else:
        yield Tile(
            report.objective.figure, ratio(report.ratio), note=f"{bounds(report.ratio)} of the original's", tone="good"
        )
    if a.peak:
        yield size_tile("memory, peak", a.peak, b.peak)
    yield size_tile("file", a.bytes, b.bytes)
    yield Tile("choices", f"{sum(t.raced is not None for t in report.trials)}", note="raced")
    if report.noise.busy:
        yield Tile("busy machine", f"{report.noise.busy} of {report.noise.races}", note="races", tone="bad")


def ablation_charts(report: TuneReport) -> Iterator[Chart]:
    """Yield the gain of each decision that was kept."""
    kept = [(d, d.brought) for d in report.decisions if d.is_kept and d.brought is not None]
    if kept:
        title = "Gain of each decision"
        bars = [Bar(f"{d.decision}: {d.label}", r.ratio, f"{r.ratio:.2f}", r.low, r.high, "ours") for d, r in kept]
        note = (
            f"{report.objective.figure} with it, divided by the value without it and otherwise the same; less is better"
        )
        yield BarChart(title, note, bars, "{:.2f}".format)


def front_charts(report: TuneReport) -> Iterator[Chart]:
    """Yield peak memory and bytes against the time of everything that was raced, if they vary."""
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
        note = "estimated from a chain of races; the lower left is best; the line joins those that no other beats"
        axes = "time relative to the original", title.lower()
        texts = "{:.2f}".format, size_text
        yield front_chart(f"{title} against time", note, curves, axes, texts, is_less_better=True)


def decision_table(report: TuneReport) -> Table:
    """The choices of the search, the figure with each divided by that without it, and whether it was reverted."""
    rows = [
        (
            d.decision,
            d.label,
            "not measured" if d.brought is None else ratio_with_bounds(d.brought),
            "" if d.is_kept else "reverted",
        )
        for d in report.decisions
    ]
    headings = ("decision", "choice", f"{report.objective.figure}\nagainst without", "")
    return table("Effect of each decision", headings, rows, texts=["choice"])


def comparison_table(report: TuneReport) -> Table:
    """Original and result: time by size of the inputs, memory and file."""
    engine = report.configuration.session.engine_name
    headings = ("original", "result") if engine == ONNXRUNTIME else (f"original, {ONNXRUNTIME}", f"result, {engine}")
    return table("Original and result", ("", *headings, "change"), comparison_rows(report))


def comparison_rows(report: TuneReport) -> Iterator[tuple[str, str, str, str]]:
    """Yield a name, the original, the result, and the change between them, for times with its interval."""
    a, b = report.original, report.result
    sizes = [size for size in report.sizes if size in a.seconds.keys() & b.seconds.keys()]
    figures = [("p50", a.seconds, b.seconds, b.time)]
    if report.objective.quantile != "p50":
        figures.append((report.objective.quantile, a.tails, b.tails, b.ratio))
    for name, was, now, against in figures:
        text = "" if against is None or report.is_original else ratio_with_bounds(against)
        for size in sizes:
            yield f"{name}, {size}", duration(was[size]), duration(now[size]), text if len(sizes) == 1 else ""
        if len(sizes) > 1:
            yield f"{name}, mean of all", "", "", text
    if a.peak:
        yield "memory, peak", decimal(a.peak), decimal(b.peak), change(a.peak, b.peak)
    yield "disk", decimal(a.bytes), decimal(b.bytes), change(a.bytes, b.bytes)
    if a.threads:
        yield "threads", str(a.threads), str(b.threads), ""


def choice_table(report: TuneReport) -> Table:
    """All choices of the search, with the figure of each divided by the previous result's."""
    rows = list[TableRow]()
    for t in report.trials:
        raced = t.raced
        figure = ratio_with_bounds(raced.ratio) if raced is not None and raced.ratio is not None else ""
        sizes = (decimal(raced.peak), decimal(raced.bytes)) if raced is not None and raced.bytes else ("", "")
        rows.append(TableRow((t.choice, t.stage, figure, *sizes, t.outcome), "ours" if t.outcome == TAKEN else ""))
    headings = ("choice", "stage", f"{report.objective.figure} against before", "memory, peak", "bytes", "outcome")
    return table("Trials", headings, rows, texts=["stage", "outcome"])


def summary_lines(report: TuneReport) -> list[str]:
    """The outcome in words."""
    tried = plural(sum(t.raced is not None for t in report.trials), "choice")
    if report.ratio is None:
        none = f"of {tried}, none was significantly better"
        why = "the search ended before a choice was raced" if report.is_undecided else none
        why = f"{report.unfinished}; raise --time" if report.unfinished else why
        return [f"the original and the defaults of onnxruntime are kept: {why}"]
    how = ", ".join(report.words)
    lines = [f"{ratio_with_bounds(report.ratio)} of the original's {report.objective.figure}: {how}; {tried} raced"]
    return [*lines, *([verdict_line(report.verdict)] if report.verdict is not None else [])]
