"""`passes check`: tests of rules against their contracts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..check.check_options import CheckOptions
from ..cli.completion import complete_names
from ..cli.exit_codes import UNVERIFIED, WRONG
from ..cli.outputs import Outputs
from ..cli.report_output import report_on
from ..options import PASSES, RULES, FormatOptions

EXIT_CODES = """Exit codes: 0 all are sound; 1 a file cannot be loaded; 2 usage; 3 a rule is wrong;
4 a rule could not be tested."""
EXAMPLES = {"passes check rules.py": "tries the rules of a file"}


def check(
    options: CheckOptions,
    formats: FormatOptions,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Python files with rules, and names of rules and passes: of the files, or of all there are.",
            autocompletion=complete_names(PASSES, RULES),
        ),
    ] = None,
) -> int:
    """Try rules on models made from their own patterns, and show the smallest on which one is wrong."""
    from ..check.document import describe  # noqa: PLC0415 - imports onnx and numpy
    from ..check.rule_check import check_rules  # noqa: PLC0415 - imports onnx and numpy

    outputs = Outputs.parse(formats.format, options.json)
    outputs.require_distinct((*map(Path, targets or ()), outputs.json))
    report = report_on(options, lambda o: check_rules(targets or (), o), describe, outputs)
    return WRONG if report.wrong else UNVERIFIED if report.inconclusive else 0
