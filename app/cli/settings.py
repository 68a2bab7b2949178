"""Settings in `passwright.toml` and `pyproject.toml`."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import typer
from msgspec import Struct

from ...core.errors import UsageError
from ...core.support.printable_text import json_text
from ...core.support.regular_files import read_text, unreadable
from ...core.support.toml_tables import read_tables
from ..options import PIPELINES_FILE, WORDS, Option, require

OWN_FILE, PROJECT_FILE = "passwright.toml", "pyproject.toml"
IGNORE = "--no-settings"
TABLE = ("tool", "passwright")  # in the file of a project
NAMED = re.compile(r"passwright|\\[uU]|\0")
"""The table's name, an escape that may spell it, or a character of UTF-16: files without these are not parsed."""
MAX_BYTES = 1 << 20  # of a settings file
REPOSITORY = ".git"  # a folder in the root of a repository
LIST_WORDS = "a list of strings"
SPECS = frozenset({"pipeline", "enable"})
"""Options whose values name passes and pipelines."""
PIPELINE_FILE = re.compile(r"([^,:{}\s][^,:{}]*\.toml):[^,:{}]*")
"""A pipeline in a file, within a list of names of passes."""


class SettingsFile(Struct, frozen=True):
    """A settings file: its path relative to the current folder, and its table."""

    path: Path
    table: Mapping[str, Any]

    def place(self, command: str, key: str) -> str:
        """Name the file and a key in the table of a command; an empty `key` names the whole table."""
        table = ".".join([*(TABLE if self.path.name == PROJECT_FILE else ()), *([command] if command else [])])
        return f"{self.path}: [{table}] {key}" if table else f"{self.path}: {key}"


def find_settings() -> SettingsFile | None:
    """Find the settings in the nearest parent folder that has some, up to the root of the repository.

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
    """Read the settings of a file; None if it has none. A project file that does not name the table is not parsed."""
    is_own = path.name == OWN_FILE
    try:
        text = read_text(path, MAX_BYTES)
    except (OSError, UnicodeDecodeError) as e:
        if isinstance(e, FileNotFoundError) and not path.is_symlink():
            return None
        reason = unreadable(path, e) if isinstance(e, OSError) else f"{path} is not UTF-8 text"
        raise UsageError(f"{reason}; it may contain settings, which {IGNORE} ignores") from e
    if not is_own and not NAMED.search(text):
        return None
    table: Any = _tables(path, text)
    for name in () if is_own else TABLE:
        require(isinstance(table, dict), f"{path}: {'.'.join(TABLE)} is not a table")
        if (table := table.get(name)) is None:
            return None
    require(isinstance(table, dict), f"{path}: {'.'.join(TABLE)} is not a table")
    return SettingsFile(path, table)


def _tables(path: Path, text: str) -> dict[str, Any]:
    try:
        return read_tables(path, text)
    except ValueError as e:
        raise UsageError(str(e)) from e


def key_of(p: Any) -> str:
    """The name of an option in a file, without leading dashes."""
    return max(p.opts, key=len).lstrip("-")


def checked_settings(
    file: SettingsFile, heading: str, table: Mapping[str, Any], owner: Any, ctx: Any
) -> dict[str, Any]:
    """Validate a table of options of the command `owner`, and return the values by parameter.

    `heading` is the name of the command if the table is only for it. Raises UsageError for unknown keys and for values
    of the wrong type.
    """
    known = {key_of(p): p for p in owner.params if p.param_type_name == "option"}
    settable = {key: p for key, p in known.items() if p.name in owner.options and is_settable(owner.options[p.name])}
    values: dict[str, Any] = {}
    for key, value in table.items():
        place = file.place(heading, key)
        if key not in settable:
            raise UsageError(f"{place} {_reason_why_not(key, known, settable, not heading, ctx)}")
        p, about = settable[key], owner.options[settable[key].name]
        values[p.name] = moved_paths(p.name, about, _typed_value(place, about, value), file.path.parent)
        try:
            p.process_value(ctx, values[p.name])
        except typer.BadParameter as e:
            raise UsageError(f"{place}: {e.message}") from e
    return values


def _reason_why_not(key: str, known: Collection[str], settable: Collection[str], shared: bool, ctx: Any) -> str:
    """Explain why a key has no effect; for a `shared` table, name the tables that it may be in."""
    from ...core.support.suggestions import did_you_mean  # noqa: PLC0415 - used seldom

    if key in known:
        return "can only be given on the command line"
    group = ctx.parent.command
    commands = [group.get_command(ctx.parent, name) for name in group.list_commands(ctx.parent)] if shared else []
    tables = [
        f"[{c.name}]"
        for c in commands
        if any(key == key_of(p) and p.name in c.options and is_settable(c.options[p.name]) for p in c.params)
    ]
    hint = f" of passes run: set it in {', '.join(tables)}" if tables else did_you_mean(key, settable)
    return f"is not an option{hint}"


def is_settable(about: Option) -> bool:
    """Whether an option may be a setting; options that name output files may not."""
    return not about.is_typed and (about.kind is not Path or about.reads)


def _typed_value(place: str, about: Option, value: Any) -> Any:
    """The value of a setting; a list if the option is repeatable. Raises UsageError for the wrong type."""
    if about.repeated:
        values = cast("list[Any]", value if isinstance(value, list) else [value])
        require(all(isinstance(v, str) for v in values), f"{place} must be {LIST_WORDS}")
        return values
    accepted = (int, float) if about.kind is float else (str,) if about.kind is Path else (about.kind,)
    require(type(value) in accepted, f"{place} must be {WORDS[about.kind]}")
    return value


def moved_paths(name: str, about: Option, value: Any, folder: Path) -> Any:
    """The value of an option, with paths relative to the current folder instead of the file's folder."""
    if isinstance(value, list):
        return [moved_paths(name, about, v, folder) for v in cast("list[Any]", value)]
    if about.reads:
        return str(folder / value) if value else value
    if name in SPECS:
        return PIPELINE_FILE.sub(lambda m: str(folder / m[0]), value)
    return value


def may_run_code(name: str, about: Option, value: Any) -> bool:
    """Whether the value of an option may run code other than installed passes."""
    if isinstance(value, list):
        return any(may_run_code(name, about, v) for v in cast("list[Any]", value))
    if (about.runs_code and (name != "ep" or "{" in value)) or ".py" in str(value):
        return True
    if name not in SPECS:
        return False
    files = [Path(m[1]) for m in PIPELINE_FILE.finditer(value)]
    others = PIPELINE_FILE.sub("", value)  # in which a colon names code, such as `onnxscript:rules:RULES`
    files += [PIPELINES_FILE] if others and PIPELINES_FILE.exists() else []
    return ":" in others or any(":" in inner for file in files for inner in _texts_in(file))


def _texts_in(file: Path) -> list[str]:
    """All strings in a file of pipelines; a colon for a file that cannot be read."""
    try:
        return list(all_texts(_tables(file, read_text(file, MAX_BYTES))))
    except (OSError, UnicodeDecodeError):
        return [":"]


def all_texts(value: Any) -> Iterator[str]:
    """All strings in JSON or TOML data, at any depth, without the keys."""
    if isinstance(value, dict | list):
        given = cast("Any", value)
        for inner in given.values() if isinstance(value, dict) else given:
            yield from all_texts(inner)
    elif isinstance(value, str):
        yield value


def toml_value(value: Any) -> str:
    """A value as TOML; JSON's strings and lists are valid TOML."""
    return str(value) if isinstance(value, float) else json_text(value, indent=None, default=str)
