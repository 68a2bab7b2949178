"""`passes diff`: structural differences between two models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import options
from ..exit_codes import WRONG, echo_json, one_line_errors

EXIT_CODES = """Exit codes: 0 the same; 1 bad model; 2 usage; 3 they differ."""


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
    with one_line_errors():
        from ..terminal import Terminal  # noqa: PLC0415 - imports rich
        from .model_diff import diff as compare  # noqa: PLC0415 - imports onnx and numpy
        from .render import show_difference  # noqa: PLC0415 - imports rich

        screen = Terminal(quiet=json == options.STANDARD_OUTPUT)
        with screen.progress() as progress:
            found = compare(
                original, other, include_names=include_names, report_to=options.report_file(json), progress=progress
            )
        show_difference(screen, found, limit)
        echo_json(json, found)
        if not found.is_equal:
            raise typer.Exit(WRONG)
