"""Tables of models, a column for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from os.path import commonpath
from pathlib import Path

from rich.cells import cell_len
from rich.filesize import decimal
from rich.table import Table

from ..report.number_text import compact
from ..report.terminal import Terminal, cell, plural
from .info import InfoReport, ModelInfo

BORDERS = 3  # columns of the terminal that a border takes beside each column of a table
MIN_COLUMN = 12  # columns of the terminal for a model
INDENT = "  "

Row = tuple[str, list[str]]
"""The name of a row, and its text for each model; no texts for a heading."""


def show_info(terminal: Terminal, report: InfoReport) -> None:
    """Print the models in as many tables as the terminal is narrow, and a line for each that cannot be loaded."""
    for message in report.failures.values():
        terminal.warning(f"error: {message}")
    if not report.models:
        return
    names = column_names([m.model for m in report.models])
    rows = list(info_rows(report))
    label_width = max(cell_len(label) for label, _ in rows)
    widths = [
        max(cell_len(t) for t in (names[i], *(texts[i] for _, texts in rows if texts))) for i in range(len(names))
    ]
    for chosen in column_groups(widths, label_width, terminal.out.width):
        terminal.out.print(info_table(rows, names, chosen))


def column_names(models: Sequence[str]) -> list[str]:
    """Names of models that differ: those of the files, with as many of their folders as they do not share."""
    short = [Path(m).name for m in models]
    if len(set(short)) == len(set(models)):
        return short
    shared = commonpath([Path(m).absolute().parent for m in models])
    return [str(Path(m).absolute().relative_to(shared)) for m in models]


def column_groups(widths: Sequence[int], label_width: int, width: int) -> Iterator[list[int]]:
    """The columns, by number, of each table, so that it fits into `width`; one that is too wide is alone."""
    group, taken = list[int](), label_width + BORDERS + 1
    for i, needed in enumerate(widths):
        if group and taken + needed + BORDERS > width:
            yield group
            group, taken = [], label_width + BORDERS + 1
        group.append(i)
        taken += needed + BORDERS
    yield group


def info_table(rows: Sequence[Row], names: Sequence[str], chosen: Sequence[int]) -> Table:
    """A table of the chosen models, without rows that none of them has."""
    table = Table()
    table.add_column("", overflow="fold", min_width=min(MIN_COLUMN, max(cell_len(label) for label, _ in rows)))
    for i in chosen:
        table.add_column(cell(names[i]), justify="right", overflow="fold", min_width=MIN_COLUMN)
    for label, texts in rows:
        shown = [texts[i] for i in chosen] if texts else []
        if not texts:
            table.add_section()
        elif not any(shown):
            continue
        table.add_row(cell(label), *map(cell, shown), style="bold" if not texts else "")
    return table


def info_rows(report: InfoReport) -> Iterator[Row]:
    """The rows of the table."""
    models = report.models

    def row(label: str, text: Callable[[ModelInfo], str]) -> Row:
        return label, list(map(text, models))

    yield row("nodes", lambda m: f"{m.nodes:,}")
    for op in report.ops:
        yield row(f"{INDENT}{op}", lambda m, op=op: f"{m.ops[op]:,}" if op in m.ops else "")
    yield "size", []
    yield row(f"{INDENT}on disk", lambda m: decimal(m.bytes))
    yield row(f"{INDENT}external", _external_text)
    yield row(f"{INDENT}parameters", lambda m: f"{m.parameters:,}")
    for dtype in dict.fromkeys(d for m in models for d in m.weights):
        yield row(f"{INDENT}{dtype}", lambda m, d=dtype: _weights_text(m, d))
    yield "model", []
    for domain in dict.fromkeys(d for m in models for d in m.opsets):
        yield row(f"{INDENT}opset {domain}", lambda m, d=domain: str(m.opsets.get(d, "")))
    yield row(f"{INDENT}IR version", lambda m: str(m.ir_version))
    yield row(f"{INDENT}producer", lambda m: m.producer)
    yield row(f"{INDENT}functions", lambda m: str(m.functions or ""))
    yield row(f"{INDENT}overridable", lambda m: str(len(m.overridable_initializers) or ""))
    yield row(f"{INDENT}metadata", lambda m: str(len(m.metadata) or ""))
    for heading, types in (("inputs", [m.inputs for m in models]), ("outputs", [m.outputs for m in models])):
        yield heading, []
        for name in dict.fromkeys(n for t in types for n in t):
            yield f"{INDENT}{name}", [t.get(name, "") for t in types]


def _external_text(m: ModelInfo) -> str:
    return f"{decimal(m.external_bytes)} in {plural(len(m.external_files), 'file')}" if m.external_files else ""


def _weights_text(m: ModelInfo, dtype: str) -> str:
    found = m.weights.get(dtype)
    return f"{compact(found.elements)}, {decimal(found.bytes)}" if found is not None else ""
