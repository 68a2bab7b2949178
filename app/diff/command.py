"""`passes diff`: structural differences between two models."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from .. import options
from ..exit_codes import USAGE, one_line_errors, show_progress_and_report

DIFFERENT = 1
EXIT_CODES = """Exit codes, as those of diff: 0 the same; 1 they differ; 2 bad model or usage."""


def diff(
    original: Annotated[Path, typer.Argument(metavar="FILE", help="The .onnx file before.")],
    other: Annotated[Path, typer.Argument(metavar="OTHER", help="The .onnx file after.")],
    include_names: Annotated[
        bool, typer.Option("--all", help="Names, doc strings, metadata of nodes and places of constants count too.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="Lines of each region, and names in each list, to show.")
    ] = 12,
    json: options.Json = None,
) -> None:
    """List removed, added, replaced and changed nodes, by matching those that compute the same."""
    with one_line_errors(bad_input=USAGE):
        from .model_diff import diff as compare  # noqa: PLC0415 - imports onnx and numpy
        from .render import show_difference  # noqa: PLC0415 - imports rich

        compute = partial(compare, original, other, include_names=include_names, report_to=options.report_file(json))
        found = show_progress_and_report(json, compute, partial(show_difference, limit=limit))
        if not found.is_equal:
            raise typer.Exit(DIFFERENT)
