"""`passes view`: display of a model in Netron, an independent viewer."""

from __future__ import annotations

import importlib
import logging
from dataclasses import dataclass
from typing import Any

import typer

from ...core.errors import ModelError, UsageError
from ...core.support.printable_text import printable
from ..cli.parameters import Model
from ..options import option

EXIT_CODES = """Exit codes: 0 done; 1 bad model, or a port that is taken; 2 usage error, or Netron is not installed."""
EXAMPLES = {"passes view model.onnx": "opens it in a browser"}


@dataclass(frozen=True, kw_only=True)
class ViewOptions:
    """The options of `passes view`."""

    port: int | None = option(None, "Port to serve on, instead of a free one.", "N", kind=int, least=1, most=65535)
    no_browser: bool = option(False, "Serve the model without opening a browser.")


def view(model: Model, options: ViewOptions) -> None:
    """Open a model in Netron, if it is installed."""
    from ...core.io.files import ModelFile, load  # noqa: PLC0415 - imports onnx

    load(ModelFile(model), inline=False)  # raises ModelError unless it is a model
    try:
        netron: Any = importlib.import_module("netron")
    except ImportError as e:
        raise UsageError("this needs Netron: pip install netron") from e
    logging.getLogger("netron").setLevel(logging.WARNING)  # it would also report its address
    port = options.port
    try:
        host, chosen = netron.start(str(model), port, browse=not options.no_browser)
    except (OSError, ValueError) as e:
        raise ModelError(f"{model} cannot be served{f' at port {port}' if port else ''}: {e}") from e
    try:
        typer.echo(printable(f"{model} at http://{host}:{chosen}; press Ctrl-C to stop"))
        netron.wait()
    finally:
        netron.stop()
