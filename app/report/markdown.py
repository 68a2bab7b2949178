"""Markdown, for example for the summary of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape as html_escape

from ...core.support.printable_text import printable
from .document import Document, Preformatted, Table, Tile
from .notebook import ShortTable, card_folds, card_lines
from .picture_text import cut_end, limit_lines

MARKS = {"good": "\N{WHITE HEAVY CHECK MARK}", "open": "\N{WARNING SIGN}\ufe0f", "bad": "\N{CROSS MARK}"}
MAX_ROWS, MAX_LINES, MAX_CODE = 30, 40, 160
MAX_DETAILED = 20  # documents with tables; a summary on GitHub has at most 1 MiB
SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$#])")
"""Characters that GitHub's Markdown may interpret; a backslash before them is not shown."""


def markdown_text(documents: Sequence[Document]) -> str:
    """A table with a row for each document, then their warnings and notes, and the tables of the first documents.

    The documents of a command have the same tiles, unless it failed for some, whose rows have fewer cells.
    """
    if not documents:
        return ""
    labels = list(dict.fromkeys(t.label for d in documents for t in d.tiles))
    rows = [_row(d, labels) for d in documents]
    lines = [f"### {documents[0].command}", "", *_table(["", "model", *labels, "result"], rows)]
    names = [f"{escape(d.subject)}: " if len(documents) > 1 else "" for d in documents]
    named = list(zip(names, documents, strict=True))
    remarks = [f"{MARKS['open']} {name}{escape(line)}" for name, d in named for line in d.warnings]
    remarks += [f"{name}{escape(line)}" for name, d in named for line in card_lines(d)]
    if remarks:
        lines += ["", *(f"- {line}" for line in limit_lines(remarks, MAX_LINES))]
    for document in documents[:MAX_DETAILED]:
        for block in card_folds(document):
            heading = f"{document.subject}: {block.title}" if len(documents) > 1 else block.title
            summary = f"<details><summary>{html_escape(printable(heading))}</summary>"
            lines += ["", summary, "", *_fold(block), "", "</details>"]
    return "\n".join(lines)


def _row(document: Document, labels: Sequence[str]) -> list[str]:
    tiles = {t.label: _tile(t) for t in document.tiles}
    texts = [escape(document.subject), *(tiles.get(label, "") for label in labels), escape(document.verdict)]
    return [MARKS.get(document.tone, ""), *texts]


def _tile(tile: Tile) -> str:
    """A number with the value before, or with its note."""
    value, was, note = map(escape, (tile.value, tile.was, tile.note))
    return f"{was} \N{RIGHTWARDS ARROW} **{value}** ({note})" if was else f"**{value}** {note}".strip()


def _fold(block: Table | Preformatted) -> Iterator[str]:
    """A table, or lines of code."""
    if isinstance(block, Preformatted):
        yield from (f"    {cut_end(printable(line), MAX_CODE)}" for line in limit_lines(list(block.lines), MAX_LINES))
        return
    table = ShortTable.of(block, MAX_ROWS)
    rows = [["<br>".join(map(escape, cell)) for cell in row] for row in table.rows]
    yield from _table(list(map(escape, table.headings)), rows, table.numeric)
    if table.rest:
        yield from ("", table.rest)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool] = ()) -> Iterator[str]:
    sides = ["---:" if is_number else "---" for is_number in numeric] or ["---"] * len(headings)
    for row in (headings, sides, *rows):
        yield f"| {' | '.join(row)} |"


def escape(text: str) -> str:
    """Plain text as Markdown in one line."""
    return SPECIAL.sub(r"\\\1", printable(text))
