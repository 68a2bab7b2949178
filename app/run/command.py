"""`passes run`: optimize, verify, write."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.verify.oracle_start import start_oracle_worker
from .. import options
from ..exit_codes import WRONG, one_line_errors, show_progress_and_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.pass_manager.report import Report

EXIT_CODES = """Exit codes: 0 done; 1 bad model, input or plugin; 2 usage; 3 verification failed, nothing written, or
a change would be made, with --check; 4 could not be verified, nothing written."""

DEFAULT_LIMIT = 20  # changes of a dry run
DEFAULT_MIN_TIME = 2.0  # seconds


@options.flatten_options
def run(
    model: options.Model,
    out: Annotated[
        Path | None, typer.Argument(metavar="[OUT]", help="Where to write the verified model, as with -o.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to write the verified model.")
    ] = None,
    *,
    pipeline: options.PipelineOptions,
    verification: options.VerificationOptions,
    debloat: Annotated[
        bool, typer.Option("--debloat", help="Write large repetitive constants as ops that compute them.")
    ] = False,
    shapes: Annotated[
        str,
        typer.Option(
            metavar="CHOICE",
            help="Shapes of intermediate values: keep those of the model, write all that are known, or strip them, the "
            "default except for --pipeline none.",
        ),
    ] = "",
    check_speed: Annotated[
        bool,
        options.speed_option(
            "--check-speed",
            help="Race the result against the original in onnxruntime, and keep the original, or the result of the "
            "pipeline's fallback, if it is slower.",
        ),
    ] = False,
    threads: Annotated[
        int | None, options.speed_option(min=0, metavar="N", help="Threads of the race; one for each core.")
    ] = None,
    min_time: Annotated[
        float | None,
        options.speed_option(
            "--min-time", min=0.01, metavar="SECONDS", help="Seconds of calls for each model in the race: 2."
        ),
    ] = None,
    no_verify: Annotated[bool, options.verification_option("--no-verify", help="Write without verification.")] = False,
    strict: Annotated[
        bool,
        options.verification_option(
            "--strict", help="Write nothing if any change is wrong, instead of leaving it out."
        ),
    ] = False,
    map_to: Annotated[
        Path | None,
        options.report_option("--map", metavar="FILE", help="Write the fate of each name, as JSON, to this file."),
    ] = None,
    dry_run: Annotated[
        bool, options.report_option("--dry-run", help="List each change with its savings, and write no model.")
    ] = False,
    limit: Annotated[
        int | None, options.report_option(min=0, metavar="N", help="Of a dry run, list at most so many changes: 20.")
    ] = None,
    check: Annotated[
        bool, options.report_option("--check", help="Write no model, and exit with 3 if any change would be made.")
    ] = False,
    html: options.Html = None,
    json: options.Json = None,
    verbose: Annotated[
        bool,
        options.report_option("-v", "--verbose", help="Show operators, passes, outputs, notes and declined changes."),
    ] = False,
    quiet: Annotated[bool, options.report_option("-q", "--quiet", help="Print warnings and errors alone.")] = False,
) -> None:
    """Optimize a model, verify it against the original, and write it.

    A wrong change is found, named and left out.
    """
    with one_line_errors():
        if not no_verify:
            start_oracle_worker()
        from ...core.support.printable_text import printable  # noqa: PLC0415 - used seldom
        from .declines import recorded_declines  # noqa: PLC0415 - imports onnx and numpy
        from .optimize import run_pipeline  # noqa: PLC0415 - imports onnx and numpy
        from .render import show_plan, show_report  # noqa: PLC0415 - imports rich

        options.require(not (out and output), "give one file to write: OUT, or -o FILE")
        output, planned = out or output, dry_run or check
        written = output or map_to or verification.repro
        option = "--dry-run" if dry_run else "--check"
        options.require(not (planned and written), f"{option} writes nothing: leave out -o, --map and --repro")
        options.require(not (verbose and quiet), "--verbose and --quiet exclude each other")
        options.require(dry_run or limit is None, "--limit is for --dry-run: other runs list no changes")
        is_timed = threads is not None or min_time is not None
        options.require(not (no_verify and verification.verify), "--no-verify and --verify exclude each other")
        options.require(check_speed or not is_timed, "--threads and --min-time are for --check-speed")
        given = options.run_options(pipeline, verification, json)
        run_options = replace(
            given,
            verify=False if no_verify else given.verify,
            enable=[*given.enable, *["debloat"] * debloat],
            strict=strict,
            output=output,
            map_to=map_to,
            page_to=html,
            plan=dry_run,
            value_info=shapes or None,
            check_speed=check_speed,
            threads=threads or 0,
            min_time=DEFAULT_MIN_TIME if min_time is None else min_time,
        )

        def compute(progress: Callable[[str], None]) -> Report:
            return run_pipeline(model, replace(run_options, progress=progress)).report

        end = "nothing written: this was a check" if check else "not written: give -o FILE to keep it"
        end = f"written to {output}" if output is not None else end
        show = partial(show_report, end=end, verbose=verbose, quiet=quiet)
        if dry_run:
            show = partial(show_plan, limit=DEFAULT_LIMIT if limit is None else limit)
        with recorded_declines() if verbose else nullcontext() as declines:
            report = show_progress_and_report(json, compute, show)
        for line in declines.lines() if declines is not None else ():
            typer.echo(printable(line), err=True)
        if check and report.has_changes:
            raise typer.Exit(WRONG)
