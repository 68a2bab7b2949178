"""`passes check`: tests of rules against their contracts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..check.check_options import CheckOptions
from ..cli.completion import complete_names
from ..cli.exit_codes import UNVERIFIED, WRONG
from ..cli.outputs import Outputs
from ..cli.report_output import print_report, shown_progress
from ..cli.standard_streams import STANDARD_OUTPUT
from ..options import PASSES, RULES, FormatOptions

if TYPE_CHECKING:  # imports onnx and numpy
    from ..check.rule_check import CheckReport

EXIT_CODES = """Exit codes: 0 no rule is wrong; 1 a file cannot be loaded; 2 usage error; 3 a rule is wrong; 4 a rule
could not be tested, or there was nothing to test; 130 interrupted."""
EXAMPLES = {"passes check rules.py": "tests the rules in a file"}


def check(
    options: CheckOptions,
    formats: FormatOptions,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Python files with rules, and names of rules and passes in them; without files, of all known ones.",
            autocompletion=complete_names(PASSES, RULES),
        ),
    ] = None,
) -> int:
    """Test rules on models generated from their patterns, and show the smallest model on which a rule is wrong."""
    from ..check.document import describe, result_line  # noqa: PLC0415 - imports onnx and numpy
    from ..check.rule_check import check_rules  # noqa: PLC0415 - imports onnx and numpy
    from ..report.terminal import Terminal  # noqa: PLC0415 - imports rich

    outputs = Outputs.parse(formats.format, options.json)
    outputs.require_distinct((*map(Path, targets or ()), outputs.json))
    json = None if outputs.json == STANDARD_OUTPUT else outputs.json
    terminal, reports = Terminal(quiet=outputs.is_quiet), list["CheckReport"]()

    def show(report: CheckReport) -> None:
        reports[:] = [report]
        if len(report.subjects) > 1:
            terminal.line_amid_progress(result_line(report.checked[-1]))

    try:
        with shown_progress(terminal) as progress:
            report = check_rules(targets or (), replace(options, json=json, progress=progress), show)
    except KeyboardInterrupt:
        for unfinished in reports:
            print_report(unfinished, describe(unfinished), outputs, terminal)
        raise
    print_report(report, describe(report), outputs, terminal)
    return WRONG if report.wrong else UNVERIFIED if report.inconclusive or not report.checked else 0
