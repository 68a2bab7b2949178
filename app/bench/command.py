"""`passes bench`: latency, memory and size of models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import options
from ..exit_codes import BAD_INPUT, echo_json, one_line_errors

EXIT_CODES = """Exit codes: 0 all were measured; 1 bad model or input, or one that could not be measured; 2 usage;
4 no inputs could be generated."""


def bench(
    models: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="The .onnx files; the first is the baseline.")
    ],
    inputs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Inputs to measure with: an .npz, or a folder of ONNX test data."),
    ] = None,
    shape: options.Shapes = None,
    dim: options.Dims = None,
    batch: options.Batch = "1,32",
    level: Annotated[
        str,
        typer.Option(
            metavar="LEVEL", help="Optimization level of onnxruntime: disable, basic, extended, layout or all."
        ),
    ] = "all",
    threads: options.Threads = 0,
    ep: options.ExecutionProvider = "cpu",
    labelled: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An .npz with inputs and labels, for an accuracy.")
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            metavar="FILE:NAME", help="Accuracy of outputs and labels, as file.py:function; without it, top-1."
        ),
    ] = "",
    min_time: options.MinTime = 2.0,
    seed: options.Seed = 0,
    json: options.Json = None,
) -> None:
    """Measure latency, throughput, load time, size and memory of models in onnxruntime, in turns."""
    with one_line_errors():
        from ..measure.benchmark import BenchmarkConfig  # noqa: PLC0415 - imports numpy
        from ..terminal import Terminal  # noqa: PLC0415 - imports rich
        from .bench import bench as measure  # noqa: PLC0415 - imports onnx and numpy
        from .render import show_bench_report  # noqa: PLC0415 - imports rich

        screen = Terminal(quiet=json == options.STANDARD_OUTPUT)
        with screen.progress() as progress:
            benched = measure(
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
                progress=progress,
            )
        show_bench_report(screen, benched)
        echo_json(json, benched)
        if benched.failed:
            raise typer.Exit(BAD_INPUT)
