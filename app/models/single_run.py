"""The run of one model in this process, including models on standard input and output."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from msgspec import structs

from ...core.errors import ModelError, UsageError
from ...core.io.files import ModelFile
from ...core.io.model import MAX_MESSAGE_BYTES
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.oracle_start import start_oracle_worker
from ..cli.exit_codes import WRONG
from ..cli.outputs import TEXT
from ..cli.report_output import full_disk_behind_standard_output, print_report, shown_progress
from ..cli.standard_streams import STANDARD_OUTPUT
from ..optimize.run_options import RunOptions
from .display import Display
from .model_files import STREAM, ModelJob

if TYPE_CHECKING:
    from ..optimize.optimize import Result

LABEL = "standard input"
PIECE_BYTES = 1 << 20


def run_single(job: ModelJob, options: RunOptions, display: Display) -> int:
    """Run a model, write the result, and print the report, to standard error if the model goes to standard output.

    Returns the exit code.
    """
    is_streamed = job.output == STREAM
    if is_streamed:
        _require_free_stream(options, display)
        display = structs.replace(display, end="written to standard output")
    output = None if is_streamed or options.in_place else job.output
    stream, terminal = sys.stdout, display.terminal(reserved=is_streamed)

    with display.outputs.failures_of("passes run", job.model), opened_model(job.model) as model:
        with shown_progress(terminal) as progress:
            if options.verify:
                start_oracle_worker()
            from ..optimize.optimize import optimize_model  # noqa: PLC0415 - the worker for verification is started first
            from ..optimize.statistics import RunStatistics  # noqa: PLC0415 - as above

            statistics = RunStatistics()
            instruments = (*options.instrumentation, *[statistics] * display.verbose)
            result = optimize_model(
                model, replace(options, output=output, progress=progress, instrumentation=instruments)
            )
            if is_streamed:
                write_to_standard_output(result, stream)
        report = result.report
        print_report(
            report, display.document(report), display.outputs, terminal, verbose=display.verbose, quiet=display.quiet
        )
    for line in statistics.decline_lines():
        terminal.warning(line)
    return WRONG if display.is_check and report.has_changes else 0


def _require_free_stream(options: RunOptions, display: Display) -> None:
    """Raise UsageError unless standard output is free for the model and its weights."""
    if sys.stdout.isatty():
        raise UsageError("standard output is a terminal, and a model is binary: redirect it, or name a file")
    if display.json == STANDARD_OUTPUT:
        raise UsageError("the model goes to standard output: give --json a file")
    if (printed := display.outputs.printed) != TEXT:
        raise UsageError(f"the model goes to standard output: name a file, such as --format {printed}:FILE")
    if options.external_data not in {"auto", "never"}:
        raise UsageError("external data cannot go to standard output: leave out --external-data, or name a file")


@contextmanager
def opened_model(model: Path) -> Generator[Path | ModelFile]:
    """The file of a model; for standard input, a temporary file that exists during the block.

    Raises ModelError for a model over 2 GB, which does not fit in one message.
    """
    if model != STREAM:
        yield model
        return
    with ScratchFolder() as folder:
        file = folder / "model.onnx"
        with file.open("wb") as copy:
            _copy_standard_input(copy)
        yield ModelFile(file, LABEL)


def _copy_standard_input(copy: BinaryIO) -> None:
    stream = sys.stdin.buffer if sys.stdin is not None else None  # pyright: ignore[reportUnnecessaryComparison] - closed
    size = 0
    while stream is not None and (piece := stream.read(PIECE_BYTES)):
        size += len(piece)
        if size > MAX_MESSAGE_BYTES:
            raise ModelError(
                f"{LABEL}: a model over 2 GB does not fit in one message; give it as a file with external data"
            )
        copy.write(piece)


def write_to_standard_output(result: Result, stdout: TextIO) -> None:
    """Write a model to standard output. Raises ModelError over 2 GB, and PassesError on a full disk."""
    with full_disk_behind_standard_output():
        result.write(stdout.buffer)
        stdout.buffer.flush()
