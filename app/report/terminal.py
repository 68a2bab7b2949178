"""Tables, and numbers in words, on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from textwrap import wrap
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.spinner import Spinner
from rich.table import Column, Table
from rich.text import Text

from ...core.support.printable_text import printable, printable_line, printable_lines

if TYPE_CHECKING:
    from rich.live import Live

MIN_WIDTH, DEFAULT_WIDTH = 20, 80  # columns of a terminal
MIN_NAME_WIDTH = 12  # columns for names and other texts in a table, where they are folded
MAX_TABLE_WIDTH = 10_000  # columns
INDENT = 6  # columns of the further lines of a wrapped one
SPINNER_WIDTH = 3  # columns, with a space on both sides


def new_table(
    first: str,
    *others: str,
    folds: bool = True,
    texts: Collection[str] = (),
    rows: Iterable[Sequence[str]] = (),
) -> Table:
    """A table as narrow as its contents: a column of text, then columns of numbers, and of texts where named so.

    `folds`: the text in the first column may continue below, even in the middle of a name; other texts do at a space.
    """
    table = Table()
    table.add_column(cell(first), overflow="fold", no_wrap=not folds)
    for column in others:
        is_text = column in texts
        table.add_column(cell(column), overflow="fold", justify="left" if is_text else "right", no_wrap=not is_text)
    for row in rows:
        add_row(table, *row)
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


@dataclass(slots=True)
class CurrentPhase:
    """The phase of a command, as in `verifying: input set 3 of 7`, and the time since it began."""

    text: str = "starting"
    _start: float = field(default_factory=monotonic)
    _spinner: Spinner = field(default_factory=lambda: Spinner("dots"))

    @property
    def name(self) -> str:
        """The phase without its details."""
        return self.text.partition(": ")[0]

    def change(self, text: str) -> None:
        """Take a phase or a detail of the current one."""
        before, self.text = self.name, text
        if self.name != before:
            self._start = monotonic()

    def shown(self, width: int) -> Spinner:
        """The phase and its seconds, in a line of `width` columns."""
        seconds = int(monotonic() - self._start)
        time = f", {seconds} s" if seconds else ""
        line = Text(printable_line(self.text))
        line.truncate(width - SPINNER_WIDTH - len(time), overflow="ellipsis")
        self._spinner.update(text=line.append(time))
        return self._spinner


class Terminal:
    """Standard output and error, with colours and a spinner on a terminal alone.

    If `quiet`, nothing is printed on standard output; if `reserved`, its text is printed on standard error.
    """

    def __init__(self, *, quiet: bool = False, reserved: bool = False) -> None:
        self.out = PrintableConsole(quiet=quiet, stderr=reserved)
        self.err = PrintableConsole(stderr=True)
        self.phase = CurrentPhase()
        self._takes_stdout = not (quiet or reserved)

    @contextmanager
    def progress(self) -> Generator[Callable[[str], None]]:
        """Show the current phase, as passed to the function, until the context ends; on a terminal alone.

        If standard output is for a report or a model alone, text that rules and passes print goes to standard error.
        """
        with nullcontext() if self._takes_stdout else redirect_stdout(sys.stderr):
            is_shown = self.err.is_terminal and sys.stderr.isatty()  # FORCE_COLOR makes a terminal of a log
            with self._live_line() if is_shown else nullcontext():
                yield self.phase.change

    def _live_line(self) -> Live:
        """The line of the current phase, shown in its context."""
        from rich.live import Live  # noqa: PLC0415 - for terminals alone

        return Live(console=self.err, transient=True, get_renderable=lambda: self.phase.shown(self.err.width))

    def lines(self, texts: Iterable[str]) -> None:
        """Print lines of plain text."""
        for text in texts:
            self.line(text)

    def line(self, text: str, style: str = "") -> None:
        """Print a line of plain text, however long. Names in a model may contain line breaks and terminal codes."""
        self.out.print(Text(printable(text), style=style), soft_wrap=True)

    def wrapped(self, text: str, start: str = "") -> None:
        """Print a line of plain text after `start`; on a terminal, one that is too long continues below at a space.

        It continues behind `start` if that is narrow. A name that is longer than the terminal is not broken.
        """
        if not self.out.is_terminal:
            self.line(start + text)
            return
        indent = len(start) if len(start) <= self.out.width // 2 else INDENT
        self.lines(
            wrap(
                printable(start + text),
                self.out.width,
                subsequent_indent=" " * (indent if start else INDENT),
                break_long_words=False,
                break_on_hyphens=False,
            )
        )

    def wrapped_lines(self, texts: Iterable[str]) -> None:
        """Print lines of plain text, each wrapped."""
        for text in texts:
            self.wrapped(text)

    def table(self, table: Table) -> None:
        """Print a table; on a terminal too narrow for it, a line for each cell below its row."""
        options = self.out.options.update(max_width=MAX_TABLE_WIDTH)
        natural = Measurement.get(self.out, options, table).maximum
        if natural - sum(self._spare_width(column, options) for column in table.columns) <= self.out.width:
            self.out.print(table)
            return
        names, *columns = table.columns
        for name, *cells in zip(names.cells, *(column.cells for column in columns), strict=True):
            self.line(": ".join(filter(None, (str(names.header), str(name)))))
            for column, content in zip(columns, cells, strict=True):
                if str(content):
                    label, value = (" ".join(str(t).split("\n")) for t in (column.header, content))
                    self.line(f"  {label}: {value}")

    def _spare_width(self, column: Column, options: ConsoleOptions) -> int:
        """The columns of the terminal by which a column of text may be narrower; only long words are broken then."""
        if column.no_wrap:
            return 0
        sizes = [Measurement.get(self.out, options, c) for c in (column.header, *column.cells)]
        least = min(MIN_NAME_WIDTH, max(size.minimum for size in sizes))
        return max(size.maximum for size in sizes) - least

    def warning(self, text: str) -> None:
        """Print a line of plain text on standard error."""
        self.err.print(Text(printable(text)), soft_wrap=True)
