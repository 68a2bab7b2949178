"""`passes list`: passes, rules, pipelines and targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ..cli.completion import complete_names
from ..cli.outputs import Outputs
from ..cli.report_output import print_report
from ..cli.standard_streams import STANDARD_OUTPUT
from ..options import OPERATORS, PASSES, PIPELINES, RULES, ReportOptions, plugin_option, require, selection_option

EXIT_CODES = """Exit codes: 0 done; 1 bad plugin; 2 usage error, or an unknown name."""
EXAMPLES = {
    "passes list fuse-gemm": "describes a pass",
    "passes list --search gelu": "finds passes and rules by keyword",
}


@dataclass(frozen=True, kw_only=True)
class ListOptions(ReportOptions):
    """The options of `passes list`."""

    op: str | None = selection_option(
        None, "List the rules whose pattern has this operator.", "OPERATOR", completes=(OPERATORS,)
    )
    search: str | None = selection_option(
        None, "List the passes and rules with these words in their names and descriptions.", "WORDS"
    )
    plugin: Sequence[Path] = plugin_option()


def list_passes(
    options: ListOptions,
    name: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Passes, rules, pipelines or targets to describe in full.",
            autocompletion=complete_names(PASSES, RULES, PIPELINES),
        ),
    ] = None,
) -> None:
    """List all passes in order with their stages, all pipelines and all targets; or describe the named ones in full."""
    from ...core.io.output_paths import OutputPaths  # noqa: PLC0415 - imports onnx and numpy
    from ...core.io.publishing import publish_text  # noqa: PLC0415 - as above
    from ..listing.document import describe_all, describe_details, describe_rules  # noqa: PLC0415 - as above
    from ..listing.listing import listing, listing_by_operator, listing_by_search  # noqa: PLC0415 - as above

    op, search, outputs = options.op, options.search, Outputs.parse((), options.json)
    if search and name:
        search, name = " ".join([search, *name]), None
    require(bool(name) + bool(op) + bool(search) <= 1, "give only one of names, --op and --search")
    paths = OutputPaths.of(report=None if options.json == STANDARD_OUTPUT else options.json)
    if op or search:
        found = listing_by_operator(op, options.plugin) if op else listing_by_search(search or "", options.plugin)
    else:
        found = listing(name or (), options.plugin)
    publish_text(paths.report, found.to_json)
    describe = describe_details if name else describe_rules if op or search else describe_all
    print_report(found, describe(found), outputs)
