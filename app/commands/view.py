"""`passes view`: a model in Netron, an independent viewer."""

from __future__ import annotations

import importlib
import logging
from typing import Annotated, Any

import typer

from ...core.errors import ModelError, UsageError
from ...core.support.printable_text import printable
from ..cli import options
from ..cli.exit_codes import one_line_errors

EXIT_CODES = """Exit codes: 0 done; 1 bad model, or a port that is taken; 2 usage, or no Netron."""
EXAMPLES = {"passes view model.onnx": "opens it in a browser"}


def view(
    model: options.Model,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, metavar="N", help="Port to serve at, instead of a free one.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Serve it without opening a browser.")] = False,
) -> None:
    """Show a model in Netron, if that is installed."""
    with one_line_errors():
        from ...core.io.files import ModelFile, load  # noqa: PLC0415 - imports onnx

        load(ModelFile(model), inline=False)  # raises ModelError unless it is a model
        try:
            netron: Any = importlib.import_module("netron")
        except ImportError as e:
            raise UsageError("this needs Netron: pip install netron") from e
        logging.getLogger("netron").setLevel(logging.WARNING)  # it reports its address, too
        try:
            host, chosen = netron.start(str(model), port, browse=not no_browser)
        except (OSError, ValueError) as e:
            raise ModelError(f"{model} cannot be served{f' at port {port}' if port else ''}: {e}") from e
        try:
            typer.echo(printable(f"{model} at http://{host}:{chosen}; Ctrl-C ends this"))
            netron.wait()
        finally:
            netron.stop()
