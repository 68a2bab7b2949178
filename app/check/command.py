"""`passes check`: tests of rules against their contracts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from .. import options
from ..exit_codes import UNVERIFIED, WRONG, one_line_errors, show_progress_and_report

EXIT_CODES = """Exit codes: 0 all are sound; 1 a file cannot be loaded; 2 usage; 3 a rule is wrong;
4 a rule could not be tested."""


def check(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Python files with rules, and names of rules and passes: of the files, or of all there are.",
        ),
    ] = None,
    built_in: Annotated[bool, typer.Option("--built-in", help="Check all rules that come with passwright.")] = False,
    budget: Annotated[int, typer.Option(min=1, metavar="N", help="Models made for each rule, at most.")] = 600,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the generated models and inputs.")] = 0,
    repro: Annotated[
        Path | None, options.report_option(metavar="FOLDER", help="Write a model and inputs here for each wrong rule.")
    ] = None,
    json: options.Json = None,
) -> None:
    """Try rules on models made from their own patterns, and show the smallest on which one is wrong."""
    with one_line_errors():
        from .render import show_check_report  # noqa: PLC0415 - imports rich
        from .rule_check import check as checked  # noqa: PLC0415 - imports onnx and numpy

        compute = partial(
            checked,
            targets or (),
            built_in=built_in,
            budget=budget,
            seed=seed,
            report_to=options.report_file(json),
            repro_to=repro,
        )
        report = show_progress_and_report(json, compute, show_check_report)
        if report.wrong or report.inconclusive:
            raise typer.Exit(WRONG if report.wrong else UNVERIFIED)
