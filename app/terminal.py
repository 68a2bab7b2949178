"""Tables, and numbers in words, on the terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, nullcontext, redirect_stdout

from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text


def new_table(first: str, *others: str) -> Table:
    """A table as narrow as its contents: a column of text, then columns of numbers."""
    table = Table(first)
    for column in others:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def add_row(table: Table, name: str, *cells: str, style: str = "") -> None:
    """Add a row whose name is text, not markup: models may have names such as [red]."""
    table.add_row(Text(printable(name), style=style), *cells)


def plural(n: int, noun: str) -> str:
    """A number of things."""
    return f"{n} {noun}{'s' * (n != 1)}"


class Terminal:
    """Standard output and error, with colours and a spinner on a terminal alone."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.out = Console(quiet=quiet, highlight=False)
        self.err = Console(stderr=True, highlight=False)

    @contextmanager
    def progress(self) -> Generator[Callable[[str], None]]:
        """Show the current phase, as passed to the function, until the context ends.

        If standard output is for a report alone, text that rules and passes print goes to standard error.
        """
        with redirect_stdout(sys.stderr) if self.out.quiet else nullcontext():
            if not self.err.is_terminal:
                yield lambda _: None
                return
            with self.err.status("starting") as status:
                yield lambda phase: status.update(f"{phase} ...")

    def lines(self, texts: Iterable[str]) -> None:
        """Print lines of plain text."""
        for text in texts:
            self.line(text)

    def line(self, text: str, style: str = "") -> None:
        """Print a line of plain text, however long. Names in a model may contain line breaks and terminal codes."""
        self.out.print(Text(printable(text), style=style), soft_wrap=True)


def printable(text: str) -> str:
    """Text with escapes for characters that are not printable."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def log_to_stderr() -> None:
    """Show log messages of passes and rules."""
    handler = RichHandler(console=Console(stderr=True), show_time=False, show_path=False)
    logging.basicConfig(level=logging.DEBUG, handlers=[handler], format="%(message)s")
