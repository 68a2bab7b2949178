"""`passes list`: passes, rules and pipelines."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import options
from ..exit_codes import echo_json, one_line_errors

Operator = Annotated[
    str | None, typer.Option("--op", metavar="OPERATOR", help="List the rules whose pattern has this operator.")
]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME", help="Passes, rules or pipelines to describe in full.")
]


def list_passes(
    name: Names = None,
    op: Operator = None,
    plugin: options.Plugins = None,
    json: options.Json = None,
) -> None:
    """List all passes in order, with their stages, and all pipelines; or describe those named in full."""
    with one_line_errors():
        from ...core.pass_manager.report import write_json  # noqa: PLC0415 - imports onnx and numpy
        from ..terminal import Terminal  # noqa: PLC0415 - imports rich
        from .listing import listing, listing_by_operator  # noqa: PLC0415 - imports onnx and numpy
        from .render import show_details, show_listing, show_rules  # noqa: PLC0415 - imports rich

        options.require(not name or op is None, "give names or --op, not both")
        found = listing(name or (), plugin or ()) if op is None else listing_by_operator(op, plugin or ())
        screen = Terminal(quiet=json == options.STANDARD_OUTPUT)
        (show_details if name else show_listing if op is None else show_rules)(screen, found)
        for message in dict.fromkeys(found.broken.values()):
            typer.echo(f"warning: {' '.join(message.split())}", err=True)
        write_json(found.to_json, options.report_file(json))
        echo_json(json, found)
