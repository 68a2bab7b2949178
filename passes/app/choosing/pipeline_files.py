"""Pipelines that are written down in a TOML file: `[mine]`, `passes = ["basic", "my-pass{threshold=0.7}"]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ....core.errors import told
from ....core.plugins.spec import Spec, parse
from ....core.selection import BadUsage

DEFAULT = Path("pipelines.toml")
KEYS = {"passes": list, "skip": list, "repeat": bool}
FORM = 'passes = ["basic", "my-pass{threshold=0.7}"], and if wanted repeat = true and skip = ["fuse-gemm"]'


@dataclass(frozen=True, slots=True)
class Written:
    """A pipeline as a file has it: what runs, once or again and again, less what is to be skipped."""

    where: str
    specs: tuple[Spec, ...]
    repeat: bool = False
    skip: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """The pipelines of one file, by name."""

    path: Path
    pipelines: dict[str, Written]

    def called(self, name: str) -> str:
        """A name of it as it is written anywhere else."""
        return f"{self.path.resolve()}:{name}"


def split(name: str) -> tuple[Path, str] | None:
    """The file and the name in `path/to/file.toml:mine`; None for a name of another form."""
    path, colon, inner = name.rpartition(":")
    return (Path(path), inner) if colon and path.endswith(".toml") else None


def read(path: Path, taken: Mapping[str, str]) -> PipelineFile:
    """Read a file. Raises BadUsage with file and line for what is wrong in it.

    `taken` are the names that have a meaning already, with where that comes from.
    """
    import tomllib  # noqa: PLC0415 - seldom needed

    text = _text(path)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        message, _, place = str(e).partition(" (at ")
        line = re.match(r"line (\d+)", place)
        raise BadUsage(f"{path}:{line[1] if line is not None else text.count(chr(10)) + 1}: {message}") from e
    except (ValueError, RecursionError) as e:  # numbers too long, lists too deep
        raise BadUsage(f"{path}: cannot be read: {told(e)}") from e
    for name in tables:
        if name in taken:
            raise BadUsage(f"{path}:{_line(text, name)}: {name} is taken: that name comes from {taken[name]}")
    return PipelineFile(path, {name: _pipeline(name, table, text, path) for name, table in tables.items()})


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as e:
        raise BadUsage(f"{path}:1: not a text in UTF-8") from e
    except (OSError, ValueError) as e:
        raise BadUsage(f"cannot read {path}: {e.strerror if isinstance(e, OSError) else e}") from e


def _line(text: str, table: str, key: str = "") -> int:
    """The line of a table, or of a key in it; 1 where it is written in a way that is not looked for."""
    lines = text.splitlines()
    heads = (rf"\s*\[\s*[\"']?{re.escape(table)}[\"']?\s*\]", rf"\s*[\"']?{re.escape(table)}[\"']?\s*[.=]")
    start = next((i for i, line in enumerate(lines) if any(re.match(h, line) for h in heads)), 0)
    wanted = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=") if key else re.compile("")
    return next((i for i in range(start, len(lines)) if wanted.match(lines[i])), start) + 1


def _pipeline(name: str, table: Any, text: str, path: Path) -> Written:
    where = f"{path}:{_line(text, name)}"
    given = cast("dict[str, Any]", table if isinstance(table, dict) else {})
    if "passes" not in given:
        raise BadUsage(f"{where}: {name} is no pipeline, which has {FORM}")
    for key, value in given.items():
        _require_key(f"{path}:{_line(text, name, key)}", key, value)
    try:
        specs = [s.from_anywhere(path.parent) for s in parse(",".join(given["passes"]))] if given["passes"] else []
    except BadUsage as e:
        raise BadUsage(f"{path}:{_line(text, name, 'passes')}: {e}") from e
    return Written(where, tuple(specs), given.get("repeat", False), tuple(given.get("skip", ())))


def _require_key(where: str, key: str, value: Any) -> None:
    if key not in KEYS:
        raise BadUsage(f"{where}: {key} is not known; a pipeline has {FORM}")
    is_list = KEYS[key] is list
    items = cast("list[Any]", value if isinstance(value, list) else [])
    if not isinstance(value, KEYS[key]) or not all(isinstance(v, str) for v in items):
        raise BadUsage(f"{where}: {key} is to be {'a list of names' if is_list else 'true or false'}")
