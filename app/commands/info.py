"""`passes info`: operators, sizes and interfaces of models."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..cli import options
from ..cli.exit_codes import BAD_INPUT, one_line_errors
from ..cli.report_output import show_progress_and_report

EXIT_CODES = "Exit codes: 0 done; 1 a model could not be loaded, the others are shown; 2 usage."
EXAMPLES = {"passes info model.onnx small.onnx": "shows two models side by side"}


def info(
    models: Annotated[list[Path], typer.Argument(metavar="FILE...", help="The .onnx files; a column for each.")],
    json: options.Json = None,
) -> None:
    """Show operators, sizes and interfaces of models, side by side, without reading their weights."""
    with one_line_errors():
        from ..info.info import info as compute  # noqa: PLC0415 - imports onnx and numpy
        from ..info.render import show_info  # noqa: PLC0415 - imports rich

        report = show_progress_and_report(
            json, partial(compute, *models, report_to=options.report_file(json)), show_info
        )
        if report.failures:
            raise typer.Exit(BAD_INPUT)
