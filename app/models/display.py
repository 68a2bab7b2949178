"""Output of a command about its runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ...core.run.report import Report
from ..cli.outputs import JSON, TEXT, Outputs
from ..optimize.render import show_plan, show_report
from ..report.terminal import Terminal

if TYPE_CHECKING:  # content of formats other than text
    from ..report.card import Card
    from ..report.finding import Document, Failure


class Display(Struct, frozen=True):
    """The reports that a command shows: `max_changes` is for the plan of a dry run, `end` for a model not written.

    `is_check`: changes count as failures. `is_planned`: a plan is shown.
    """

    outputs: Outputs
    verbose: bool = False
    quiet: bool = False
    max_changes: int = 0
    end: str = ""
    is_check: bool = False
    is_planned: bool = False

    @property
    def json(self) -> Path | None:
        """The place of JSON."""
        return self.outputs.json

    @property
    def is_detailed(self) -> bool:
        """Whether reports are shown, and not a line for each of many models."""
        return self.verbose or self.is_planned

    @property
    def wants_reports(self) -> bool:
        """Whether reports are shown or written."""
        has_formats = self.outputs.files or self.outputs.printed not in {TEXT, JSON}
        return self.is_detailed or self.json is not None or bool(has_formats)

    def terminal(self, *, reserved: bool = False) -> Terminal:
        """The terminal; `reserved`: standard output is for a model alone."""
        return Terminal(quiet=self.quiet or self.outputs.is_quiet, reserved=reserved)

    def document(self, outcomes: Sequence[Report | Failure | Card]) -> Document:
        """The content of all formats; a card is that of a model which was not run."""
        from ..optimize.document import run_document  # noqa: PLC0415 - seldom needed

        return run_document(outcomes, is_check=self.is_check)

    def show(self, terminal: Terminal, report: Report) -> None:
        """Print the report of a run."""
        if report.plan is not None:
            show_plan(terminal, report, limit=self.max_changes)
            return
        end = self.end if report.written_to is None else f"written to {report.written_to}"
        show_report(terminal, report, end=end, verbose=self.verbose, quiet=self.quiet)
