"""`passes diff`: differences between two models, or two reports."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..cli.exit_codes import USAGE, WRONG
from ..cli.outputs import Outputs
from ..cli.parameters import path_of
from ..cli.report_output import report_on
from ..diff.diff_options import DiffOptions
from ..options import FormatOptions, option, require

DIFFERENT, BAD_INPUT = 1, USAGE
EXIT_CODES = """Exit codes: 0 no differences, or no figure of a report is worse; 1 differences; 2 bad file or usage
error; 3 a figure of a report is worse."""
EXAMPLES = {
    "passes diff model.onnx small.onnx": "lists the changes that any tool made",
    "passes diff base.json new.json": "compares two reports of --json: exits with 3 if a figure is worse",
}


@dataclass(frozen=True, kw_only=True)
class DiffDisplayOptions(FormatOptions):
    """The formats and the length of lists."""

    limit: int = option(12, "Show at most N lines of each region and N names in each list.", "N", least=1, is_own=True)


def diff(
    original: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The original .onnx file, or a report that a command wrote with --json."),
    ],
    other: Annotated[
        Path, typer.Argument(metavar="OTHER", help="The changed .onnx file, or another report of that command.")
    ],
    options: DiffOptions,
    shown: DiffDisplayOptions,
) -> int:
    """List the nodes that were removed, added, replaced or changed; nodes that compute the same are matched.

    For two reports, list the sizes, times and verdicts that are better or worse; times only beyond their intervals.
    """
    outputs = Outputs.parse(shown.format, options.json)
    outputs.require_distinct((original, other, outputs.json, path_of(options.html)))
    are_reports = [path.suffix == ".json" for path in (original, other)]
    require(len({*are_reports}) == 1, f"{original} and {other}: give two models, or two reports of --json")
    if are_reports[0]:
        from ..diff.report_diff import compare_reports, describe_reports  # noqa: PLC0415 - imports onnx

        with outputs.failures_of("passes diff", other):
            found = report_on(options, lambda o: compare_reports(original, other, o), describe_reports, outputs)
        return 0 if found else WRONG
    from ..diff.document import describe  # noqa: PLC0415 - imports onnx
    from ..diff.model_diff import compare_graphs  # noqa: PLC0415 - imports onnx and numpy

    with outputs.failures_of("passes diff", other):
        described = partial(describe, limit=shown.limit)
        report = report_on(options, lambda o: compare_graphs(original, other, o), described, outputs)
    return 0 if report else DIFFERENT
