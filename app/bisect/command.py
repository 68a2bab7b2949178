"""`passes bisect`: what is wrong, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import options
from ..exit_codes import WRONG, echo_json, one_line_errors

if TYPE_CHECKING:
    from ..terminal import Terminal

EXIT_CODES = """Exit codes: 0 nothing is wrong; 1 bad model, input or plugin; 2 usage; 3 something is, and was named;
4 could not be verified."""


def bisect(
    model: options.Model,
    ort: Annotated[
        str | None,
        typer.Option(metavar="[LEVEL]", help="Bisect onnxruntime's own optimizers at basic, extended, layout or all."),
    ] = None,
    pipeline: options.Pipeline = "basic",
    plugin: options.Plugins = None,
    only: options.Only = None,
    skip: options.Skip = None,
    enable: options.Enable = None,
    inputs: options.Inputs = None,
    shape: options.FixedShapes = None,
    dim: options.Dims = None,
    outputs: options.Outputs = None,
    drop_unused_inputs: options.DropUnusedInputs = False,
    seed: options.Seed = 0,
    exact: options.Exact = False,
    keep_functions: options.KeepFunctions = False,
    repro: options.Repro = None,
    json: options.Json = None,
) -> None:
    """Find the changes of a pipeline that break a model, or onnxruntime's own; nothing but --repro is written."""
    with one_line_errors():
        from ..run.optimize import optimize  # noqa: PLC0415 - imports onnx and numpy
        from ..terminal import Terminal  # noqa: PLC0415 - imports rich
        from .render import show_bisection  # noqa: PLC0415 - imports rich

        screen = Terminal(quiet=json == options.STANDARD_OUTPUT)
        if ort is not None:
            of_passes = (plugin, only, skip, enable, exact, keep_functions, repro, pipeline != "basic")
            options.require(
                not outputs and not drop_unused_inputs, "--ort takes the model as it is: cut it with `passes run`"
            )
            options.require(not any(of_passes), "--ort looks at onnxruntime's optimizers: leave out what is for passes")
            _bisect_ort(screen, model, ort, inputs, shape, dim, seed, json)
            return
        with screen.progress() as progress:
            report = optimize(
                model,
                pipeline,
                plugin or (),
                True,
                inputs,
                shapes=options.parse_shapes(shape or ()),
                dims=options.parse_dims(dim or ()),
                outputs=options.parse_outputs(outputs or ()),
                drop_unused_inputs=drop_unused_inputs,
                only=only or (),
                skip=skip or (),
                enable=enable or (),
                exact=exact,
                keep_functions=keep_functions,
                seed=seed,
                report_to=options.report_file(json),
                repro_to=repro,
                progress=progress,
            ).report
        show_bisection(screen, report)
        echo_json(json, report)
        if report.quarantined:
            raise typer.Exit(WRONG)


def _bisect_ort(
    terminal: Terminal,
    model: Path,
    level: str,
    inputs: Path | None,
    shape: list[str] | None,
    dim: list[str] | None,
    seed: int,
    json: Path | None,
) -> None:
    from .ort_bisect import bisect_ort  # noqa: PLC0415 - imports onnx and numpy
    from .render import show_ort_bisect  # noqa: PLC0415 - imports rich

    with terminal.progress() as progress:
        suspicion = bisect_ort(
            model,
            level,
            inputs,
            shapes=options.parse_shapes(shape or ()),
            dims=options.parse_dims(dim or ()),
            seed=seed,
            report_to=options.report_file(json),
            progress=progress,
        )
    show_ort_bisect(terminal, suspicion)
    echo_json(json, suspicion)
    if suspicion.blame is not None:
        raise typer.Exit(WRONG)
