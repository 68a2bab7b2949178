"""`passes diff`: structural differences between two models."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..cli.exit_codes import USAGE
from ..cli.outputs import Outputs
from ..cli.report_output import report_on
from ..diff.diff_options import DiffOptions
from ..options import FormatOptions, option

DIFFERENT, BAD_INPUT = 1, USAGE
EXIT_CODES = """Exit codes, as of diff: 0 no differences; 1 differences; 2 bad model or usage error."""
EXAMPLES = {"passes diff model.onnx small.onnx": "lists the changes that any tool made"}


@dataclass(frozen=True, kw_only=True)
class DiffDisplayOptions(FormatOptions):
    """Formats, and the length of lists."""

    limit: int = option(12, "Show at most N lines of each region and N names in each list.", "N", least=1, is_own=True)


def diff(
    original: Annotated[Path, typer.Argument(metavar="FILE", help="The original .onnx file.")],
    other: Annotated[Path, typer.Argument(metavar="OTHER", help="The changed .onnx file.")],
    options: DiffOptions,
    shown: DiffDisplayOptions,
) -> int:
    """List the nodes that were removed, added, replaced or changed; nodes that compute the same are matched."""
    from ..diff.document import describe  # noqa: PLC0415 - imports onnx
    from ..diff.model_diff import compare_graphs  # noqa: PLC0415 - imports onnx and numpy

    outputs = Outputs.parse(shown.format, options.json)
    outputs.require_distinct((original, other, outputs.json))
    with outputs.failures_of("passes diff", other):
        described = partial(describe, limit=shown.limit)
        report = report_on(options, lambda o: compare_graphs(original, other, o), described, outputs)
    return 0 if report.is_equal else DIFFERENT
