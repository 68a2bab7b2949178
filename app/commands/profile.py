"""`passes profile`: time by node, before and after optimization."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..cli import options
from ..cli.exit_codes import one_line_errors
from ..cli.report_output import show_progress_and_report

EXIT_CODES = """Exit codes: 0 done; 1 bad model, input or plugin, or onnxruntime does not run it; 2 usage;
4 could not be verified."""
EXAMPLES = {
    "passes profile model.onnx": "lists the slowest nodes",
    "passes profile model.onnx --html p.html": "writes a page with charts",
}

DEFAULT_LIMIT = 15  # nodes


def profile(
    model: options.Model,
    pipeline: options.Pipeline = "basic",
    no_optimize: Annotated[
        bool, typer.Option("--no-optimize", help="Profile the model as it is, and no other.")
    ] = False,
    plugin: options.Plugins = None,
    inputs: options.MeasuredInputs = None,
    shape: options.Shapes = None,
    dim: options.Dims = None,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Samples of one run, of generated inputs.")] = 1,
    seed: options.Seed = 0,
    threads: options.Threads = 0,
    ep: options.ExecutionProvider = "cpu",
    level: options.Level = "all",
    min_time: options.MinTime = 2.0,
    limit: Annotated[
        int, typer.Option(min=0, metavar="N", help="List at most so many nodes of each model.")
    ] = DEFAULT_LIMIT,
    trace: Annotated[
        Path | None,
        options.report_option(
            metavar="FILE", help="Write the timeline, for Perfetto or chrome://tracing, to this file."
        ),
    ] = None,
    json: options.Json = None,
    html: options.Html = None,
) -> None:
    """Show where the time goes in onnxruntime, op by op, before and after optimization; the result is not kept."""
    with one_line_errors():
        from ..measure.execution_provider import parse_provider  # noqa: PLC0415 - imports numpy
        from ..profile.profile import profile as profiled  # noqa: PLC0415 - imports onnx and numpy
        from ..profile.render import show_profile  # noqa: PLC0415 - imports rich

        options.require(not (no_optimize and (plugin or pipeline != "basic")), "--no-optimize runs no pipeline")
        compute = partial(
            profiled,
            model,
            pipeline,
            plugin or (),
            inputs,
            include_optimized=not no_optimize,
            shapes=options.parse_shapes(shape or ()),
            dims=options.parse_dims(dim or ()),
            batch=batch,
            seed=seed,
            threads=threads,
            provider=parse_provider(ep),
            level=level,
            min_time=min_time,
            trace_to=trace,
            report_to=options.report_file(json),
            page_to=html,
        )
        show_progress_and_report(json, compute, partial(show_profile, limit=limit))
