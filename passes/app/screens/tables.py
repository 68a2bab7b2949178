"""Tables, and numbers in words."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from .terminal import printable


def table_of(first: str, *others: str) -> Table:
    """A table as narrow as its contents: text, then numbers."""
    table = Table(first)
    for column in others:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def add_row(table: Table, name: str, *cells: str, style: str = "") -> None:
    """A row whose name is text, not markup: models may call things [red]."""
    table.add_row(Text(printable(name), style=style), *cells)


def plural(n: int, noun: str) -> str:
    """A number of things."""
    return f"{n} {noun}{'s' * (n != 1)}"


def milliseconds(seconds: float) -> str:
    """A time as the tables show it."""
    return f"{seconds * 1e3:.1f} ms"
