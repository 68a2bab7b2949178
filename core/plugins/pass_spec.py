"""The text in which passes are asked for: `basic,fold-constants{max_growth=1MB},onnxscript:rules.py:RULES`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..pass_manager.pass_selection import BadUsage

FORM = "a,b,c{n=3,name=text}"
NAMED = re.compile(r"""\s*([^,{}]*?)\s*(?:\{((?:"[^"]*"|'[^']*'|[^{}"'])*)\}\s*)?(,|$)""", re.DOTALL)
OPTION = re.compile(r"""\s*([^=,\s"']+)\s*=\s*((?:"[^"]*"|'[^']*'|[^,"'])*?)\s*(?:,(?=\s*\S)|$)""", re.DOTALL)
FILES = (".py", ".toml")


@dataclass(frozen=True, slots=True)
class Spec:
    """A pass or pipeline by name, and its options as they are written, quotes included."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        given = ",".join(f"{name}={text}" for name, text in self.options.items())
        return f"{self.name}{{{given}}}" if given else self.name

    def from_anywhere(self, base: Path) -> Spec:
        """The same, with the files that its name holds, relative to `base`, in full."""
        return Spec(":".join(_in_full(part, base) for part in self.name.split(":")), self.options)


def parse(text: str) -> list[Spec]:
    """The specs of a comma-separated text. Raises BadUsage for another form, and for a name that is missing or double.

    Names may hold anything but commas and braces; values that hold one of these, or a quote, stand in quotes.
    """
    specs: list[Spec] = []
    at, more = 0, True
    while more:
        m = NAMED.match(text, at)
        if m is None:
            balanced = text.count("{") == text.count("}")
            raise BadUsage(f"{text}: {'not of the form ' + FORM if balanced else 'a brace is open'}")
        name, options, end = m.groups()
        if not name:
            raise BadUsage(f"{text or 'nothing'}: a name is missing (the form is {FORM})")
        if any(s.name == name for s in specs):
            raise BadUsage(f"{text}: {name} is named twice")
        specs.append(Spec(name, _options(name, options or "")))
        at, more = m.end(), bool(end)
    return specs


def _options(name: str, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    at = 0
    while text[at:].strip():
        m = OPTION.match(text, at)
        if m is None:
            raise BadUsage(f"{name}{{{text}}}: options are written {name}{{n=3,name=text}}")
        if m[1] in options:
            raise BadUsage(f"{name}{{{text}}}: {m[1]} is given twice")
        options[m[1]] = m[2]
        at = m.end()
    return options


def _in_full(part: str, base: Path) -> str:
    try:
        return str((base / part).resolve()) if part.endswith(FILES) and (base / part).is_file() else part
    except OSError:  # it cannot be the name of a file
        return part
