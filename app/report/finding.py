"""Findings of commands, for annotations and code scanners."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from ...core.errors import UnverifiableError, VerificationError
from .card import Card

KINDS = {
    VerificationError.exit_code: ("wrong-result", "wrong result"),
    UnverifiableError.exit_code: ("unverifiable-model", "not verifiable"),
}
"""The rule and the title of a failure by its exit code."""


class Level(StrEnum):
    """The levels of findings, those of SARIF."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Finding(Struct, frozen=True):
    """A result about a file: `rule` identifies its kind, or names the rewrite rule that it is about.

    `places` are names of nodes or values in the file; `line` is that of a text file, 0 for a model. `about` describes
    the rule, unless it is built in.
    """

    level: Level
    rule: str
    title: str
    message: str
    file: str = ""
    places: Sequence[str] = ()
    line: int = 0
    about: str = ""


class Document(Struct, frozen=True):
    """Content of all formats: a card for each model or comparison, and the findings, the gravest first."""

    cards: Sequence[Card]
    findings: Sequence[Finding] = ()


class Failure(Struct, frozen=True):
    """A file about which a command has no report: the message and the exit code."""

    command: str
    file: str
    message: str
    code: int

    @property
    def card(self) -> Card:
        """The message as a card."""
        return Card(self.command, self.file, "bad", self.message)

    @property
    def finding(self) -> Finding:
        """The message as an error."""
        rule, title = KINDS.get(self.code, ("unusable-model", "unusable"))
        return Finding(Level.ERROR, rule, title, self.message, self.file)


def relative_path(file: str) -> str:
    """The path from the current folder, or from the root for a file that is not below it."""
    path, here = Path(os.path.normpath(Path(file).absolute())), Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()
