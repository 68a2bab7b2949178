"""The text in which passes are asked for: `basic,fold-constants{max_growth=1MB},onnxscript:rules.py:RULES`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..pass_manager.pass_selection import UsageError

SYNTAX = "a,b,c{n=3,name=text}"
SPEC_PATTERN = re.compile(r"""\s*([^,{}]*?)\s*(?:\{((?:"[^"]*"|'[^']*'|[^{}"'])*)\}\s*)?(,|$)""", re.DOTALL)
OPTION_PATTERN = re.compile(r"""\s*([^=,\s"']+)\s*=\s*((?:"[^"]*"|'[^']*'|[^,"'])*?)\s*(?:,(?=\s*\S)|$)""", re.DOTALL)
FILE_SUFFIXES = (".py", ".toml")


@dataclass(frozen=True, slots=True)
class PassSpec:
    """A pass or pipeline by name, and its options as they are written, quotes included."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        given = ",".join(f"{name}={text}" for name, text in self.options.items())
        return f"{self.name}{{{given}}}" if given else self.name

    def with_absolute_paths(self, base: Path) -> PassSpec:
        """The same, with the files that its name holds, relative to `base`, in full."""
        return PassSpec(":".join(_absolute_path(part, base) for part in self.name.split(":")), self.options)


def parse_specs(text: str) -> list[PassSpec]:
    """The specs of a comma-separated text.

    Raises UsageError for another form, and for a name that is missing or double. Names may hold anything but commas and
    braces; values that hold one of these, or a quote, stand in quotes.
    """
    specs: list[PassSpec] = []
    at, more = 0, True
    while more:
        m = SPEC_PATTERN.match(text, at)
        if m is None:
            balanced = text.count("{") == text.count("}")
            raise UsageError(f"{text}: {'not of the form ' + SYNTAX if balanced else 'a brace is open'}")
        name, options, end = m.groups()
        if not name:
            raise UsageError(f"{text or 'nothing'}: a name is missing (the form is {SYNTAX})")
        if any(s.name == name for s in specs):
            raise UsageError(f"{text}: {name} is named twice")
        specs.append(PassSpec(name, _parse_options(name, options or "")))
        at, more = m.end(), bool(end)
    return specs


def _parse_options(name: str, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    at = 0
    while text[at:].strip():
        m = OPTION_PATTERN.match(text, at)
        if m is None:
            raise UsageError(f"{name}{{{text}}}: options are written {name}{{n=3,name=text}}")
        if m[1] in options:
            raise UsageError(f"{name}{{{text}}}: {m[1]} is given twice")
        options[m[1]] = m[2]
        at = m.end()
    return options


def _absolute_path(part: str, base: Path) -> str:
    try:
        return str((base / part).resolve()) if part.endswith(FILE_SUFFIXES) and (base / part).is_file() else part
    except OSError:  # it cannot be the name of a file
        return part
