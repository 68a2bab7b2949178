"""Text of models, files and plugins as displayed: on a terminal or page, in JSON, in the name of a file.

Names may contain terminal codes, line breaks, characters that change the direction of text, halves of surrogate pairs,
and commands for the program that runs a job and reads its log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

MAX_LINE = 4000  # characters of a message
MAX_FILE_NAME = 60  # characters of a name, of up to 4 bytes each
VARIATION_SELECTORS = map(chr, (*range(0x180B, 0x180E), 0x180F, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0").union(VARIATION_SELECTORS)
"""Characters without a glyph that Python considers printable: joiners, fillers, a blank, and glyph selectors."""
LOG_COMMAND = re.compile(r"(?<!\S)::|##(?=\w*\[)")
"""The beginning of a command in a log, such as `::error::` in a line on GitHub, `##[error]` and `##vso[...]` anywhere.

If lines are wrapped, any word may begin a line.
"""
NON_FINITE = re.compile(r"NaN|Infinity")
JSON_TOKEN = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u[dD][89a-fA-F]..|.)")
"""An escape in JSON: a surrogate pair, half of one, or another escape."""


def is_utf8(text: str) -> bool:
    """Whether UTF-8 can represent the text: it has no half of a surrogate pair, which names of files may have."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str) -> str:
    """The text with escapes for characters that are not printable, not visible, or begin a command."""
    if not text.isprintable() or not INVISIBLE.isdisjoint(text):
        shown = (c if c.isprintable() and c not in INVISIBLE else c.encode("unicode_escape").decode() for c in text)
        text = "".join(shown)
    if "::" in text or "##" in text:
        text = LOG_COMMAND.sub(lambda m: f"\\x{ord(m[0][0]):x}{m[0][1:]}", text)
    return text


def printable_lines(text: str) -> str:
    """A text whose line breaks are kept; other characters that are not printable are escaped."""
    return "\n".join(map(printable, text.split("\n")))


def printable_line(text: str) -> str:
    """A message as one printable line; a very long one is shortened in the middle."""
    line = printable(" ".join(text.split()))
    half = MAX_LINE // 2
    return line if len(line) <= MAX_LINE else f"{line[:half]} ... {line[-half:]}"


def json_text(data: Any, indent: int | None = 1, default: Callable[[Any], Any] | None = None) -> str:
    """Data as JSON in ASCII, compact without `indent`; `default` has the meaning of `json.dumps`.

    NaN and infinity, which JSON lacks, become null; half of a surrogate pair becomes its escape as text.
    """
    separators = (",", ":") if indent is None else None
    write = partial(json.dumps, indent=indent, default=default, separators=separators)
    text = write(data)
    if NON_FINITE.search(text):  # this may also match inside a string
        text = write(json.loads(text, parse_constant=lambda _: None))
    text = JSON_TOKEN.sub(_whole_pair, text) if "\\ud" in text else text
    return text.replace("##", r"#\u0023") if "##" in text else text  # a line never begins with a string


def _whole_pair(token: re.Match[str]) -> str:
    return rf"\{token[0]}" if len(token[0]) == len(r"\ud800") else token[0]


def file_name(text: str) -> str:
    """A text as the name of a file, or a part of one: letters, digits, dots and dashes."""
    return re.sub(r"[^\w.-]+", "_", "".join(c for c in text if c not in INVISIBLE))[:MAX_FILE_NAME]
