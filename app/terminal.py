"""Tables, and numbers in words, on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..core.support.printable_text import printable, printable_line, printable_lines

MIN_WIDTH, DEFAULT_WIDTH = 20, 80  # columns of a terminal


def new_table(first: str, *others: str) -> Table:
    """A table as narrow as its contents: a column of text, then columns of numbers."""
    table = Table()
    table.add_column(cell(first))
    for column in others:
        table.add_column(cell(column), justify="right", no_wrap=True)
    return table


def add_row(table: Table, name: str, *cells: str, style: str = "") -> None:
    """Add a row of plain text. The cells after its name may have several lines."""
    table.add_row(Text(printable(name), style=style), *map(cell, cells))


def cell(text: str) -> Text:
    """Lines of text, not markup: models may have names such as [red]."""
    return Text(printable_lines(text))


def plural(n: int, noun: str) -> str:
    """A number of things."""
    return f"{n} {noun}{'s' * (n != 1)}"


class PrintableConsole(Console):
    """A console that takes no text as markup, and prints none but line breaks and printable characters."""

    def __init__(self, *, quiet: bool = False, stderr: bool = False) -> None:
        super().__init__(quiet=quiet, stderr=stderr, highlight=False, markup=False, emoji=False)
        if self.width < MIN_WIDTH:  # as COLUMNS may say
            self.width = MIN_WIDTH if self.width > 0 else DEFAULT_WIDTH

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """The segments of a renderable; only those by which it moves the cursor have control characters."""
        for segment in super().render(renderable, options):
            text = printable_lines(segment.text) if not segment.control else segment.text
            yield segment if text == segment.text else Segment(text, segment.style)


class Terminal:
    """Standard output and error, with colours and a spinner on a terminal alone."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.out = PrintableConsole(quiet=quiet)
        self.err = PrintableConsole(stderr=True)

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
                yield lambda phase: status.update(Text(printable_line(f"{phase} ...")))

    def lines(self, texts: Iterable[str]) -> None:
        """Print lines of plain text."""
        for text in texts:
            self.line(text)

    def line(self, text: str, style: str = "") -> None:
        """Print a line of plain text, however long. Names in a model may contain line breaks and terminal codes."""
        self.out.print(Text(printable(text), style=style), soft_wrap=True)

    def warning(self, text: str) -> None:
        """Print a line of plain text on standard error."""
        self.err.print(Text(printable(text)), soft_wrap=True)
