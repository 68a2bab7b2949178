"""`passes diff`: structural differences between two models."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..cli import options
from ..cli.exit_codes import USAGE, one_line_errors
from ..cli.outputs import Outputs
from ..cli.report_output import show_progress_and_report

DIFFERENT = 1
EXIT_CODES = """Exit codes, as those of diff: 0 the same; 1 they differ; 2 bad model or usage."""
EXAMPLES = {"passes diff model.onnx small.onnx": "lists the changes of any tool"}


def diff(
    original: Annotated[Path, typer.Argument(metavar="FILE", help="The .onnx file before.")],
    other: Annotated[Path, typer.Argument(metavar="OTHER", help="The .onnx file after.")],
    include_names: Annotated[
        bool, typer.Option("--all", help="Names, doc strings, metadata of nodes and places of constants count too.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="Lines of each region, and names in each list, to show.")
    ] = 12,
    formats: options.Format = None,
    json: options.Json = None,
) -> None:
    """List removed, added, replaced and changed nodes, by matching those that compute the same."""
    with one_line_errors(bad_input=USAGE):
        from ..diff.model_diff import diff as compare  # noqa: PLC0415 - imports onnx and numpy
        from ..diff.render import difference_document, show_difference  # noqa: PLC0415 - imports rich

        outputs = Outputs.parse(formats, json)
        outputs.require_distinct((original, other, outputs.json))
        report_to = options.report_file(outputs.json)
        compute = partial(compare, original, other, include_names=include_names, report_to=report_to)
        show = partial(show_difference, limit=limit)
        with outputs.failures_of("passes diff", other):
            found = show_progress_and_report(outputs.json, compute, show, outputs=outputs, describe=difference_document)
        if not found.is_equal:
            raise typer.Exit(DIFFERENT)
