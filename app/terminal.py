"""Tables, and numbers in words.

The terminal, or a pipe.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, redirect_stdout

from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text


def new_table(first: str, *others: str) -> Table:
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


def milliseconds_text(seconds: float) -> str:
    """A time as the tables show it."""
    return f"{seconds * 1e3:.1f} ms"


class Terminal:
    """The terminal, or a pipe: colours and a spinner only where someone looks."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.out = Console(quiet=quiet, highlight=False)
        self.err = Console(stderr=True, highlight=False)

    @contextmanager
    def progress(self) -> Generator[Callable[[str], None]]:
        """A line that says what is being done, while it is done.

        Where the output is for a report alone, what rules and passes print is told as an error is.
        """
        with redirect_stdout(sys.stderr) if self.out.quiet else nullcontext():
            if not self.err.is_terminal:
                yield lambda _: None
                return
            with self.err.status("starting") as status:
                yield lambda phase: status.update(f"{phase} ...")

    def line(self, text: str, style: str = "") -> None:
        """One line of plain text, however long. Names in a model may hold line breaks and codes for the terminal."""
        self.out.print(Text(printable(text), style=style), soft_wrap=True)


def printable(text: str) -> str:
    """Text with what is no visible character written as Python does."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def log_to_stderr() -> None:
    """Show what the passes have to say."""
    handler = RichHandler(console=Console(stderr=True), show_time=False, show_path=False)
    logging.basicConfig(level=logging.DEBUG, handlers=[handler], format="%(message)s")
