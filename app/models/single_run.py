"""The run of one model, in this process."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace

from msgspec import structs

from ...core.errors import UsageError
from ...core.verify.oracle_start import start_oracle_worker
from ..cli.exit_codes import WRONG
from ..cli.outputs import TEXT
from ..cli.report_output import print_report, shown_progress
from ..cli.standard_streams import STANDARD_OUTPUT
from ..optimize.declines import recorded_declines
from ..optimize.run_options import RunOptions
from .display import Display
from .model_files import STREAM, ModelJob
from .streams import opened_model, require_no_terminal, write_to_standard_output


def run_single(job: ModelJob, options: RunOptions, display: Display) -> int:
    """Run a model, write the result, and print the report, on standard error if standard output gets the model.

    Returns the exit code.
    """
    is_streamed = job.output == STREAM
    if is_streamed:
        _require_free_stream(options, display)
        display = structs.replace(display, end="written to standard output")
    output = None if is_streamed or options.in_place else job.output
    stream, terminal = sys.stdout, display.terminal(reserved=is_streamed)

    with display.outputs.failures_of("passes run", job.model), opened_model(job.model) as model:
        with (
            recorded_declines() if display.verbose else nullcontext() as declines,
            shown_progress(terminal) as progress,
        ):
            if options.verify:
                start_oracle_worker()
            from ..optimize.optimize import optimize_model  # noqa: PLC0415 - the worker for verification is started first

            result = optimize_model(model, replace(options, output=output, progress=progress))
            if is_streamed:
                write_to_standard_output(result, stream)
        report = result.report
        print_report(
            report, display.document(report), display.outputs, terminal, verbose=display.verbose, quiet=display.quiet
        )
    for line in declines.lines() if declines is not None else ():
        terminal.warning(line)
    return WRONG if display.is_check and report.has_changes else 0


def _require_free_stream(options: RunOptions, display: Display) -> None:
    """Raise UsageError unless standard output can take the model alone, with its weights."""
    require_no_terminal()
    if display.json == STANDARD_OUTPUT:
        raise UsageError("standard output is for the model: give --json another file")
    if (printed := display.outputs.printed) != TEXT:
        raise UsageError(f"standard output is for the model: name a file, as in --format {printed}:FILE")
    if options.external_data not in {"auto", "never"}:
        raise UsageError("standard output takes no external data: leave out --external-data, or name a file")
