"""`passes compare`: outputs of several optimizers, compared."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from .. import options
from ..exit_codes import UNVERIFIED, one_line_errors, show_progress_and_report

EXIT_CODES = """Exit codes: 0 done, even if other tools are wrong; 1 bad model, input or plugin; 2 usage;
4 done, but nothing could be verified."""

Tools = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="NAMES",
        help="Of ort, onnxsim, onnxslim, onnxoptimizer, onnxscript, as a,b: all that are installed.",
    ),
]


def compare(
    model: options.Model,
    pipeline: options.Pipeline = "basic",
    plugin: options.Plugins = None,
    only: options.Only = None,
    skip: options.Skip = None,
    enable: options.Enable = None,
    tool_names: Tools = None,
    inputs: options.Inputs = None,
    shape: options.Shapes = None,
    dim: options.Dims = None,
    threads: options.Threads = 0,
    ep: options.ExecutionProvider = "cpu",
    batch: options.Batch = "1,32",
    min_time: options.MinTime = 1.0,
    seed: options.Seed = 0,
    keep: Annotated[
        Path | None, options.report_option(metavar="FOLDER", help="Keep the optimized files in this folder.")
    ] = None,
    json: options.Json = None,
    html: options.Html = None,
) -> None:
    """Compare the outputs of passwright, onnxruntime and other optimizers for a model.

    Each is verified and measured: correctness, size, latency, memory.
    """
    with one_line_errors():
        from ..measure.benchmark import BenchmarkConfig  # noqa: PLC0415 - as above
        from ..measure.execution_provider import parse_provider  # noqa: PLC0415 - its package imports onnx
        from .compare import compare as compare_with  # noqa: PLC0415 - imports onnx and numpy
        from .comparison_report import Conditions  # noqa: PLC0415 - imports numpy
        from .render import show_comparison_report  # noqa: PLC0415 - imports rich

        conditions = Conditions(
            threads, parse_provider(ep), options.parse_batches(batch), BenchmarkConfig(min_time, seed=seed)
        )
        compute = partial(
            compare_with,
            model,
            pipeline,
            plugin or (),
            None if tool_names is None else [n.strip() for text in tool_names for n in text.split(",")],
            inputs,
            shapes=options.parse_shapes(shape or ()),
            dims=options.parse_dims(dim or ()),
            only=only or (),
            skip=skip or (),
            enable=enable or (),
            conditions=conditions,
            seed=seed,
            report_to=options.report_file(json),
            page_to=html,
            keep_to=keep,
        )
        if not show_progress_and_report(json, compute, show_comparison_report).is_verified:
            raise typer.Exit(UNVERIFIED)
