"""Documents, progress and lines of text on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from textwrap import wrap
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.spinner import Spinner
from rich.text import Text

from ...core.support.printable_text import printable, printable_line, printable_lines
from ...core.support.supervision import END, PHASE, tell
from .document import BRIEF, VERBOSE, Block, Document, Facts, Lines, Preformatted, Table, shown_blocks

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table as RichTable

MIN_WIDTH, DEFAULT_WIDTH = 20, 80  # columns of a terminal
INDENT = 6  # columns; indentation of continued lines
SPINNER_WIDTH = 3  # columns, with a space on both sides
STYLES = {"bad": "red", "open": "yellow"}
DIFF_STYLES = {"-": "red", "+": "green", "~": "yellow"}


class PrintableConsole(Console):
    """A console without markup that prints only line breaks and printable characters."""

    def __init__(self, *, quiet: bool = False, stderr: bool = False) -> None:
        super().__init__(quiet=quiet, stderr=stderr, highlight=False, markup=False, emoji=False)
        if self.width < MIN_WIDTH:  # COLUMNS may set this
            self.width = MIN_WIDTH if self.width > 0 else DEFAULT_WIDTH

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """The segments of a renderable; only its cursor movements contain control characters."""
        for segment in super().render(renderable, options):
            text = printable_lines(segment.text) if not segment.control else segment.text
            yield segment if text == segment.text else Segment(text, segment.style)


@dataclass(slots=True)
class CurrentPhase:
    """The phase of a command, such as `verifying: input set 3 of 7`, and the time since it began."""

    text: str = "starting"
    _start: float = field(default_factory=monotonic)
    _spinner: Spinner = field(default_factory=lambda: Spinner("dots"))

    @property
    def name(self) -> str:
        """The phase without its details."""
        return self.text.partition(": ")[0]

    def change(self, text: str) -> None:
        """Set the phase, or a detail of the current one."""
        before, self.text = self.name, text
        if self.name != before:
            self._start = monotonic()
            tell(PHASE, self.name)

    def shown(self, width: int) -> Spinner:
        """The phase and its seconds, in one line of `width` columns."""
        seconds = int(monotonic() - self._start)
        time = f", {seconds} s" if seconds else ""
        line = Text(printable_line(self.text))
        line.truncate(width - SPINNER_WIDTH - len(time), overflow="ellipsis")
        self._spinner.update(text=line.append(time))
        return self._spinner


class Terminal:
    """Standard output and error, with colours and a spinner only on a terminal.

    If `quiet`, nothing is printed to standard output; if `reserved`, that text is printed to standard error.
    """

    def __init__(self, *, quiet: bool = False, reserved: bool = False) -> None:
        self.out = PrintableConsole(quiet=quiet, stderr=reserved)
        self.err = PrintableConsole(stderr=True)
        self.phase = CurrentPhase()
        self._takes_stdout = not (quiet or reserved)
        self._live: Live | None = None  # shows the current phase

    @contextmanager
    def progress(self) -> Generator[Callable[[str], None]]:
        """Show the current phase, as passed to the function, within the context; only on a terminal.

        If standard output is only for a report or a model, text that rules and passes print goes to standard error.
        """
        with nullcontext() if self._takes_stdout else redirect_stdout(sys.stderr):
            is_shown = self.err.is_terminal and sys.stderr.isatty()  # FORCE_COLOR makes rich treat a log as a terminal
            with self._live_line() if is_shown else nullcontext() as self._live:
                yield self.phase.change

    def line_amid_progress(self, text: str) -> None:
        """Print a line of plain text while the current phase is shown."""
        if self._live is not None:
            self._live.stop()
        self.line(text)
        if self._live is not None:
            self._live.start()

    def _live_line(self) -> Live:
        """The line that shows the current phase."""
        from rich.live import Live  # noqa: PLC0415 - only for terminals

        return Live(console=self.err, transient=True, get_renderable=lambda: self.phase.shown(self.err.width))

    def show(self, document: Document, *, verbose: bool = False, quiet: bool = False) -> None:
        """Print a document; if `quiet`, only its warnings. Lines are wrapped, and tables use the available width."""
        for text in (*(f"error: {e}" for e in document.errors), *(f"warning: {w}" for w in document.warnings)):
            self.warning(text)
        if quiet:
            return
        media = VERBOSE if verbose else BRIEF
        tables: Iterator[Iterator[RichTable | str]] = iter(())
        if found := [b for b in document.shown(media) if isinstance(b, Table)]:
            from .rich_tables import rich_tables  # noqa: PLC0415 - imports tables of rich

            tables = rich_tables(found, self.out)
        if document.summary:
            self.wrapped(f"{document.subject}: {document.summary}")
        self._show_blocks(shown_blocks(document.evidence, media), tables)
        if document.verdict:
            self.wrapped(document.verdict, style=STYLES.get(document.tone, ""))
        self._show_blocks(shown_blocks([document.details, *document.blocks], media), tables)

    def _show_blocks(self, blocks: Iterable[Block], tables: Iterator[Iterator[RichTable | str]]) -> None:
        """Print blocks; each table takes the next item of `tables`."""
        for block in blocks:
            match block:
                case Lines():
                    for text in block:
                        self.wrapped(text)
                case Preformatted():
                    for text in block.lines:
                        self.line(text, DIFF_STYLES.get(text.lstrip()[:1], "") if block.diff else "")
                case Facts():
                    self.line(block.title, "bold")
                    width = max(map(len, block.items))
                    for name, text in block.items.items():
                        self.wrapped(text, f"  {name.ljust(width)}  " if width else "  ")
                case Table():
                    for part in next(tables):
                        self.wrapped(part) if isinstance(part, str) else self.out.print(part)
                case _:  # for pages and cards
                    pass

    def lines(self, texts: Iterable[str]) -> None:
        """Print lines of plain text."""
        for text in texts:
            self.line(text)

    def line(self, text: str, style: str = "") -> None:
        """Print a line of plain text of any length. Names in a model may contain line breaks and terminal codes."""
        self.out.print(Text(printable(text), style=style), soft_wrap=True)

    def wrapped(self, text: str, start: str = "", style: str = "") -> None:
        """Print a line of plain text after `start`; on a terminal, wrap it at spaces.

        Continued lines are aligned with the end of `start` if that is narrow. Words longer than the terminal are not
        broken.
        """
        if not self.out.is_terminal:
            self.line(start + text, style)
            return
        indent = len(start) if len(start) <= self.out.width // 2 else INDENT
        lines = wrap(
            printable(start + text),
            self.out.width,
            subsequent_indent=" " * (indent if start else INDENT),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines:
            self.line(line, style)

    def last_line(self, text: str) -> None:
        """Print to standard error why the command ends; its supervisor then prints nothing else."""
        tell(END, "")
        self.warning(text)

    def warning(self, text: str) -> None:
        """Print a line of plain text to standard error."""
        self.err.print(Text(printable(text)), soft_wrap=True)
