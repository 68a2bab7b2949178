"""Markdown, as for the summary of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape as html_escape

from rich.table import Table

from ...core.support.printable_text import printable
from .card import Card, CutTable
from .picture_text import cut_end, limit_lines
from .tile import Tile

MARKS = {"good": "\N{WHITE HEAVY CHECK MARK}", "open": "\N{WARNING SIGN}\ufe0f", "bad": "\N{CROSS MARK}"}
MAX_ROWS, MAX_LINES, MAX_CODE = 30, 40, 160
MAX_DETAILED = 20  # cards with tables of their own: a summary on GitHub has at most 1 MiB
SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$#])")
"""Characters that GitHub's Markdown may take as markup; the backslash before them is not shown."""


def markdown_text(cards: Sequence[Card]) -> str:
    """A table with a row for each card, then their warnings, notes, and tables of the first.

    The cards of a command have the same tiles, unless it failed for some: those rows have fewer cells.
    """
    if not cards:
        return ""
    labels = list(dict.fromkeys(t.label for card in cards for t in card.tiles))
    lines = [f"### {cards[0].command}", "", *_table(["", "model", *labels, "result"], [_row(c, labels) for c in cards])]
    lines += _remarks(cards)
    for card in cards[:MAX_DETAILED]:
        lines += _details(card, is_named=len(cards) > 1)
    return "\n".join(lines)


def _row(card: Card, labels: Sequence[str]) -> list[str]:
    tiles = {t.label: _tile(t) for t in card.tiles}
    texts = [escape(card.subject), *(tiles.get(label, "") for label in labels), escape(card.verdict)]
    return [MARKS[card.tone], *texts]


def _tile(tile: Tile) -> str:
    """A number with that before, or with its note."""
    value, was, note = map(escape, (tile.value, tile.was, tile.note))
    return f"{was} \N{RIGHTWARDS ARROW} **{value}** ({note})" if was else f"**{value}** {note}".strip()


def _remarks(cards: Sequence[Card]) -> Iterator[str]:
    """The warnings and the notes of all cards."""
    names = [f"{escape(card.subject)}: " if len(cards) > 1 else "" for card in cards]
    found = [
        f"{MARKS['open']} {name}{escape(line)}" for name, c in zip(names, cards, strict=True) for line in c.warnings
    ]
    found += [f"{name}{escape(line)}" for name, c in zip(names, cards, strict=True) for line in c.notes]
    if found:
        yield ""
        yield from (f"- {line}" for line in limit_lines(found, MAX_LINES))


def _details(card: Card, *, is_named: bool) -> Iterator[str]:
    """The tables and lists of a card, folded."""
    for title, content in card.folds:
        heading = f"{card.subject}: {title}" if is_named else title
        if lines := list(_fold(content)):
            yield from ("", f"<details><summary>{html_escape(printable(heading))}</summary>", "")
            yield from (*lines, "", "</details>")


def _fold(content: Table | Sequence[str]) -> Iterator[str]:
    """A table, or lines of code."""
    if isinstance(content, Table):
        table = CutTable.of(content, MAX_ROWS)
        if table.rows:
            rows = [["<br>".join(map(escape, cell)) for cell in row] for row in table.rows]
            yield from _table(list(map(escape, table.headers)), rows, table.numeric)
        if table.rest:
            yield from ("", table.rest)
        return
    for line in limit_lines(list(content), MAX_LINES):
        yield f"    {cut_end(printable(line), MAX_CODE)}"


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool] = ()) -> Iterator[str]:
    sides = ["---:" if is_number else "---" for is_number in numeric] or ["---"] * len(headers)
    for row in (headers, sides, *rows):
        yield f"| {' | '.join(row)} |"


def escape(text: str) -> str:
    """Plain text as Markdown in one line."""
    return SPECIAL.sub(r"\\\1", printable(text))
