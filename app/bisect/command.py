"""`passes bisect`: the changes that break a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import options
from ..exit_codes import WRONG, echo_json, one_line_errors

if TYPE_CHECKING:
    from ..terminal import Terminal

EXIT_CODES = """Exit codes: 0 nothing is wrong; 1 bad model, input or plugin; 2 usage;
3 something is wrong, and was named; 4 could not be verified."""


@options.flatten_options
def bisect(
    model: options.Model,
    ort: Annotated[
        str | None,
        typer.Option(metavar="[LEVEL]", help="Bisect onnxruntime's own optimizers at basic, extended, layout or all."),
    ] = None,
    *,
    pipeline: options.PipelineOptions,
    verification: options.VerificationOptions,
    json: options.Json = None,
) -> None:
    """Find the changes of a pipeline that break a model, or onnxruntime's own; nothing but --repro is written."""
    with one_line_errors():
        from ..run.optimize import run_pipeline  # noqa: PLC0415 - imports onnx and numpy
        from ..terminal import Terminal  # noqa: PLC0415 - imports rich
        from .render import show_bisection  # noqa: PLC0415 - imports rich

        screen = Terminal(quiet=json == options.STANDARD_OUTPUT)
        if ort is not None:
            _bisect_ort(screen, model, ort, pipeline, verification, json)
            return
        with screen.progress() as progress:
            report = run_pipeline(model, options.run_options(pipeline, verification, json, progress)).report
        show_bisection(screen, report)
        echo_json(json, report)
        if report.quarantined:
            raise typer.Exit(WRONG)


def _bisect_ort(
    terminal: Terminal,
    model: Path,
    level: str,
    pipeline: options.PipelineOptions,
    verification: options.VerificationOptions,
    json: Path | None,
) -> None:
    from .ort_bisect import bisect_ort  # noqa: PLC0415 - imports onnx and numpy
    from .render import show_ort_bisect  # noqa: PLC0415 - imports rich

    is_cut = verification.outputs or verification.drop_unused_inputs
    options.require(not is_cut, "--ort takes the model as it is: cut it with `passes run`")
    used = (pipeline, verification)
    used_alone = (
        options.PipelineOptions(shape=pipeline.shape, dim=pipeline.dim),
        options.VerificationOptions(inputs=verification.inputs, seed=verification.seed),
    )
    options.require(used == used_alone, "--ort bisects onnxruntime's optimizers: leave out options of passes")
    with terminal.progress() as progress:
        report = bisect_ort(
            model,
            level,
            verification.inputs,
            shapes=options.parse_shapes(pipeline.shape or ()),
            dims=options.parse_dims(pipeline.dim or ()),
            seed=verification.seed,
            report_to=options.report_file(json),
            progress=progress,
        )
    show_ort_bisect(terminal, report)
    echo_json(json, report)
    if report.blame is not None:
        raise typer.Exit(WRONG)
