"""Cards that notebooks show for documents, without scripts, in the notebook's colours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module

from msgspec import Struct, to_builtins

from ...core.support.printable_text import json_text, printable
from .document import CARD, Document, Lines, Preformatted, Table, cell_lines
from .number_text import plural
from .page import page_html, render_template
from .picture_text import cut_end, limit_lines
from .progress import in_python

MAX_BYTES = 30_000
MAX_ROWS = (20, 10, 5, 1)  # of a table; the next number is used if the card is too large
MAX_LINES = 8  # of a list
MAX_CELL, MAX_CODE, MAX_LINE = 60, 160, 240  # characters


def report_card(self: object) -> str:
    """The card of a report, for use as the method `_repr_html_`."""
    return card_html(_document_of(self))


def report_json(self: object) -> str:
    """The report as JSON text: all of its fields."""
    return json_text(to_builtins(self, enc_hook=str))


def report_page(report: object) -> str:
    """The page of a report, as HTML."""
    return page_html(_document_of(report))


def report_line(self: object) -> str:
    """The subject and verdict of a report in one line, for use as the method `__repr__`."""
    document = _document_of(self)
    text = in_python(document.verdict or document.summary)
    return printable(f"<{type(self).__name__} {document.subject}{f': {text}' if text else ''}>")


def _document_of(report: object) -> Document:
    """The document of a report, by the function `describe` of its module, or else of `document` in its package."""
    module = type(report).__module__
    own = vars(import_module(module))
    describe = own["describe"] if "describe" in own else import_module(".document", module.rpartition(".")[0]).describe
    document: Document = describe(report)
    return document


def card_html(document: Document) -> str:
    """The card of a document as HTML, less than MAX_BYTES: long texts, lists and tables are cut."""
    sizes = [_card(document, rows) for rows in MAX_ROWS]
    return next((html for html in sizes if len(html.encode()) < MAX_BYTES), sizes[-1])


def _card(document: Document, max_rows: int) -> str:
    """The card with at most `max_rows` rows of each table."""
    return render_template(
        "card.html",
        document=document,
        subject=cut_end(printable(document.subject), MAX_LINE),
        verdict=cut_end(printable(document.verdict or document.summary), MAX_LINE),
        warnings=_first_lines(document.warnings),
        notes=_first_lines(card_lines(document)),
        folds=[
            (b.title, ShortTable.of(b, max_rows), ())
            if isinstance(b, Table)
            else (b.title, None, limit_lines([cut_end(printable(line), MAX_CODE) for line in b.lines], max_rows))
            for b in card_folds(document)
        ],
    )


def card_lines(document: Document) -> list[str]:
    """The sentences of a card."""
    details = document.details if document.details.on & CARD else ()
    return [*details, *(line for block in document.shown(CARD) if isinstance(block, Lines) for line in block)]


def card_folds(document: Document) -> Iterator[Table | Preformatted]:
    """The expandable tables and listings of a card."""
    return (block for block in document.shown(CARD) if isinstance(block, Table | Preformatted))


class ShortTable(Struct, frozen=True):
    """The first rows of a table, with the lines of each cell; `numeric` columns are right-aligned."""

    headings: Sequence[str]
    rows: Sequence[Sequence[list[str]]]
    numeric: Sequence[bool]
    rest: str

    @classmethod
    def of(cls, table: Table, max_rows: int) -> ShortTable:
        """The first rows of a table, and the number of the others in words."""
        rows = [[*row.cells, *[""] * (len(table.headings) - len(row.cells))] for row in table.rows[:max_rows]]
        more = len(table.rows) - max_rows
        return cls(
            [cut_end(" ".join(heading.split("\n")), MAX_CELL) for heading in table.headings],
            [[[cut_end(printable(t), MAX_CELL) for t in cell_lines(cell)[:2]] for cell in cells] for cells in rows],
            [not table.is_text(i) for i in range(len(table.headings))],
            f"and {plural(more, 'other row')}" if more > 0 else "",
        )


def _first_lines(lines: Iterable[str]) -> list[str]:
    return limit_lines([cut_end(in_python(printable(line)), MAX_LINE) for line in lines], MAX_LINES)
