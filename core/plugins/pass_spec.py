"""Parsing of texts that select passes and set their options, such as `basic,fold-constants{max_growth=1MB}`."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from math import isnan
from pathlib import Path
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from msgspec import Struct, field

from ..errors import UsageError, format_error
from ..run.pipeline import Fixpoint, Pass, Pipeline, RulePass
from ..run.transforms import TransformPass, definition

SYNTAX = "a,b,c{n=3,name=text}"
SPEC_PATTERN = re.compile(r"""([^,{}]*)(?:\{((?:"[^"]*"|'[^']*'|[^{}"'])*)\}\s*)?(,|$)""", re.DOTALL)
OPTION_PATTERN = re.compile(r"""\s*([^=,\s"']+)\s*=\s*((?:"[^"]*"|'[^']*'|[^,"'])*)(?:,(?=\s*\S)|$)""", re.DOTALL)
FILE_SUFFIXES = (".py", ".toml")


class PassSpec(Struct, frozen=True):
    """A pass or pipeline by name, and its options as text, including quotes."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        given = ",".join(f"{name}={text}" for name, text in self.options.items())
        return f"{self.name}{{{given}}}" if given else self.name

    def with_absolute_paths(self, base: Path) -> PassSpec:
        """The spec with absolute paths for files in its name, which are relative to `base`."""
        return PassSpec(":".join(_absolute_path(part, base) for part in self.name.split(":")), self.options)


def parse_specs(text: str) -> list[PassSpec]:
    """The specs in a comma-separated text.

    Raises UsageError for a malformed text, and for a missing or repeated name. Names contain no commas or braces;
    values that contain one of these, or a quote, are quoted.
    """
    specs: list[PassSpec] = []
    at, more = 0, True
    while more:
        m = SPEC_PATTERN.match(text, at)
        if m is None:
            balanced = text.count("{") == text.count("}")
            raise UsageError(f"{text}: {'not of the form ' + SYNTAX if balanced else 'a brace is not closed'}")
        name, options, end = m[1].strip(), m[2], m[3]
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
            raise UsageError(f"{name}{{{text}}}: options have the form {name}{{n=3,name=text}}, and lists a:b:c")
        if m[1] in options:
            raise UsageError(f"{name}{{{text}}}: {m[1]} is set twice")
        options[m[1]] = m[2].strip()
        at = m.end()
    return options


def _absolute_path(part: str, base: Path) -> str:
    try:
        return str((base / part).resolve()) if part.endswith(FILE_SUFFIXES) and (base / part).is_file() else part
    except OSError:  # it cannot be the name of a file
        return part


SIZE = re.compile(r"([+-]?\d+)\s*(?:([kKMGT])(i?)B)?")
POWERS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4}
QUOTES = "\"'"
UNIONS = (Union, types.UnionType)
SCALAR_TYPE_NAMES = {
    int: "int", float: "float", bool: "true or false", str: "str", Path: "path", types.NoneType: "none",
}  # fmt: skip


def format_type(hint: Any) -> str:
    """Describe a type; "" if its values cannot be written as text."""
    args = get_args(hint)
    if get_origin(hint) in UNIONS:
        return _join_if_all(" or ", [format_type(a) for a in args])
    if get_origin(hint) is Literal:
        return " or ".join(unquoted(format_value(a)) for a in args)
    if get_origin(hint) is tuple:
        return _join_if_all(":", [f"{format_type(args[0])}:..." if a is ... else format_type(a) for a in args])
    if _is_enum(hint):
        return " or ".join(m.name for m in hint)
    return SCALAR_TYPE_NAMES.get(hint, "") if isinstance(hint, type) else ""


def _is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Enum)


def _join_if_all(by: str, parts: list[str]) -> str:
    return by.join(parts) if all(parts) else ""


def format_value(value: Any) -> str:
    """Format a value as text in a spec."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, tuple):
        return ":".join(map(format_value, cast("tuple[Any, ...]", value)))
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    text = str(value)
    return f'"{text}"' if isinstance(value, str) and (text == "none" or any(c in text for c in ",{}'")) else text


def parse_value(hint: Any, text: str) -> Any:
    """Parse a value. Raises ValueError if it does not have the type."""
    args = get_args(hint)
    if get_origin(hint) in UNIONS:
        for member in sorted(args, key=lambda a: (a is str, a is not types.NoneType)):
            with suppress(ValueError):
                return parse_value(member, text)
        raise ValueError(text)
    if get_origin(hint) is Literal:
        return _lookup({unquoted(format_value(a)): a for a in args}, unquoted(text))
    if get_origin(hint) is tuple:
        parts = text.split(":") if text else []  # 1:2:3
        types_ = args[:1] * len(parts) if args[1:] == (...,) else args
        if len(parts) != len(types_):
            raise ValueError(text)
        return tuple(parse_value(a, part) for a, part in zip(types_, parts, strict=True))
    if _is_enum(hint):
        return _lookup({**{format_value(m.value): m for m in hint}, **{m.name: m for m in hint}}, unquoted(text))
    return _parse_scalar(hint, text)


def _lookup(choices: dict[str, Any], text: str) -> Any:
    if text not in choices:
        raise ValueError(text)
    return choices[text]


def _parse_scalar(hint: Any, text: str) -> Any:
    if hint is bool:
        return _lookup({"true": True, "false": False}, text.lower())
    if hint is int:  # or a size such as 1MB (of 1000 kB) or 2MiB (of 1024 KiB)
        if (m := SIZE.fullmatch(text)) is None:
            raise ValueError(text)
        number, unit, binary = m.groups()
        return int(number) * ((1024 if binary else 1000) ** POWERS[unit] if unit else 1)
    if hint is float:
        number = float(text)
        if isnan(number):
            raise ValueError(text)
        return number
    if hint is types.NoneType:
        return _lookup({"none": None}, text.lower())  # in quotes, it is a string
    return Path(unquoted(text)) if hint is Path else unquoted(text)


def unquoted(text: str) -> str:
    """The text without surrounding quotes."""
    return text[1:-1] if len(text) > 1 and text[0] in QUOTES and text[-1] == text[0] else text


NON_OPTION_FIELDS = frozenset({"name", "rules", "rewrite", "is_exact"})
"""The fields that identify a pass, and the fields with its rules or its function."""


class PassOption(Struct, frozen=True):
    """An option of a pass: a description of its type, its value as text, and its doc from the field's metadata.

    `type` is empty if its values cannot be written as text.
    """

    name: str
    type: str
    value: str
    doc: str
    hint: Any

    def __str__(self) -> str:
        return f"{self.name} ({self.type or 'cannot be set as text'}, {self.value})"


def options_of(p: Pass) -> list[PassOption]:
    """The fields of a pass that can be set, which are parameters of its constructor. Groups of passes have none."""
    item = definition(p)
    if isinstance(item, RulePass | Pipeline | Fixpoint) or not is_dataclass(item):
        return []
    hints: dict[str, Any] = {}
    with suppress(Exception):  # annotations of plugins may name types that only type checkers import
        hints = get_type_hints(type(item))
    chosen = [f for f in fields(item) if f.init and f.name not in NON_OPTION_FIELDS and not f.name.startswith("_")]
    types_and_values = [(f, hints.get(f.name), format_value(getattr(item, f.name))) for f in chosen]
    return [PassOption(f.name, format_type(t), value, f.metadata.get("doc", ""), t) for f, t, value in types_and_values]


def with_options(p: Pass, option_texts: Mapping[str, str]) -> Pass:
    """Set options of a pass. Raises UsageError for an unknown option, or a value that it does not accept."""
    if not option_texts:
        return p
    known = {o.name: o for o in options_of(p)}
    values: dict[str, Any] = {}
    for name, text in option_texts.items():
        if name not in known:
            raise UsageError(f"{p.name} has no option {name}; {_describe_options(known)}")
        if not known[name].type:
            raise UsageError(f"{p.name}: option {name} cannot be set as text")
        try:
            values[name] = parse_value(known[name].hint, text)
        except ValueError:
            wrong = f"{p.name}: {name}={text} is not of the type {known[name].type}"
            raise UsageError(f"{wrong}; {_describe_options(known)}") from None
    try:
        changed: Any = replace(definition(p), **values)
        return TransformPass(changed) if isinstance(p, TransformPass) else cast("Pass", changed)
    except Exception as e:
        given = ", ".join(f"{name}={text}" for name, text in option_texts.items())
        raise UsageError(f"{p.name} does not accept {given}: {format_error(e)}") from e


def _describe_options(options: Mapping[str, PassOption]) -> str:
    return f"there are {', '.join(map(str, options.values()))}" if options else "it has none"
