"""Cards: reports as a notebook shows them, without scripts, in the colours of the notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from msgspec import Struct
from rich.table import Table
from rich.text import Text

from ...core.support.printable_text import printable
from .picture_text import cut_end, limit_lines
from .terminal import plural
from .tile import Tile

MAX_BYTES = 30_000
MAX_ROWS = (20, 10, 5)  # of a table, the next number if the card is too large
MAX_LINES = 8  # of a list
MAX_CELL, MAX_CODE, MAX_LINE = 60, 160, 240  # characters


class Card(Struct, frozen=True):
    """A report: the command, its subject, the verdict with its tone (good, open or bad), and details.

    `warnings` and `notes` are lines; `folds` are tables or lines that open, each with a title.
    """

    command: str
    subject: str
    tone: str
    verdict: str
    tiles: Sequence[Tile] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    folds: Sequence[tuple[str, Table | Sequence[str]]] = ()

    def html(self) -> str:
        """The card as HTML, of less than MAX_BYTES: long texts, lists and tables are cut."""
        sizes = (self._html(rows) for rows in MAX_ROWS)
        return next((html for html in sizes if len(html.encode()) < MAX_BYTES), self._html(1))

    def _html(self, max_rows: int) -> str:
        """The card with at most so many rows of each table."""
        from .rendering import render_template  # noqa: PLC0415 - imports jinja2

        return render_template(
            "card.html",
            command=self.command,
            subject=cut_end(printable(self.subject), MAX_LINE),
            tone=self.tone,
            verdict=cut_end(printable(self.verdict), MAX_LINE),
            tiles=self.tiles,
            warnings=_first_lines(self.warnings),
            notes=_first_lines(self.notes),
            folds=[_fold(title, content, max_rows) for title, content in self.folds if not _is_empty(content)],
        )


def _is_empty(content: Table | Sequence[str]) -> bool:
    return not (content.row_count if isinstance(content, Table) else content)


def _fold(title: str, content: Table | Sequence[str], max_rows: int) -> tuple[str, CutTable | None, Sequence[str]]:
    """The title, and a table or lines."""
    if isinstance(content, Table):
        return title, CutTable.of(content, max_rows), ()
    return title, None, limit_lines([cut_end(printable(line), MAX_CODE) for line in content], max_rows)


class CutTable(Struct, frozen=True):
    """The first rows of a table: headers and cells as text; `numeric` columns are to the right."""

    headers: list[str]
    rows: list[tuple[list[str], ...]]
    numeric: list[bool]
    rest: str

    @classmethod
    def of(cls, table: Table, max_rows: int) -> CutTable:
        """The first rows of a table, and the number of the others in words."""
        columns = [[_plain(cell) for cell in islice(column.cells, max_rows)] for column in table.columns]
        more = table.row_count - max_rows
        return cls(
            [" ".join(_plain(column.header)) for column in table.columns],
            list(zip(*columns, strict=True)),
            [column.justify == "right" for column in table.columns],
            f"and {plural(more, 'other row')}" if more > 0 else "",
        )


def _plain(cell: object) -> list[str]:
    """The lines of a cell."""
    text = cell.plain if isinstance(cell, Text) else str(cell)
    return [cut_end(printable(line), MAX_CELL) for line in text.split("\n")[:2]]


def _first_lines(lines: Iterable[str]) -> list[str]:
    return limit_lines([cut_end(printable(line), MAX_LINE) for line in lines], MAX_LINES)
