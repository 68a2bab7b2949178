"""`passes quantize`: compress a model within a budget of accuracy."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..cli import options
from ..cli.exit_codes import one_line_errors
from ..cli.report_output import show_progress_and_report

EXIT_CODES = """Exit codes: 0 done, with a compressed model or the original; 1 bad model, data or labels; 2 usage; 3 the
optimized float model is wrong, nothing written; 4 the original runs on no inputs, nothing written."""
EXAMPLES = {
    "passes quantize model.onnx -o q.onnx": "measures on generated inputs",
    "passes quantize model.onnx -o q.onnx --data x.npz --budget 0.5%": "measures on yours",
}


def quantize(
    model: options.Model,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to write the model.")],
    data: options.Data = None,
    scheme: Annotated[
        str, typer.Option(metavar="NAMES", help="auto, or some of static, dynamic, weights8, weights4, half.")
    ] = "auto",
    format: Annotated[  # noqa: A002 - the name of the option
        str, typer.Option(metavar="FORMAT", help="qdq, or qoperator for runtimes without QuantizeLinear fusions.")
    ] = "qdq",
    calibrate: Annotated[
        str, typer.Option(metavar="METHOD", help="minmax, percentile, entropy or mse; all in this order by default.")
    ] = "",
    target: Annotated[
        str, typer.Option("--for", metavar="NAME", help="x86-vnni, x86, arm or portable; this machine by default.")
    ] = "",
    leave: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A value or operator to keep in float; may be repeated.")
    ] = None,
    plugin: options.Plugins = None,
    labelled: options.Labelled = None,
    metric: options.Metric = "",
    budget: options.Budget = "1%",
    trials: Annotated[int, options.trials_option("Candidates to score")] = 60,
    time: Annotated[float, options.time_option("candidate")] = 1800.0,
    journal: Annotated[Path | None, options.journal_option("trial")] = None,
    batch: options.Batch = "1",
    threads: options.Threads = 0,
    min_time: options.MinTime = 1.0,
    seed: options.Seed = 0,
    json: options.Json = None,
    html: options.Html = None,
) -> None:
    """Make a model smaller and faster for onnxruntime, within a budget of accuracy and never slower."""
    with one_line_errors():
        from ..quantize.quantize import QuantizationOptions, quantize_model  # noqa: PLC0415 - imports onnx and numpy
        from ..quantize.render import show_quantization  # noqa: PLC0415 - imports rich

        chosen = partial(
            QuantizationOptions,
            output=output,
            data=data,
            labelled=labelled,
            metric=metric,
            scheme=scheme,
            format=format,
            budget=budget,
            calibrate=calibrate,
            target=target,
            leave=leave or (),
            plugins=plugin or (),
            trials=trials,
            seconds=time,
            threads=threads,
            min_time=min_time,
            batches=options.parse_batches(batch),
            seed=seed,
            report_to=options.report_file(json),
            page_to=html,
            op_errors=json is not None,
            journal=journal,
        )
        show_progress_and_report(
            json,
            lambda progress: quantize_model(model, chosen(progress=progress)).report,
            partial(show_quantization, output=output),
        )
