"""The document of the difference of two reports."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..report.document import CARD, PAGE, TERMINAL, Document, Lines, Media, Section, Table, TableRow, Tile, table
from ..report.finding import Finding, Level
from ..report.number_text import plural
from .report_diff import Figure, FigureChange, ReportsDifference

TONES = {"worse": "wrong", "better": "ours"}


def describe_reports(found: ReportsDifference) -> Document:
    """The figures that are worse or better; a page and a card have all of them."""
    worse = found.worse
    better = [c for c in found.changes if c.outcome == "better"]
    others = [c for c in found.changes if c.outcome not in {"worse", "better", "same"}]
    models = len({c.subject for c in found.changes})
    counts = f"{plural(len(worse), 'figure')} worse" if worse else "nothing is worse"
    figures = f"{plural(len(found.changes), 'figure')} of {plural(models, 'model')}"
    shown = [*worse, *better, *others]
    return Document(
        "passes diff",
        f"{found.other} against {Path(found.original).name}",
        f"{counts}, {len(better)} better, of {figures}",
        "bad" if worse else "good",
        tiles=[
            Tile("worse", str(len(worse)), tone="bad" if worse else ""),
            Tile("better", str(len(better)), tone="good" if better else ""),
            Tile("figures", str(len(found.changes)), note=f"of {plural(models, 'model')}"),
        ],
        evidence=[
            Section("figures", "Figures", [_table(shown, TERMINAL), _table(found.changes, CARD | PAGE)]),
        ],
        blocks=[Lines([f"times are not compared, as conditions differ: {c}" for c in found.conditions], "note")],
        findings=[Finding(Level.ERROR, "regression", "worse", _line(c), found.other) for c in worse],
    )


def _table(changes: Iterable[FigureChange], media: Media) -> Table:
    rows, last = list[TableRow](), ""
    for c in changes:
        name = c.subject if c.subject != last else ""
        rows.append(TableRow((name, c.name, _text(c.before), _text(c.after), c.outcome), TONES.get(c.outcome, "")))
        last = c.subject
    return table("Figures", ("model", "figure", "before", "after", ""), rows, texts=["figure", ""], on=media)


def _line(change: FigureChange) -> str:
    return f"{change.subject}: {change.name}: {_text(change.before)} -> {_text(change.after)}"


def _text(figure: Figure | None) -> str:
    return "" if figure is None else figure.text
