"""Documents: the content of a command's output, the same for all formats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Flag, auto
from typing import Any

from msgspec import Struct
from rich.filesize import decimal

from ...core.errors import UnverifiableError, VerificationError
from ...core.support.confidence_intervals import RatioInterval
from .charts import Chart
from .finding import Finding, Level
from .number_text import bounds, change, ratio

LATENCY = "latency under ORT ALL"  # title of a tile
FAILURES = {
    VerificationError.exit_code: ("wrong-result", "wrong result"),
    UnverifiableError.exit_code: ("unverifiable-model", "not verifiable"),
}
"""The kind and the title of a failure, by exit code."""


class Tile(Struct, frozen=True):
    """A number at the head of a page or card, its value before, and a note. `tone` is good, bad, or ""."""

    label: str
    value: str
    was: str = ""
    note: str = ""
    tone: str = ""


class Media(Flag):
    """The places that show a block: the terminal without and with -v, cards (notebooks, Markdown), and pages."""

    BRIEF = auto()
    VERBOSE = auto()
    CARD = auto()
    PAGE = auto()


TERMINAL = Media.BRIEF | Media.VERBOSE
CARD, PAGE, BRIEF, VERBOSE = Media.CARD, Media.PAGE, Media.BRIEF, Media.VERBOSE
EVERYWHERE = TERMINAL | CARD | PAGE


class Lines(Struct, frozen=True):
    """Sentences, each preceded by the `label`, as in `note: text`."""

    texts: Sequence[str]
    label: str = ""
    on: Media = EVERYWHERE

    def __iter__(self) -> Iterator[str]:
        return (f"{self.label}: {text}" if self.label else text for text in self.texts)


class Preformatted(Struct, frozen=True):
    """Lines with a fixed layout. In a `diff` they begin with -, + or ~. If `folded`, a page shows them on a click."""

    title: str
    lines: Sequence[str]
    diff: bool = False
    folded: bool = True
    on: Media = EVERYWHERE


Cell = str | tuple[str, ...]
"""One or more lines of text."""


class TableRow(Struct, frozen=True):
    """Cells, or only a heading, and the tone of a row: ours, baseline, wrong, open, muted, total or ""."""

    cells: Sequence[Cell]
    tone: str = ""

    @property
    def is_heading(self) -> bool:
        """Whether it is a heading for the rows below."""
        return len(self.cells) == 1


def cell_lines(cell: Cell) -> tuple[str, ...]:
    """The lines of a cell."""
    return (cell,) if isinstance(cell, str) else cell


class Table(Struct, frozen=True):
    """Rows below their headings, which may have line breaks.

    The first column has names, those in `texts` have text, and others have numbers. On a narrow terminal, names in the
    columns `cut` are truncated at the beginning, `optional` columns are omitted, and if `splits`, columns that do not
    fit are in a table below. If `folded`, a page shows the table when its title is clicked.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[TableRow]
    texts: Collection[str] = ()
    cut: Collection[str] = ()
    optional: Collection[str] = ()
    splits: bool = False
    folded: bool = False
    on: Media = EVERYWHERE

    def is_text(self, column: int) -> bool:
        """Whether a column has names or text."""
        return column == 0 or self.headings[column] in self.texts


class Charts(Struct, frozen=True):
    """Charts with a legend of their colours."""

    charts: Sequence[Chart]
    legend: Mapping[str, str] = {}
    on: Media = PAGE


class Facts(Struct, frozen=True):
    """Named facts about something, below its title and a sentence."""

    title: str
    items: Mapping[str, str]
    text: str = ""
    on: Media = PAGE


class Widget(Struct, frozen=True):
    """An interactive part of a page: a template with its values, and a function that returns data for its scripts."""

    template: str
    values: Mapping[str, Any]
    data: Callable[[], Mapping[str, Any]]
    on: Media = PAGE


Block = Lines | Preformatted | Table | Charts | Facts | Widget


class Section(Struct, frozen=True):
    """Blocks below a heading, which is shown on pages; `link` is its name in the navigation."""

    id: str
    title: str
    blocks: Sequence[Block]
    link: str = ""
    on: Media = EVERYWHERE

    @property
    def has_one_table(self) -> bool:
        """Whether its heading also serves for its only table."""
        return sum(isinstance(block, Table) for block in self.blocks) == 1


class Document(Struct, frozen=True):
    """The output of a command about a subject: a verdict with its tone, details, and the rest.

    The tone is good, open or bad, or "" for a verdict that is none of them. `evidence` are tables and listings that a
    terminal shows above the verdict, so that this is next to the prompt. `warnings` and `errors` are for standard
    error; `footer` are the conditions, such as versions, at the end of a page.
    """

    command: str
    subject: str
    verdict: str
    tone: str = "good"
    summary: str = ""
    details: Lines = Lines(())
    tiles: Sequence[Tile] = ()
    warnings: Sequence[str] = ()
    errors: Sequence[str] = ()
    evidence: Sequence[Block | Section] = ()
    blocks: Sequence[Block | Section] = ()
    findings: Sequence[Finding] = ()
    footer: Sequence[str] = ()

    def shown(self, media: Media) -> list[Block]:
        """The non-empty blocks for a medium."""
        return [*shown_blocks(self.evidence, media), *shown_blocks(self.blocks, media)]

    @property
    def sections(self) -> list[Section]:
        """The sections of a page, without empty blocks and sections."""
        found = [b for b in (*self.evidence, *self.blocks) if isinstance(b, Section)]
        full = ((s, list(shown_blocks([s], PAGE))) for s in found)
        return [Section(s.id, s.title, blocks, s.link or s.title) for s, blocks in full if blocks]


def shown_blocks(blocks: Iterable[Block | Section], media: Media) -> Iterator[Block]:
    """Yield the non-empty blocks for a medium, including those in sections."""
    for block in blocks:
        if block.on & media and isinstance(block, Section):
            yield from shown_blocks(block.blocks, media)
        elif block.on & media and not isinstance(block, Section) and not is_empty(block):
            yield block


def table(title: str, headings: Sequence[str], rows: Iterable[TableRow | Sequence[Cell]], **more: Any) -> Table:
    """Make a table from rows, or from lists of cells."""
    return Table(title, headings, [row if isinstance(row, TableRow) else TableRow(row) for row in rows], **more)


def findings_of(documents: Iterable[Document]) -> list[Finding]:
    """The findings of documents, most severe first."""
    levels = list(Level)
    return sorted((f for d in documents for f in d.findings), key=lambda f: levels.index(f.level))


def failure_document(command: str, file: str, message: str, code: int) -> Document:
    """A document about a file for which a command has no report, with the message and exit code."""
    kind, title = FAILURES.get(code, ("unusable-model", "unusable"))
    return Document(command, file, message, "bad", findings=[Finding(Level.ERROR, kind, title, message, file)])


def is_empty(block: Block) -> bool:
    """Whether there is nothing to show."""
    match block:
        case Lines():
            return not block.texts
        case Preformatted():
            return not block.lines
        case Table():
            return not block.rows
        case Charts():
            return not block.charts
        case Facts():
            return not block.items
        case Widget():
            return False


def latency_tile(interval: RatioInterval, label: str = LATENCY) -> Tile:
    """The latency of our result divided by the latency of the original, by default both under ORT ALL."""
    note = f"{bounds(interval)} of the original's"
    relation, tone = ("faster: ", "good") if interval.ratio < 1 else ("slower: ", "bad")
    if not interval.is_significant:
        relation, tone = "", ""
    return Tile(label, ratio(interval), note=relation + note, tone=tone)


def size_tile(label: str, before: int, after: int, text: Callable[[int], str] = decimal) -> Tile:
    """A number that is better when smaller."""
    if before == after:
        return Tile(label, text(after), note="as before")
    return Tile(label, text(after), text(before), change(before, after), "good" if after < before else "bad")
