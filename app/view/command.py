"""`passes view`: a model in Netron."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import options
from ..exit_codes import one_line_errors

EXIT_CODES = """Exit codes: 0 done; 1 bad model, or a port that is taken; 2 usage, or no Netron."""


def view(
    model: options.Model,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, metavar="N", help="Port to serve at, instead of a free one.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Serve it without opening a browser.")] = False,
) -> None:
    """Show a model in Netron, if that is installed."""
    with one_line_errors():
        from ..terminal import printable  # noqa: PLC0415 - imports rich
        from .netron import view as show  # noqa: PLC0415 - imports onnx

        show(model, port, browse=not no_browser, announce=lambda line: typer.echo(printable(line)))
