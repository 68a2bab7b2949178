"""Findings of commands, for annotations and code scanners."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct


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
