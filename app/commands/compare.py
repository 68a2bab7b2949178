"""`passes compare`: outputs of several optimizers, compared."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ...core.errors import UsageError
from ..cli import options
from ..cli.completion import TOOLS, complete_lists
from ..cli.exit_codes import UNVERIFIED, one_line_errors
from ..cli.report_output import show_progress_and_report

EXIT_CODES = """Exit codes: 0 done, even if other tools are wrong; 1 bad model, input or plugin; 2 usage;
4 done, but nothing could be verified."""
EXAMPLES = {"passes compare model.onnx": "tries all optimizers that are installed"}

Tools = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="NAMES",
        help="Of ort, onnxsim, onnxslim, onnxoptimizer, onnxscript, and of ort, onnxsim, nncf to quantize, as a,b: "
        "all that are installed.",
        autocompletion=complete_lists(TOOLS),
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
    settings: options.Tuned = None,
    batch: options.Batch = "1,32",
    min_time: options.MinTime = 1.0,
    seed: options.Seed = 0,
    quantized: Annotated[
        bool, typer.Option("--quantized", help="Compare tools for quantization instead, at one accuracy budget.")
    ] = False,
    data: options.Data = None,
    labelled: options.Labelled = None,
    metric: options.Metric = "",
    budget: options.Budget = "1%",
    time: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Seconds after which `passes quantize` begins no candidate.",
            rich_help_panel=options.CRITERION,
        ),
    ] = None,
    keep: Annotated[
        Path | None, options.report_option(metavar="FOLDER", help="Keep the optimized files in this folder.")
    ] = None,
    json: options.Json = None,
    html: options.Html = None,
) -> None:
    """Compare the outputs of passwright, onnxruntime and other optimizers for a model.

    Each is verified and measured: correctness, size, latency, memory.
    """
    names = None if tool_names is None else [n.strip() for text in tool_names for n in text.split(",")]
    others = {
        "--pipeline": pipeline != "basic", "--plugin": plugin, "--only": only, "--skip": skip, "--enable": enable,
        "--inputs": inputs, "--shape": shape, "--dim": dim, "--ep": ep != "cpu", "--settings": settings,
        "--keep": keep,
    }  # fmt: skip
    quantizing = {
        "--data": data, "--labelled": labelled, "--metric": metric, "--budget": budget != "1%",
        "--time": time is not None,
    }  # fmt: skip
    with one_line_errors():
        timed = "--threads" if threads else "--ep" if ep != "cpu" else ""
        options.require(not (settings and timed), f"{timed}: {options.TUNED} {settings} says that")
        for option in (name for name, given in (others if quantized else quantizing).items() if given):
            raise UsageError(f"{option} is {'not for' if quantized else 'for'} a comparison with --quantized")
    if quantized:
        compare_tools_for_quantization(
            model, names, json, page_to=html, data=data, labelled=labelled, metric=metric, budget=budget,
            **({} if time is None else {"seconds": time}), threads=threads, min_time=min_time,
            batches=batch, seed=seed,
        )  # fmt: skip
        return
    with one_line_errors():
        from ..compare.compare import compare as compare_with  # noqa: PLC0415 - imports onnx and numpy
        from ..compare.comparison_report import Conditions  # noqa: PLC0415 - imports numpy
        from ..compare.render import show_comparison_report  # noqa: PLC0415 - imports rich
        from ..measure.benchmark import BenchmarkConfig  # noqa: PLC0415 - as above
        from ..measure.execution_provider import parse_provider  # noqa: PLC0415 - its package imports onnx

        effort = BenchmarkConfig(min_time, seed=seed)
        conditions = Conditions(threads, parse_provider(ep), options.parse_batches(batch), effort)
        if settings is not None:
            from ..measure.tuned_settings import read_tuned_settings  # noqa: PLC0415 - imports onnx

            conditions = conditions.in_session(read_tuned_settings(settings).session.config())
        compute = partial(
            compare_with,
            model,
            pipeline,
            plugin or (),
            names,
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


def compare_tools_for_quantization(model: Path, names: list[str] | None, json: Path | None, **chosen: Any) -> None:
    """Compare the tools `names`, with options of `passes quantize`; the `batches` are text."""
    with one_line_errors():
        from ..compare.quantized import compare_quantized  # noqa: PLC0415 - as above
        from ..compare.render_quantized import show_quantized_comparison  # noqa: PLC0415 - imports rich
        from ..quantize.quantize import QuantizationOptions  # noqa: PLC0415 - imports onnx and numpy

        batches = options.parse_batches(chosen.pop("batches"))
        settings = QuantizationOptions(**chosen, batches=batches, report_to=options.report_file(json))
        show_progress_and_report(json, partial(compare_quantized, model, settings, names), show_quantized_comparison)
