"""Reports of commands on standard output, with the progress before them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import typer

from ...core.errors import PassesError
from ..options import ReportOptions
from .exit_codes import FULL_DISK
from .standard_streams import STANDARD_OUTPUT, discard_standard_output

if TYPE_CHECKING:
    from ..report.finding import Document
    from ..report.terminal import Terminal
    from .outputs import Outputs


class JsonReport(Protocol):
    """The report of a command."""

    def to_json(self) -> str:
        """The report as JSON text."""
        ...


AnyReport = TypeVar("AnyReport", bound=JsonReport)
AnyOptions = TypeVar("AnyOptions", bound=ReportOptions)


def show_progress_and_report(
    options: AnyOptions,
    compute: Callable[[AnyOptions], AnyReport],
    show: Callable[[Terminal, AnyReport], None],
    outputs: Outputs | None = None,
    describe: Callable[[AnyReport], Document] | None = None,
) -> AnyReport:
    """Call `compute` with the options and with `progress`, and print its report, as JSON if that is standard output.

    `outputs` are the formats, whose content is that of `describe`; without them, the options say where JSON goes.
    """
    from ..report.terminal import Terminal  # noqa: PLC0415 - imports rich

    json = options.json if outputs is None else outputs.json
    is_quiet = json == STANDARD_OUTPUT or (outputs is not None and outputs.is_quiet)
    terminal = Terminal(quiet=is_quiet)
    with shown_progress(terminal) as progress:
        report = compute(replace(options, json=None if json == STANDARD_OUTPUT else json, progress=progress))
    print_report(json, report, show, terminal, outputs, describe)
    return report


@contextmanager
def shown_progress(terminal: Terminal) -> Generator[Callable[[str], None]]:
    """Show the progress of a command; if it is interrupted, say where, and what became of the output files."""
    try:
        with terminal.progress() as progress:
            yield progress
    except KeyboardInterrupt as e:
        if type(e) is KeyboardInterrupt:  # others are those of a time limit
            *_, outcome = ("nothing was written", *getattr(e, "__notes__", ()))
            terminal.warning(f"interrupted while {terminal.phase.name}; {outcome}")
        raise


def print_report(
    json: str | Path | None,
    report: AnyReport,
    show: Callable[[Terminal, AnyReport], None],
    terminal: Terminal,
    outputs: Outputs | None = None,
    describe: Callable[[AnyReport], Document] | None = None,
) -> None:
    """Print a report, as JSON if `json` is standard output; `outputs` are as in `show_progress_and_report`."""
    with full_disk_behind_standard_output():
        show(terminal, report)
        echo_json(json, report)
        if outputs is not None and describe is not None:
            outputs.write(partial(describe, report))


@contextmanager
def full_disk_behind_standard_output(outcome: str = "the output files are written") -> Generator[None]:
    """Raise PassesError if standard output is a file on a full disk; its message ends with `outcome`."""
    try:
        yield
    except OSError as e:
        if e.errno not in FULL_DISK:
            raise
        discard_standard_output()
        raise PassesError(f"cannot write to standard output: {e.strerror}; {outcome}") from e


def echo_json(json: str | Path | None, report: JsonReport) -> None:
    """Print a report as JSON if `json` is standard output."""
    if json == STANDARD_OUTPUT:
        typer.echo(report.to_json())
