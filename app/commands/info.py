"""`passes info`: operators, sizes and interfaces of models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..cli.exit_codes import BAD_INPUT
from ..cli.report_output import report_on
from ..options import ReportOptions

EXIT_CODES = "Exit codes: 0 done; 1 a model could not be loaded, the others are shown; 2 usage."
EXAMPLES = {"passes info model.onnx small.onnx": "shows two models side by side"}


def info(
    models: Annotated[list[Path], typer.Argument(metavar="FILE...", help="The .onnx files; a column for each.")],
    options: ReportOptions,
) -> int:
    """Show operators, sizes and interfaces of models, side by side, without reading their weights."""
    from ..info.document import describe  # noqa: PLC0415 - imports onnx and numpy
    from ..info.info import info as read_models  # noqa: PLC0415 - imports onnx and numpy

    report = report_on(options, lambda o: read_models(*models, json=o.json, progress=o.progress), describe)
    return BAD_INPUT if report.failures else 0
