"""How a command ends: one line for what went wrong, and an exit code."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import typer

from . import options

if TYPE_CHECKING:
    from ..core.errors import PassesError

BAD_INPUT, USAGE, WRONG, UNVERIFIED = 1, 2, 3, 4


class JsonReport(Protocol):
    """What a command found out, as data."""

    def to_json(self) -> str:
        """The whole of it as JSON text."""
        ...


@contextmanager
def one_line_errors() -> Generator[None]:
    """Turn what is expected to go wrong into one line and an exit code."""
    from ..core.errors import PassesError  # noqa: PLC0415 - its package imports onnx

    try:
        yield
    except PassesError as e:
        typer.echo(f"error: {one_line(e)}", err=True)
        raise typer.Exit(exit_code(e)) from e


def echo_json(json: Path | None, report: JsonReport) -> None:
    """Print a report as JSON, if that is where it is to go."""
    if json == options.STANDARD_OUTPUT:
        typer.echo(report.to_json())


def one_line(error: PassesError) -> str:
    """What went wrong, without line breaks."""
    return " ".join(str(error).split())


def exit_code(error: PassesError) -> int:
    """The exit code that a failure stands for."""
    from ..core.errors import UnverifiableError, VerificationError  # noqa: PLC0415 - its package imports onnx
    from ..core.pass_manager.pass_selection import UsageError  # noqa: PLC0415 - its package imports onnx

    for kind, code in ((UsageError, USAGE), (VerificationError, WRONG), (UnverifiableError, UNVERIFIED)):
        if isinstance(error, kind):
            return code
    return BAD_INPUT
