"""`passes verify`: two models compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import options
from ..exit_codes import WRONG, echo_json, one_line_errors

EXIT_CODES = """Exit codes: 0 they agree; 1 bad model or input; 2 usage; 3 they differ; 4 could not be verified."""


def verify(
    original: Annotated[Path, typer.Argument(metavar="FILE", help="The .onnx file whose outputs are right.")],
    other: Annotated[
        Path, typer.Argument(metavar="OTHER", help="The .onnx file to compare with it, whatever made it.")
    ],
    inputs: options.Inputs = None,
    shape: options.Shapes = None,
    seed: options.Seed = 0,
    exact: Annotated[
        bool, typer.Option("--exact", help="Require bit-identical outputs.", rich_help_panel=options.VERIFICATION)
    ] = False,
    json: options.Json = None,
) -> None:
    """Compare two models on inputs that are generated to find mistakes."""
    with one_line_errors():
        from ..terminal import Terminal  # noqa: PLC0415 - imports rich
        from .render import show_verification  # noqa: PLC0415 - imports rich
        from .verify import verify as compare  # noqa: PLC0415 - imports onnx and numpy

        screen = Terminal(quiet=json == options.STANDARD_OUTPUT)
        with screen.progress() as progress:
            comparison = compare(
                original,
                other,
                inputs,
                shapes=options.parse_shapes(shape or ()),
                seed=seed,
                exact=exact,
                report_to=options.report_file(json),
                progress=progress,
            )
        show_verification(screen, comparison)
        echo_json(json, comparison)
        if not comparison.agrees:
            raise typer.Exit(WRONG)
