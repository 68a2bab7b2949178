"""Display of a command's runs."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from ...core.run.report import Report
from ..cli.outputs import JSON, TEXT, Outputs
from ..optimize.document import describe
from ..report.document import Document
from ..report.terminal import Terminal


class Display(Struct, frozen=True):
    """The display of a command: `max_changes` limits the plan of a dry run; `end` is the last line without output.

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
        """The path of the JSON report."""
        return self.outputs.json

    @property
    def is_detailed(self) -> bool:
        """Whether reports are shown, rather than one line for each of many models."""
        return self.verbose or self.is_planned

    @property
    def wants_reports(self) -> bool:
        """Whether reports are shown or written."""
        has_formats = self.outputs.files or self.outputs.printed not in {TEXT, JSON}
        return self.is_detailed or self.json is not None or bool(has_formats)

    def terminal(self, *, reserved: bool = False) -> Terminal:
        """The terminal; `reserved`: standard output is only for a model."""
        return Terminal(quiet=self.quiet or self.outputs.is_quiet, reserved=reserved)

    def document(self, report: Report) -> Document:
        """The document of a run."""
        end = self.end if report.written_to is None else f"written to {report.written_to}"
        return describe(report, end=end, limit=self.max_changes, is_check=self.is_check)

    def show(self, terminal: Terminal, report: Report) -> None:
        """Print the report of a run."""
        terminal.show(self.document(report), verbose=self.verbose, quiet=self.quiet and report.plan is None)
