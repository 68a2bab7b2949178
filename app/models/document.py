"""Documents about the results of many models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from rich.filesize import decimal

from ..registry.environment import versions
from ..report.charts import Bar, BarChart, size_text
from ..report.document import PAGE, TERMINAL, Charts, Document, Section, Table, TableRow, Tile, Widget, table
from ..report.number_text import change, duration, plural
from ..report.result_row import COLUMNS, ResultRow
from .rows import Summary, arrow, rejected, rewrites

MAX_ROWS = 40  # in a table with a row for each model
MAX_BARS = 12  # of the slowest and of the largest models
MAX_PLACES = 20  # at which changes of a rule were skipped
HIDDEN = frozenset({"exit_code", "output", "rules", "latency_low", "latency_high"})
"""Columns that are part of others, or in separate tables."""


def describe(summary: Summary, end: str = "") -> Document:
    """Describe all models, the rules, and the slowest and largest models; a terminal gets a table, counts and `end`."""
    commands = " and ".join(sorted({f"passes {row['do']}" for row in summary.rows}))
    outcomes = {outcome: len(found) for outcome, found in summary.by_outcome.items()}
    models = Widget("models.html", {"outcomes": outcomes}, lambda: {"models": models_data(summary)})
    failed = any(row.get("error") is not None for row in summary.rows)
    subject = plural(len(summary.rows), "model")
    return Document(
        "passes batch",
        subject,
        f"{subject}: {summary.counts}; {end}" if end else summary.counts,
        "bad" if failed else "good",
        summary="" if end else commands,
        tiles=[*batch_tiles(summary)],
        evidence=[outcome_table(summary)],
        blocks=[
            Section("models", "Models", [models]),
            Section("extremes", "Slowest and largest", [Charts([*extreme_charts(summary.rows)])]),
            Section("rules-of-all", "Rules", [rule_table(summary)]),
        ],
        footer=[f"{name} {version}" for name, version in versions().items()],
    )


def outcome_table(summary: Summary) -> Table:
    """A table for a terminal of all models, or of the outcomes if there are many models."""
    count = len(summary.rows)
    if count <= MAX_ROWS:
        first, last = "model", "outcome"
        rows = [TableRow((str(row["model"]), *_totals(Summary([row])), str(row["outcome"]))) for row in summary.rows]
    else:
        first, last = "outcome", "models"
        groups = summary.by_outcome.items()
        rows = [TableRow((outcome, *_totals(Summary(found)), str(len(found)))) for outcome, found in groups]
    rows.append(TableRow((f"all {count}", *_totals(summary), ""), "total"))
    headings = (first, "nodes", "bytes", last)
    filled = [n for n, heading in enumerate(headings) if heading in (first, last) or any(row.cells[n] for row in rows)]
    rows = [TableRow([row.cells[n] for n in filled], row.tone) for row in rows]
    return table("Models", [headings[n] for n in filled], rows, optional=["bytes"], on=TERMINAL)


def _totals(summary: Summary) -> list[str]:
    """The sums of nodes and bytes of some models, before and after."""
    return [arrow(name, pair) if (pair := summary.totals(name))[0] else "" for name in ("nodes", "bytes")]


def models_data(summary: Summary) -> dict[str, Any]:
    """The rows of the table of models, with their rules."""
    columns = shown_columns(summary.rows)
    return {
        "columns": columns,
        "rows": [_cells(row, columns) for row in summary.rows],
        "rules": ["\n".join(rewrites(row)) for row in summary.rows],
    }


def rule_table(summary: Summary) -> Table:
    """The number of models to which each rule applied, and where its change was wrong and was skipped."""
    rows = list[TableRow]()
    for r in summary.rules:
        places = [f"{model} at {place}" if place else model for model, place in r.left_out[:MAX_PLACES]]
        more = len(r.left_out) - MAX_PLACES
        left_out = (*places, *[f"and {more:,} others"] * (more > 0))
        cells = (r.rule, f"{len(r.models):,}", f"{r.rewrites:,}", next(iter(r.models), ""), left_out)
        rows.append(TableRow(cells, "wrong" if r.left_out else ""))
    headings = ("rule", "models", "rewrites", "example model", "skipped as wrong")
    return table("Rules by number of models", headings, rows, texts=headings[3:], on=PAGE)


def shown_columns(rows: Sequence[ResultRow]) -> list[str]:
    """The columns of the table of models, without redundant or empty ones."""
    same = {
        "do": len({row["do"] for row in rows}) == 1,
        "opset_after": all(row.get("opset_after") == row.get("opset_before") for row in rows),
    }
    hidden = HIDDEN | {name for name, is_same in same.items() if is_same}
    return [name for name in COLUMNS if name not in hidden and any(row.get(name) for row in rows)]


def batch_tiles(summary: Summary) -> Iterator[Tile]:
    """The sums of nodes and bytes over all models, the failures, and the time."""
    for name, text in (("nodes", "{:,}".format), ("bytes", decimal)):
        before, after = summary.totals(name)
        if before:
            yield Tile(name, text(after), text(before), change(before, after), "good" if after < before else "")
    failed = sum(row.get("error") is not None for row in summary.rows)
    yield Tile("failures", f"{failed:,}", note=f"of {plural(len(summary.rows), 'model')}", tone="bad" if failed else "")
    seconds = sum(float(row.get("seconds") or 0) for row in summary.rows)
    yield Tile("time", duration(seconds), note="sum over all models")


def extreme_charts(rows: Sequence[ResultRow]) -> Iterator[BarChart]:
    """The slowest and the largest models."""
    for title, column, text, note in (
        ("Slowest", "seconds", duration, "time of the command"),
        ("Largest", "bytes_before", size_text, "bytes of the original, weights included"),
    ):
        found = sorted(((float(row.get(column) or 0), str(row["model"])) for row in rows), reverse=True)[:MAX_BARS]
        bars = [Bar(PurePath(model).name, number, text(number)) for number, model in found if number]
        if bars:
            yield BarChart(title, note, bars, text)


def _cells(row: ResultRow, columns: Sequence[str]) -> list[Any]:
    """The cells of a row; the skipped changes as text."""
    left_out = ", ".join(f"{rule} at {place}" if place else rule for rule, place in rejected(row))
    return [left_out if name == "rejected" else row.get(name) for name in columns]
