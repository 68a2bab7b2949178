"""The options of a pass: the fields of its dataclass, and how they are set by text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, cast, get_type_hints

from ..errors import told
from ..pipeline import Fixpoint, Pass, Pipeline, RulePass
from ..selection import BadUsage
from .option_types import read, told_type, written

NOT_SET = frozenset({"name", "rules"})
"""What a pass is called, and in whose names it makes its changes, is what it is and no option of it."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a pass: its type in words, its value as it would be written, and what the field's metadata says.

    `type` is empty where values of that type cannot be written in a text.
    """

    name: str
    type: str
    value: str
    doc: str
    hint: Any

    def __str__(self) -> str:
        return f"{self.name} ({self.type or 'not of a type that can be written'}, {self.value})"


def options_of(p: Pass) -> list[Option]:
    """The fields of a pass that can be set: those of its constructor. Groups of passes have none."""
    if isinstance(p, RulePass | Pipeline | Fixpoint) or not is_dataclass(p):
        return []
    hints = _hints(type(p))
    return [
        Option(
            f.name,
            told_type(hints.get(f.name)),
            written(getattr(p, f.name)),
            f.metadata.get("doc", ""),
            hints.get(f.name),
        )
        for f in fields(p)
        if f.init and f.name not in NOT_SET and not f.name.startswith("_")
    ]


def _hints(cls: type) -> dict[str, Any]:
    try:
        return get_type_hints(cls)
    except Exception:  # noqa: BLE001 - annotations are a plugin's, and may name what only type checkers import
        return {}


def configured(p: Pass, given: Mapping[str, str]) -> Pass:
    """The pass with options set. Raises BadUsage for an option that it has not, or a value that it does not take."""
    if not given:
        return p
    there = {o.name: o for o in options_of(p)}
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name not in there:
            raise BadUsage(f"{p.name} has no option {name}; {_told(there)}")
        if not there[name].type:
            raise BadUsage(f"{p.name}: option {name} cannot be set by text")
        try:
            values[name] = read(there[name].hint, text)
        except ValueError:
            raise BadUsage(f"{p.name}: {name}={text} is not of the type {there[name].type}; {_told(there)}") from None
    try:
        return cast("Pass", replace(cast("Any", p), **values))
    except Exception as e:
        raise BadUsage(f"{p.name} does not take {', '.join(f'{n}={t}' for n, t in given.items())}: {told(e)}") from e


def _told(options: Mapping[str, Option]) -> str:
    return f"there are {', '.join(map(str, options.values()))}" if options else "it has none"
