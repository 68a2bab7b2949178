"""Findings of commands, and their annotations as workflow commands of GitHub Actions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from ...core.support.printable_text import printable_lines


class Level(StrEnum):
    """The levels of findings, as in SARIF."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Finding(Struct, frozen=True):
    """A result about a file; `rule` identifies its kind, or names the rewrite rule that it is about.

    `places` are names of nodes or values in the file. `line` is a line of a text file, or 0 for a model. `about`
    describes the rule, unless it is built in.
    """

    level: Level
    rule: str
    title: str
    message: str
    file: str = ""
    places: Sequence[str] = ()
    line: int = 0
    about: str = ""


def relative_path(file: str) -> str:
    """The path relative to the current folder; absolute for a file outside it."""
    path, here = Path(os.path.normpath(Path(file).absolute())), Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def workflow_commands(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a workflow command for each finding, most severe first; GitHub shows ten of each level per step."""
    for level, command in COMMANDS.items():
        for f in (f for f in findings if f.level == level):
            properties = {"file": relative_path(f.file)} if f.file else {}
            properties |= ({"line": str(f.line)} if f.line else {}) | {"title": f.title}
            texts = (f"{k}={_escaped(v).replace(':', '%3A').replace(',', '%2C')}" for k, v in properties.items())
            yield f"::{command} {','.join(texts)}::{_escaped(f.message)}"


def _escaped(text: str) -> str:
    """Escape the characters that end a message, like GitHub's toolkit."""
    return printable_lines(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
