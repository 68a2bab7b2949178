"""Output of a command's report, after its progress."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import typer

from ...core.errors import PassesError
from ..options import ReportOptions
from .exit_codes import FULL_DISK
from .outputs import Outputs
from .standard_streams import STANDARD_OUTPUT, discard_standard_output

if TYPE_CHECKING:
    from ..report.document import Document
    from ..report.terminal import Terminal


class JsonReport(Protocol):
    """The report of a command."""

    def to_json(self) -> str:
        """The report as JSON text."""
        ...


AnyReport = TypeVar("AnyReport", bound=JsonReport)
AnyOptions = TypeVar("AnyOptions", bound=ReportOptions)


def report_on(
    options: AnyOptions,
    compute: Callable[[AnyOptions], AnyReport],
    describe: Callable[[AnyReport], Document],
    outputs: Outputs | None = None,
    *,
    quiet: bool = False,
) -> AnyReport:
    """Call `compute` with the options and with `progress`, and print its report; the options say where JSON goes."""
    from ..report.terminal import Terminal  # noqa: PLC0415 - imports rich

    outputs = outputs or Outputs.parse((), options.json)
    json = None if outputs.json == STANDARD_OUTPUT else outputs.json
    with shown_progress(Terminal(quiet=outputs.is_quiet or quiet)) as progress:
        report = compute(replace(options, json=json, progress=progress))
    print_report(report, describe(report), outputs, quiet=quiet)
    return report


def print_report(
    report: JsonReport,
    document: Document,
    outputs: Outputs,
    terminal: Terminal | None = None,
    *,
    verbose: bool = False,
    quiet: bool = False,
) -> None:
    """Print a report to standard output in the chosen format, and write the other formats."""
    from ..report.terminal import Terminal  # noqa: PLC0415 - imports rich

    with full_disk_behind_standard_output():
        (terminal or Terminal(quiet=outputs.is_quiet)).show(document, verbose=verbose, quiet=quiet)
        echo_json(outputs.json, report)
        outputs.write([document])


@contextmanager
def shown_progress(terminal: Terminal) -> Generator[Callable[[str], None]]:
    """Show the progress of a command; if interrupted, report the phase and what was written."""
    try:
        with terminal.progress() as progress:
            yield progress
    except KeyboardInterrupt as e:
        if type(e) is KeyboardInterrupt:  # time limits raise subclasses
            *_, outcome = ("nothing was written", *getattr(e, "__notes__", ()))
            terminal.last_line(f"interrupted while {terminal.phase.name}; {outcome}")
        raise


@contextmanager
def full_disk_behind_standard_output(outcome: str = "the output files are written") -> Generator[None]:
    """Raise PassesError, with a message that ends in `outcome`, if standard output is on a full disk."""
    try:
        yield
    except OSError as e:
        if e.errno not in FULL_DISK:
            raise
        discard_standard_output()
        raise PassesError(f"cannot write to standard output: {e.strerror}; {outcome}") from e


def echo_json(json: str | Path | None, report: JsonReport) -> None:
    """Print a report as JSON if `json` is `-`."""
    if json == STANDARD_OUTPUT:
        typer.echo(report.to_json())
