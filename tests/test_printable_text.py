"""Text of strangers on terminals, in JSON and in names of files."""

import json
import logging
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.app.cli.standard_streams import PrintableFormatter
from passwright.app.report.document import Document, Lines, Preformatted, table
from passwright.app.report.terminal import PrintableConsole, Terminal
from passwright.core.support.printable_text import (
    INVISIBLE,
    MAX_LINE,
    file_name,
    json_text,
    printable,
    printable_line,
    printable_lines,
)
from rewriting import each
from rich.table import Table as RichTable

ANY_TEXT = st.text(st.characters(), max_size=30)  # halves of surrogate pairs too
EVIL = "\x1b[31m\x07\b\r\n\u202e\u2066\u200b\u2028\x9b\udcff\u3164[red][/]"


@given(ANY_TEXT)
def test_printable_text(text: str) -> None:
    for shown in (printable(text), printable_line(text), printable_lines(text).replace("\n", "")):
        assert shown.isprintable()
        assert INVISIBLE.isdisjoint(shown)
        shown.encode()
    assert printable_lines(text).count("\n") == text.count("\n")


@each("text", ["", "a b", "é", "日本", "\U0001f600", "domain::op", "a:: b", "# #[a]", "## a [b]"])
def test_printable_text_stays(text: str) -> None:
    assert printable(text) == printable_line(text) == text


@each(
    ("text", "shown"),
    [
        ("::stop-commands::x", r"\x3a:stop-commands::x"),
        ("  ::error::x", r"  \x3a:error::x"),
        ("x ::error::y", r"x \x3a:error::y"),
        ("\r\n::error::x", r"\r\n::error::x"),
        ("\u3000::error::x", r"\u3000::error::x"),
        ("##[error]x", r"\x23#[error]x"),
        ("a##vso[task.complete]###teamcity[b", r"a\x23#vso[task.complete]#\x23#teamcity[b"),
        ("a\ufe0f\u180bb\U000e0100", r"a\ufe0f\u180bb\U000e0100"),
    ],
)
def test_commands_and_selectors_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown
    assert json.loads(json_text([text])) == [text]
    assert "##[" not in json_text([text])


def test_folded_cells_begin_no_command() -> None:
    terminal, out = Terminal(), StringIO()
    terminal.out.file, terminal.out.width = out, 30
    for n in range(30):
        rows = [("a" * n + "::error::x", *"abcd"), ("b" * 60 + "##[error]", *"abcd")]
        terminal.show(Document("", "", "", blocks=[table("t", list("vwxyz"), rows)]))
    assert out.getvalue().count("error") >= 30
    assert [line for line in out.getvalue().split("\n") if line.lstrip().startswith("::") or "##[" in line] == []


def test_long_lines_are_cut() -> None:
    line = printable_line("a" * 10**6 + "z")
    assert len(line) < MAX_LINE + 10
    assert (line[0], line[-1]) == ("a", "z")


@given(st.recursive(ANY_TEXT | st.floats() | st.integers(), lambda x: st.lists(x) | st.dictionaries(ANY_TEXT, x)))
def test_json_is_strict(data: Any) -> None:
    for indent in (1, None):
        found = json.loads(json_text(data, indent), parse_constant=pytest.fail)
        json.dumps(found, ensure_ascii=False).encode()


@each(
    ("data", "text"),
    [
        (["\udc80"], r'["\\udc80"]'),
        (["\U0001f600"], r'["\ud83d\ude00"]'),
        (["\ud800\ud800\udc00"], r'["\\ud800\ud800\udc00"]'),
        ([r"\ud800"], r'["\\ud800"]'),
        ([float("nan"), "NaN", float("inf")], '[null,"NaN",null]'),
    ],
)
def test_json_text(data: Any, text: str) -> None:
    assert json_text(data, None) == text


@given(ANY_TEXT)
def test_names_of_files(text: str) -> None:
    name = file_name(text)
    assert Path("folder", name).parent == Path("folder") or name in {"", ".", ".."}
    assert name.isprintable()
    assert len(name.encode()) <= 240


def test_consoles_print_no_markup_and_no_codes() -> None:
    out = StringIO()
    console = PrintableConsole()
    console.file, console.width = out, 500
    terminal = Terminal()
    terminal.out = console
    blocks = [table(EVIL, [EVIL, EVIL], [(EVIL, EVIL)]), Lines([EVIL], EVIL), Preformatted(EVIL, [EVIL])]
    terminal.show(Document(EVIL, EVIL, EVIL, summary=EVIL, blocks=blocks))
    console.print(EVIL)
    assert out.getvalue().count("[red][/]") == 11
    console.print(RichTable(EVIL, EVIL))  # around the function for it
    assert printable_lines(out.getvalue()) == out.getvalue()


def test_log_messages_are_one_line() -> None:
    record = logging.LogRecord("x", logging.WARNING, "", 0, "%s", (EVIL,), None)
    assert PrintableFormatter("%(message)s").format(record).isprintable()
