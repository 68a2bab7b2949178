"""`passes check`: tests of rules against their contracts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..cli import options
from ..cli.completion import PASSES, RULES, complete_names
from ..cli.exit_codes import UNVERIFIED, WRONG, one_line_errors
from ..cli.outputs import Outputs
from ..cli.report_output import show_progress_and_report

EXIT_CODES = """Exit codes: 0 all are sound; 1 a file cannot be loaded; 2 usage; 3 a rule is wrong;
4 a rule could not be tested."""
EXAMPLES = {"passes check rules.py": "tries the rules of a file"}


def check(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Python files with rules, and names of rules and passes: of the files, or of all there are.",
            autocompletion=complete_names(PASSES, RULES),
        ),
    ] = None,
    built_in: Annotated[bool, typer.Option("--built-in", help="Check all rules that come with passwright.")] = False,
    budget: Annotated[int, typer.Option(min=1, metavar="N", help="Models made for each rule, at most.")] = 600,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the generated models and inputs.")] = 0,
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Prove the rules, too: over the reals, and bit for bit where they are exact."),
    ] = False,
    float32: Annotated[
        bool, typer.Option("--float32", help="With --prove, run exact rules on every float32, for minutes each.")
    ] = False,
    repro: Annotated[
        Path | None, options.report_option(metavar="FOLDER", help="Write a model and inputs here for each wrong rule.")
    ] = None,
    formats: options.Format = None,
    json: options.Json = None,
) -> None:
    """Try rules on models made from their own patterns, and show the smallest on which one is wrong."""
    with one_line_errors():
        from ..check.render import check_document, show_check_report  # noqa: PLC0415 - imports rich
        from ..check.rule_check import check as checked  # noqa: PLC0415 - imports onnx and numpy

        outputs = Outputs.parse(formats, json)
        outputs.require_distinct((*map(Path, targets or ()), outputs.json))
        compute = partial(
            checked,
            targets or (),
            built_in=built_in,
            budget=budget,
            seed=seed,
            prove=prove,
            float32=float32,
            report_to=options.report_file(outputs.json),
            repro_to=repro,
        )
        report = show_progress_and_report(
            outputs.json, compute, show_check_report, outputs=outputs, describe=check_document
        )
        if report.wrong or report.inconclusive:
            raise typer.Exit(WRONG if report.wrong else UNVERIFIED)
