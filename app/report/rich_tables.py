"""Tables on a terminal, adapted to its width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from ...core.support.printable_text import printable
from .document import Cell, Table, TableRow, cell_lines

FRAMES = (box.HEAVY_HEAD, box.SIMPLE_HEAD)
"""The frames of tables, in order of preference; all tables of a document use the first that fits, or the last."""
TONES = {"ours": "bold", "total": "bold", "wrong": "red", "bad": "red", "open": "yellow", "muted": "dim"}
MAX_WIDTH = 100_000  # columns
BORDER = 3  # columns of a frame for each table column
MIN_NAME_WIDTH = 12  # columns for names and other texts; longer ones may be folded
MIN_CUT_WIDTH = 30  # columns for a name that may be truncated


def rich_tables(tables: Sequence[Table], console: Console) -> Iterator[Iterator[RichTable | str]]:
    """Each table as one or more tables that fit a terminal; without space, each cell is on a line below its row."""
    parts = [list(_parts(table, console.width)) for table in tables]
    fitting = (f for f in FRAMES if all(_fits(_without_optional(t), f, console) for p in parts for t in p))
    frame = next(fitting, FRAMES[-1])
    for own in parts:
        yield (r for part in own for r in _rendered(part, frame, console))


def _rendered(table: Table, frame: box.Box, console: Console) -> Iterator[RichTable | str]:
    for shown in (table, _without_optional(table)):
        if _fits(shown, frame, console):
            yield _framed(shown, frame, console.width)
            return
    first, *others = (" ".join(heading.split("\n")) for heading in table.headings)
    for row in table.rows:
        name, *cells = (" ".join(cell_lines(cell)) for cell in row.cells)
        yield name if row.is_heading else ": ".join(filter(None, (first, name)))
        yield from (f"  {heading}: {text}" for heading, text in zip(others, cells, strict=False) if text)


def _parts(table: Table, width: int) -> Iterator[Table]:
    """Yield the table, or one for each group of columns that fits, without rows that have no cells there."""
    if not table.splits:
        yield table
        return
    widths = [_width(table, i) + BORDER for i in range(len(table.headings))]
    groups, taken = [[0]], widths[0] + 1
    for i, needed in enumerate(widths[1:], 1):
        if taken + needed > width and len(groups[-1]) > 1:
            groups.append([0])
            taken = widths[0] + 1
        groups[-1].append(i)
        taken += needed
    for group in groups:
        rows = [TableRow([row.cells[i] for i in group if i < len(row.cells)], row.tone) for row in table.rows]
        shown = [row for row in rows if row.is_heading or any(row.cells[1:])]
        yield replace(table, headings=[table.headings[i] for i in group], rows=shown, splits=False)


def _width(table: Table, column: int) -> int:
    """The terminal columns of the widest cell in a column."""
    cells = (row.cells[column] for row in table.rows if column < len(row.cells))
    lines = [*table.headings[column].split("\n"), *(line for cell in cells for line in cell_lines(cell))]
    return max(map(cell_len, lines))


def _framed(table: Table, frame: box.Box, width: int) -> RichTable:
    """The table in a frame; names that may be truncated get the space that other columns leave."""
    is_closed = frame is not FRAMES[-1]
    found = RichTable(box=frame, padding=(0, 1) if is_closed else (0, 1, 0, 0), pad_edge=is_closed)
    for i, heading in enumerate(table.headings):
        is_text = table.is_text(i)
        found.add_column(
            _text(tuple(heading.split("\n"))),
            overflow="fold",
            justify="left" if is_text else "right",
            min_width=min(MIN_NAME_WIDTH, _width(table, i)) if is_text else None,
            no_wrap=not is_text,
        )
    cut = [i for i, heading in enumerate(table.headings) if heading in table.cut]
    taken = sum(BORDER + _width(table, i) for i in range(len(table.headings)) if i not in cut)
    longest = max((width - taken) // max(len(cut), 1) - BORDER, MIN_CUT_WIDTH)
    for row in table.rows:
        if row.is_heading or row.tone == "total":
            found.add_section()
        limits = (longest if i in cut else MAX_WIDTH for i in range(len(row.cells)))
        found.add_row(*map(_text, row.cells, limits), style=TONES.get(row.tone, ""))
    return found


def _text(cell: Cell, limit: int = MAX_WIDTH) -> Text:
    """Lines of text without markup, because names may look like [red]; long ones are truncated on the left."""
    return Text("\n".join(printable(t if len(t) <= limit else f"...{t[3 - limit :]}") for t in cell_lines(cell)))


def _without_optional(table: Table) -> Table:
    """The table without its optional columns."""
    kept = [i for i, heading in enumerate(table.headings) if heading not in table.optional]
    rows = [TableRow([row.cells[i] for i in kept if i < len(row.cells)], row.tone) for row in table.rows]
    return replace(table, headings=[table.headings[i] for i in kept], rows=rows)


def _fits(table: Table, frame: box.Box, console: Console) -> bool:
    """Whether a table fits; columns of text may be narrower."""
    options, framed = console.options.update(max_width=MAX_WIDTH), _framed(table, frame, console.width)

    def spare(column: Column) -> int:
        sizes = (Measurement.get(console, options, c).maximum for c in (column.header, *column.cells))
        return 0 if column.min_width is None else max(sizes) - column.min_width

    return Measurement.get(console, options, framed).maximum - sum(map(spare, framed.columns)) <= console.width
