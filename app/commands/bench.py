"""`passes bench`: latency, memory and size of models."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..cli import options
from ..cli.exit_codes import BAD_INPUT, one_line_errors
from ..cli.report_output import show_progress_and_report

EXIT_CODES = """Exit codes: 0 all were measured; 1 bad model or input, or one that could not be measured; 2 usage;
4 no inputs could be generated."""
EXAMPLES = {"passes bench model.onnx small.onnx": "compares the second with the first"}


def bench(
    models: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="The .onnx files; the first is the baseline."),
    ],
    inputs: options.MeasuredInputs = None,
    shape: options.Shapes = None,
    dim: options.Dims = None,
    batch: options.Batch = "1,32",
    level: options.Level = "all",
    threads: options.Threads = 0,
    ep: options.ExecutionProvider = "cpu",
    labelled: Annotated[Path | None, options.labelled_option()] = None,
    metric: Annotated[str, options.metric_option()] = "",
    min_time: options.MinTime = 2.0,
    seed: options.Seed = 0,
    json: options.Json = None,
) -> None:
    """Measure latency, throughput, load time, size and memory of models in onnxruntime, interleaved."""
    with one_line_errors():
        from ..measure.bench import bench as measure  # noqa: PLC0415 - imports onnx and numpy
        from ..measure.bench_render import show_bench_report  # noqa: PLC0415 - imports rich
        from ..measure.benchmark import BenchmarkConfig  # noqa: PLC0415 - imports numpy

        compute = partial(
            measure,
            models,
            inputs,
            shapes=options.parse_shapes(shape or ()),
            dims=options.parse_dims(dim or ()),
            batches=options.parse_batches(batch),
            level=level,
            threads=threads,
            provider=ep,
            labelled_set=labelled,
            metric=metric,
            effort=BenchmarkConfig(min_time),
            seed=seed,
            report_to=options.report_file(json),
        )
        if show_progress_and_report(json, compute, show_bench_report).failed:
            raise typer.Exit(BAD_INPUT)
