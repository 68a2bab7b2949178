"""Annotations as workflow commands of GitHub Actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...core.support.printable_text import printable_lines
from .finding import Finding, Level, relative_path

COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def workflow_commands(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a workflow command for each finding, most severe first; GitHub shows ten of each level per step."""
    for level, command in COMMANDS.items():
        for f in findings:
            if f.level == level:
                properties = {"title": f.title}
                properties |= {"file": relative_path(f.file)} if f.file else {}
                properties |= {"line": str(f.line)} if f.line else {}
                texts = (f"{name}={_property(text)}" for name, text in sorted(properties.items()))
                yield f"::{command} {','.join(texts)}::{_data(f.message)}"


def _data(text: str) -> str:
    """Escape the characters that end a message, like GitHub's toolkit."""
    return printable_lines(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a property value like a message, including the characters between properties."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
