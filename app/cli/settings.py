"""Settings in `passwright.toml` and `pyproject.toml`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from inspect import signature
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, cast, get_args, get_origin

import typer
from msgspec import Struct

from ...core.errors import UsageError
from ...core.support.printable_text import json_text
from ...core.support.regular_files import read_text, unreadable
from ...core.support.toml_tables import read_tables
from . import options

OWN_FILE, PROJECT_FILE = "passwright.toml", "pyproject.toml"
TABLE = ("tool", "passwright")  # of the file of a project
NAMED = re.compile(r"""tool\W{1,9}passwright|^\s*["']?passwright["']?\s*[.=]""", re.MULTILINE)
"""A file that has the table, or might: all others are not parsed."""
MAX_BYTES = 1 << 20  # of a file of settings
REPOSITORY = ".git"  # is in the root of one
PIPELINES_FILE = Path("pipelines.toml")  # of the current folder, in which names of pipelines are looked up
SHARED = frozenset(f.name for group in (options.PipelineOptions, options.VerificationOptions) for f in fields(group))
"""Options of `passes run` whose settings count for all commands that have them."""
OTHER_MEANING = frozenset({("verify", "exact")})
"""Options of commands that mean something else."""
FILES_READ = frozenset({"plugin", "inputs", "labelled"})
"""Options with paths of files to read.

All others with paths write, and are for the command line alone.
"""
TEXTS_WITH_FILES = frozenset({"data", "metric"})
SPECS = frozenset({"pipeline", "enable"})
TYPED_ALONE = frozenset(
    {"no_verify", "in_place", "resume", "formats", "show_settings", "trust_settings", "no_settings"}
)
WORDS = {bool: "true or false", int: "an integer", float: "a number", str: "a text", Path: "a text"}
LIST_WORDS = "a list of texts"
PIPELINE_FILE = re.compile(r"([^,:{}\s][^,:{}]*\.toml):[^,:{}]*")
"""A pipeline in a file, among the names of passes."""


class SettingsFile(Struct, frozen=True):
    """A file of settings: its name as seen from the current folder, and its table."""

    path: Path
    table: Mapping[str, Any]

    def place(self, command: str, key: str) -> str:
        """The file, and a key of the table of a command, or of the whole with an empty one."""
        table = ".".join([*(TABLE if self.path.name == PROJECT_FILE else ()), *([command] if command else [])])
        return f"{self.path}: [{table}] {key}" if table else f"{self.path}: {key}"


def find_settings() -> SettingsFile | None:
    """The settings of the nearest folder upwards that has some, up to the root of the repository.

    Raises UsageError for a file that cannot be read.
    """
    here = Path.cwd()
    for folder in (here, *here.parents):
        for name in (OWN_FILE, PROJECT_FILE):
            if (found := _read(Path(os.path.relpath(folder)) / name)) is not None:
                return found
        if (folder / REPOSITORY).exists():
            return None
    return None


def _read(path: Path) -> SettingsFile | None:
    """The settings of a file, None if it has none. A project's file that does not name the table is not parsed."""
    is_own = path.name == OWN_FILE
    try:
        text = read_text(path, MAX_BYTES)
    except (OSError, UnicodeDecodeError) as e:
        reason = unreadable(path, e) if isinstance(e, OSError) else f"{path} is not a text in UTF-8"
        options.require(not is_own or isinstance(e, FileNotFoundError), reason)
        return None
    if not is_own and not NAMED.search(text):
        return None
    table: Any = _tables(path, text)
    for name in () if is_own else TABLE:
        options.require(isinstance(table, dict), f"{path}: {'.'.join(TABLE)} is not a table")
        if (table := table.get(name)) is None:
            return None
    options.require(isinstance(table, dict), f"{path}: {'.'.join(TABLE)} is not a table")
    return SettingsFile(path, table)


def _tables(path: Path, text: str) -> dict[str, Any]:
    try:
        return read_tables(path, text)
    except ValueError as e:
        raise UsageError(str(e)) from e


def key_of(p: Any) -> str:
    """The name of an option in a file: without the dashes before it."""
    return max(p.opts, key=len).lstrip("-")


def checked_settings(
    file: SettingsFile, heading: str, table: Mapping[str, Any], owner: Any, ctx: Any
) -> dict[str, Any]:
    """The values of a table of options of the command `owner`, by parameter.

    `heading` is the name of the command if the table is for it alone. Raises UsageError for unknown keys and for values
    of another type.
    """
    types = types_of(owner.function)
    known = {key_of(p): p for p in owner.params if p.param_type_name == "option"}
    settable = {key: p for key, p in known.items() if is_settable(p.name, types[p.name])}
    values: dict[str, Any] = {}
    for key, value in table.items():
        place = file.place(heading, key)
        if key not in settable:
            from ...core.support.suggestions import did_you_mean  # noqa: PLC0415 - used seldom

            reason = "is for the command line alone" if key in known else f"is no option{did_you_mean(key, settable)}"
            raise UsageError(f"{place} {reason}")
        p = settable[key]
        values[p.name] = moved_paths(p.name, _typed_value(place, types[p.name], value), file.path.parent)
        try:
            p.process_value(ctx, values[p.name])
        except typer.BadParameter as e:
            raise UsageError(f"{place}: {e.message}") from e
    return values


def is_settable(name: str, types: tuple[type, ...]) -> bool:
    """Whether a parameter of these types may be a setting."""
    return name not in TYPED_ALONE and (Path not in types or name in FILES_READ)


def types_of(function: Callable[..., None]) -> dict[str, tuple[type, ...]]:
    """The types in the annotations of a function, such as list and Path, by parameter."""
    parameters = signature(function, eval_str=True).parameters
    return {name: tuple(_members(p.annotation)) for name, p in parameters.items()}


def _members(hint: Any) -> Iterator[type]:
    """The types in an annotation, such as list and Path."""
    if get_origin(hint) is Annotated:
        yield from _members(get_args(hint)[0])
    elif get_origin(hint) is not None:
        yield from [list] if get_origin(hint) is list else []
        for member in get_args(hint):
            yield from _members(member)
    elif hint is not NoneType:
        yield hint


def _typed_value(place: str, types: tuple[type, ...], value: Any) -> Any:
    """The value of a setting; a list if there may be several. Raises UsageError for another type."""
    if list in types:
        values = cast("list[Any]", value if isinstance(value, list) else [value])
        options.require(all(isinstance(v, str) for v in values), f"{place} must be {LIST_WORDS}")
        return values
    kind = next(k for k in WORDS if k in types)
    accepted = (int, float) if kind is float else (str,) if kind is Path else (kind,)
    options.require(type(value) in accepted, f"{place} must be {WORDS[kind]}")
    return value


def moved_paths(name: str, value: Any, folder: Path) -> Any:
    """The value of an option, with paths as seen from the current folder instead of the folder of the file."""
    if isinstance(value, list):
        return [moved_paths(name, v, folder) for v in cast("list[Any]", value)]
    if name in FILES_READ | TEXTS_WITH_FILES:
        return str(folder / value) if value else value
    if name in SPECS:
        return PIPELINE_FILE.sub(lambda m: str(folder / m[0]), value)
    return value


def may_run_code(name: str, value: Any) -> bool:
    """Whether the value of an option may execute code other than passes that are installed."""
    if isinstance(value, list):
        return any(may_run_code(name, v) for v in cast("list[Any]", value))
    if name in {"plugin", "on"} or (name == "ep" and "{" in value) or ".py" in str(value):
        return True
    return name in SPECS and _spec_may_run_code(value)


def _spec_may_run_code(text: str) -> bool:
    """Whether pipelines and passes may name code by a colon, as `onnxscript:rules:RULES`, themselves or in a file."""
    files = [Path(m[1]) for m in PIPELINE_FILE.finditer(text)]
    others = PIPELINE_FILE.sub("", text)
    if ":" in others:
        return True
    if others and PIPELINES_FILE.exists():
        files.append(PIPELINES_FILE)
    return any(":" in inner for file in files for inner in _texts_in(file))


def _texts_in(file: Path) -> list[str]:
    """All texts in a file of pipelines; a colon for one that cannot be read."""
    try:
        return list(all_texts(_tables(file, read_text(file, MAX_BYTES))))
    except (OSError, UnicodeDecodeError):
        return [":"]


def all_texts(value: Any) -> Iterator[str]:
    """The texts in data of JSON or TOML, at any depth, without the names of fields."""
    if isinstance(value, dict | list):
        given = cast("Any", value)
        for inner in given.values() if isinstance(value, dict) else given:
            yield from all_texts(inner)
    elif isinstance(value, str):
        yield value


def toml_value(value: Any) -> str:
    """A value as TOML, of which texts and lists of JSON are a part."""
    return json_text(value, indent=None, default=str)
