"""`passes list`: passes, rules and pipelines."""

from __future__ import annotations

from typing import Annotated

import typer

from ..cli import options
from ..cli.completion import OPERATORS, PASSES, PIPELINES, RULES, complete_names
from ..cli.exit_codes import one_line_errors
from ..cli.report_output import echo_json
from ..cli.standard_streams import STANDARD_OUTPUT

EXIT_CODES = """Exit codes: 0 done; 1 bad plugin; 2 usage, or an unknown name."""
EXAMPLES = {
    "passes list fuse-gemm": "describes a pass",
    "passes list --search gelu": "finds passes and rules by words",
}

Operator = Annotated[
    str | None,
    options.selection_option(
        "--op",
        metavar="OPERATOR",
        help="List the rules whose pattern has this operator.",
        autocompletion=complete_names(OPERATORS),
    ),
]
Search = Annotated[
    str | None,
    options.selection_option(
        metavar="WORDS", help="List the passes and rules with these words in their names and descriptions."
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME",
        help="Passes, rules or pipelines to describe in full.",
        autocompletion=complete_names(PASSES, RULES, PIPELINES),
    ),
]


def list_passes(
    name: Names = None,
    op: Operator = None,
    search: Search = None,
    plugin: options.Plugins = None,
    json: options.Json = None,
) -> None:
    """List all passes in order, with their stages, and all pipelines; or describe those named in full."""
    with one_line_errors():
        from ...core.io.output_paths import OutputPaths  # noqa: PLC0415 - imports onnx and numpy
        from ...core.io.publishing import publish_text  # noqa: PLC0415 - imports onnx and numpy
        from ..listing.listing import listing, listing_by_operator, listing_by_search  # noqa: PLC0415 - imports onnx and numpy
        from ..listing.render import show_details, show_listing, show_rules  # noqa: PLC0415 - imports rich
        from ..report.terminal import Terminal  # noqa: PLC0415 - imports rich

        options.require(bool(name) + bool(op) + bool(search) <= 1, "give names, --op or --search, one of them")
        paths = OutputPaths.of(report=options.report_file(json))
        if op or search:
            found = listing_by_operator(op, plugin or ()) if op else listing_by_search(search or "", plugin or ())
        else:
            found = listing(name or (), plugin or ())
        screen = Terminal(quiet=json == STANDARD_OUTPUT)
        (show_details if name else show_rules if op or search else show_listing)(screen, found)
        for message in dict.fromkeys(found.broken.values()):
            screen.warning(f"warning: {' '.join(message.split())}")
        publish_text(paths.report, found.to_json)
        echo_json(json, found)
