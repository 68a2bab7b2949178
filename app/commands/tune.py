"""`passes tune`: search for the fastest right way to run a model on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..cli import options
from ..cli.exit_codes import one_line_errors
from ..cli.report_output import show_progress_and_report

EXIT_CODES = """Exit codes: 0 done, with a better way or the original; 1 bad model, input or data; 2 usage;
4 the original runs on no inputs, nothing written."""
EXAMPLES = {
    "passes tune model.onnx -o tuned.onnx": "for latency, in ten minutes",
    "passes tune model.onnx -o tuned.onnx --for throughput --dim batch=1,8": "for samples a second",
}


def tune(
    model: options.Model,
    output: Annotated[
        Path | None,
        options.output_option(
            "-o", "--output", metavar="FILE", help="Where to write the model; its settings and session go beside it."
        ),
    ],
    settings: Annotated[
        Path | None,
        options.output_option(metavar="FILE", help="Where to write the settings, instead of OUT_settings.json."),
    ] = None,
    script: Annotated[
        Path | None,
        options.output_option(
            metavar="FILE", help="Where to write Python that makes the session, instead of OUT_session.py."
        ),
    ] = None,
    goal: Annotated[
        str, typer.Option("--for", metavar="GOAL", help="latency, throughput, memory or size.")
    ] = "latency",
    quantile: Annotated[str, typer.Option(metavar="NAME", help="Of the latency: p50 or p99.")] = "p50",
    pipeline: Annotated[
        str, options.selection_option(metavar="NAMES", help="Pipelines to try, of basic and ort.")
    ] = "basic,ort",
    inputs: options.MeasuredInputs = None,
    shape: options.Shapes = None,
    dim: Annotated[
        list[str] | None,
        options.model_option(
            "--dim", metavar="NAME=N,...", help="Sizes of a symbolic dim to measure at, such as batch=1,8."
        ),
    ] = None,
    threads: Annotated[
        int, options.speed_option(min=0, metavar="N", help="Threads that a session may have; 0 for one on each core.")
    ] = 0,
    ep: Annotated[
        list[str] | None,
        options.speed_option(
            "--ep",
            metavar="NAME",
            help="Execution provider to try, with options, as in openvino{device_type=CPU}; may be repeated. All that "
            "are installed by default.",
        ),
    ] = None,
    time: Annotated[float, options.time_option("race")] = 600.0,
    trials: Annotated[int, options.trials_option("Choices to race")] = 200,
    journal: Annotated[Path | None, options.journal_option("race")] = None,
    min_time: options.MinTime = 1.0,
    budget: Annotated[
        str,
        typer.Option(
            metavar="LOSS",
            help="Try schemes of `passes quantize` too, with this loss: 1%, or 0.5pt.",
            rich_help_panel=options.CRITERION,
        ),
    ] = "",
    scheme: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Schemes to try, each as a model of its own; auto for the best one.",
            rich_help_panel=options.CRITERION,
        ),
    ] = "auto",
    data: options.Data = None,
    labelled: options.Labelled = None,
    metric: options.Metric = "",
    seed: options.Seed = 0,
    verify: Annotated[
        str, options.verification_option("--verify", metavar="CHOICE", help=options.EFFORT_HELP)
    ] = "default",
    json: options.Json = None,
    html: options.Html = None,
) -> None:
    """Find the fastest right way to run a model on this machine.

    Tries pipelines, groups of rules, opsets and settings of onnxruntime, and never returns anything slower or wrong.
    """
    with one_line_errors():
        from ...core.verify.verification_spec import known_effort  # noqa: PLC0415 - imports onnx
        from ..tune.render import show_tuning  # noqa: PLC0415 - imports rich
        from ..tune.tune import TuneOptions, tune_model  # noqa: PLC0415 - imports onnx and numpy

        chosen = partial(
            TuneOptions,
            output=output,
            settings_to=settings,
            script_to=script,
            goal=goal,
            quantile=quantile,
            dims=parse_sizes(dim or ()),
            shapes=options.parse_shapes(shape or ()),
            inputs=inputs or None,
            threads=threads,
            pipelines=options.parse_names("--pipeline", [pipeline]),
            providers=ep,
            budget=budget or None,
            scheme=scheme,
            data=data,
            labelled=labelled,
            metric=metric,
            seconds=time,
            trials=trials,
            min_time=min_time,
            effort=known_effort(verify, "--verify"),
            seed=seed,
            journal=journal,
            report_to=options.report_file(json),
            page_to=html,
        )
        show_progress_and_report(
            json,
            lambda progress: tune_model(model, chosen(progress=progress)).report,
            partial(show_tuning, output=output),
        )


def parse_sizes(texts: Iterable[str]) -> dict[str, list[int]]:
    """Lists of sizes by symbol, in texts such as `batch=1,8`. Raises UsageError."""
    sizes: dict[str, list[int]] = {}
    for text in texts:
        symbol, _, numbers = text.rpartition("=")
        found = options.sizes_in(numbers)
        options.require(symbol and found, f"--dim {text}: not of the form batch=1,8")
        options.require(sizes.setdefault(symbol, found) is found, f"--dim {symbol}: given twice")
    return sizes
