"""Tables of a search, none wider than 80 characters but for names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.filesize import decimal
from rich.table import Table

from ..report.card import Card
from ..report.number_text import change, duration, ratio_with_bounds
from ..report.terminal import Terminal, new_table, plural
from ..verify.render import verdict_line
from .report import TuneReport
from .search import TAKEN, RaceTrial


def show_tuning(terminal: Terminal, report: TuneReport, *, output: Path | None) -> None:
    """Print the gain of each decision, the comparison with the original, and the files."""
    terminal.line(report.source, "bold")
    terminal.wrapped_lines(f"note: {note}" for note in note_lines(report))
    if report.decisions:
        terminal.table(decision_table(report))
    terminal.table(comparison_table(report))
    terminal.wrapped_lines(summary_lines(report))
    files = ", ".join(report.written_to)
    terminal.line(f"written to {files}" if output is not None else "not written: give -o FILE to keep it")


def tune_card(report: TuneReport) -> Card:
    """The card of a search."""
    folds = [("What each decision brought", decision_table(report)), ("Original and result", comparison_table(report))]
    folds.append(("Trials", trial_table(report.trials)))
    verdict, *others = summary_lines(report)
    tone = "open" if report.is_original else "good"
    return Card("passes tune", report.source, tone, verdict, notes=[*others, *note_lines(report)], folds=folds)


def note_lines(report: TuneReport) -> list[str]:
    """The notes, that about a busy machine first."""
    return [*filter(None, [str(report.noise)]), *report.notes]


def decision_table(report: TuneReport) -> Table:
    """The choices of the search, and the figure with each divided by that without it."""
    headings = ("decision", "choice", f"{report.objective.figure}\nagainst without", "")
    return new_table(*headings, texts=["choice"], rows=decision_rows(report))


def decision_rows(report: TuneReport) -> Iterator[tuple[str, str, str, str]]:
    """The cells of each decision: its name, the choice, the gain, and whether it was taken back."""
    for d in report.decisions:
        brought = "" if d.brought is None else ratio_with_bounds(d.brought)
        yield d.decision, d.label, brought, "" if d.is_kept else "taken back"


def comparison_table(report: TuneReport) -> Table:
    """Original and result: time by size of the inputs, memory and file."""
    return new_table("", "original", "result", "change", rows=comparison_rows(report))


def comparison_rows(report: TuneReport) -> Iterator[tuple[str, str, str, str]]:
    """A name, the original, the result, and the change from one to the other."""
    a, b = report.original, report.result
    for size in (
        a.seconds.keys() & b.seconds.keys() if len(a.seconds) < 2 else [s for s in report.sizes if s in a.seconds]
    ):
        yield (
            f"p50, {size}",
            duration(a.seconds[size]),
            duration(b.seconds[size]),
            change(a.seconds[size], b.seconds[size]),
        )
        yield f"p99, {size}", duration(a.tails[size]), duration(b.tails[size]), change(a.tails[size], b.tails[size])
    yield "memory, peak", decimal(a.peak), decimal(b.peak), change(a.peak, b.peak)
    yield "disk", decimal(a.bytes), decimal(b.bytes), change(a.bytes, b.bytes)
    yield "threads", str(a.threads), str(b.threads), ""


def trial_table(trials: Sequence[RaceTrial]) -> Table:
    """All choices of the search."""
    rows = ((row[0], row[2], row[-1]) for _, row in trial_rows(trials))
    return new_table("choice", "against before", "outcome", texts=["outcome"], rows=rows)


def trial_rows(trials: Sequence[RaceTrial]) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """Whether a choice was taken, and its cells: stage, choice, figure, memory, bytes and outcome."""
    for t in trials:
        raced = t.raced
        figure = ratio_with_bounds(raced.ratio) if raced is not None and raced.ratio is not None else ""
        sizes = (decimal(raced.peak), decimal(raced.bytes)) if raced is not None and raced.bytes else ("", "")
        yield t.outcome == TAKEN, (t.choice, t.stage, figure, *sizes, t.outcome)


def summary_lines(report: TuneReport) -> list[str]:
    """The outcome in words."""
    tried = plural(sum(t.raced is not None for t in report.trials), "choice")
    if report.ratio is None:
        return [
            f"the original with the defaults of onnxruntime is kept: of {tried} none was surely better",
        ]
    how = ", ".join(report.words)
    lines = [f"{ratio_with_bounds(report.ratio)} of the original's {report.objective.figure}: {how}; {tried} raced"]
    return [*lines, *([verdict_line(report.verdict)] if report.verdict is not None else [])]
