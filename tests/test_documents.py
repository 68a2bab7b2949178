"""Documents in all formats: whole, within the width, and safe against any names."""

import json
import re
from functools import cache
from io import StringIO

import pytest
from page_parser import ParsedPage
from passwright.app.report.document import BRIEF, VERBOSE, Document, Lines, Table, cell_lines, findings_of
from passwright.app.report.finding import workflow_commands
from passwright.app.report.markdown import markdown_text
from passwright.app.report.notebook import card_html
from passwright.app.report.page import page_html
from passwright.app.report.sarif import sarif_text
from passwright.app.report.terminal import PrintableConsole, Terminal
from rewriting import each
from sample_reports import HOSTILE, NAMES, documents

CONTROL = re.compile(r"\x1b\[[0-9;]*m")
KINDS = list(documents())
CARD_TAGS = {
    "b", "br", "circle", "dd", "details", "div", "dl", "dt", "li", "p", "path", "pre", "span", "style", "summary",
    "svg", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip


@cache
def plain() -> dict[str, Document]:
    return documents(NAMES)


@cache
def hostile() -> dict[str, Document]:
    return documents(HOSTILE)


def printed(document: Document, width: int, *, verbose: bool = False) -> str:
    """The text that a terminal shows on standard output."""
    terminal = Terminal()
    terminal.out = PrintableConsole()
    terminal.out._force_terminal = True
    terminal.out.file, terminal.out.width = StringIO(), width
    terminal.show(document, verbose=verbose)
    return CONTROL.sub("", terminal.out.file.getvalue())


def letters(text: str) -> str:
    """A text without spaces and frames."""
    return re.sub(r"[\s│┃]", "", text)


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("kind", KINDS)
def test_a_terminal_shows_all_within_its_width(kind: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    document = plain()[kind]
    for media, verbose in ((BRIEF, False), (VERBOSE, True)):
        text = printed(document, width, verbose=verbose)
        assert "\N{HORIZONTAL ELLIPSIS}" not in text
        assert [line for line in text.splitlines() if len(line) > width and " " in line.strip()] == []
        found = letters(text)
        for block in document.shown(media):
            texts = list(block) if isinstance(block, Lines) else []
            if isinstance(block, Table) and not block.optional:
                cells = (cell for row in block.rows for cell in row.cells)
                texts = [word for cell in cells for line in cell_lines(cell) for word in line.split()]  # may be folded
            assert [
                text for text in texts if letters(text if isinstance(block, Lines) else text[:8]) not in found
            ] == []
        assert letters(document.verdict) in found


@each("kind", KINDS)
def test_pages_are_whole_and_load_nothing(kind: str) -> None:
    html = page_html(plain()[kind])
    page = ParsedPage(html)
    assert page.tags.count("h1") == 1
    assert len(page.ids) == len(set(page.ids))
    assert {s.id for s in plain()[kind].sections} <= set(page.ids)
    linked = {v[1:] for tag, name, v in page.attributes if tag == "a" and name == "href"} - {"content"}
    assert linked == {s.id for s in plain()[kind].sections}
    assert [a for a in page.attributes if a[1].startswith("on") or a[1] in {"src", "srcset", "action", "data"}] == []
    assert [v for _, name, v in page.attributes if name == "href" and not v.startswith(("#", "data:"))] == []
    assert set(re.findall(r"https?://[^\s\"'<)]*", html)) <= {"http://www.w3.org/2000/svg"}  # the namespace of SVG
    assert not re.search(r"url\(|@import|\bfetch\(|\bimport\b|XMLHttpRequest|sendBeacon|WebSocket", html)
    assert html == page_html(documents(NAMES)[kind])


@each("kind", KINDS)
def test_names_are_text_on_pages_and_cards(kind: str) -> None:
    for html in (page_html, card_html):
        attacked, calm = ParsedPage(html(hostile()[kind])), ParsedPage(html(plain()[kind]))
        assert attacked.tags == calm.tags
        assert [a[:2] for a in attacked.attributes] == [a[:2] for a in calm.attributes]
        assert attacked.scripts.keys() == calm.scripts.keys()
        assert not re.search("[\x00\u202e\u2028]", attacked.text)
    assert calm.scripts == {}
    assert set(calm.tags) <= CARD_TAGS


@each("kind", KINDS)
def test_names_are_text_in_other_formats(kind: str) -> None:
    document = hostile()[kind]
    for width in (40, 120):
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e\u2028]", printed(document, width, verbose=True))
    for line in markdown_text([document]).splitlines():
        assert line.isprintable()
        assert "<" not in re.sub(r"\\.|</?(details|summary|br)>|^    .*", "", line)
    assert all(re.match("::(error|warning|notice) ", line) for line in workflow_commands(findings_of([document])))
    assert json.loads(sarif_text(findings_of([document])))["version"] == "2.1.0"
