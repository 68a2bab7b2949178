"""`passes bisect`: what is wrong, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import options
from ..exit_codes import WRONG, echo_json, one_line_errors

if TYPE_CHECKING:
    from ..terminal import Screen

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
    inputs_only: options.InputsOnly = False,
    seed: options.Seed = 0,
    exact: options.Exact = False,
    keep_functions: options.KeepFunctions = False,
    repro: options.Repro = None,
    json: options.Json = None,
) -> None:
    """Find the changes of a pipeline that break a model, or onnxruntime's own; nothing but --repro is written."""
    with one_line_errors():
        from ..run.optimize import optimize  # noqa: PLC0415 - imports onnx and numpy
        from ..terminal import Screen  # noqa: PLC0415 - imports rich
        from .render import show_bisection  # noqa: PLC0415 - imports rich

        screen = Screen(quiet=json == options.STANDARD_OUTPUT)
        if ort is not None:
            of_passes = (plugin, only, skip, enable, exact, keep_functions, repro, pipeline != "basic")
            options.require(not outputs and not inputs_only, "--ort takes the model as it is: cut it with `passes run`")
            options.require(not any(of_passes), "--ort looks at onnxruntime's optimizers: leave out what is for passes")
            _suspect(screen, model, ort, inputs, shape, dim, seed, json)
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
                inputs_only=inputs_only,
                only=only or (),
                skip=skip or (),
                enable=enable or (),
                exact=exact,
                keep_functions=keep_functions,
                seed=seed,
                report_to=options.file_of(json),
                repro_to=repro,
                progress=progress,
            ).report
        show_bisection(screen, report)
        echo_json(json, report)
        if report.quarantined:
            raise typer.Exit(WRONG)


def _suspect(
    screen: Screen,
    model: Path,
    level: str,
    inputs: Path | None,
    shape: list[str] | None,
    dim: list[str] | None,
    seed: int,
    json: Path | None,
) -> None:
    from .ort_bisect import suspect  # noqa: PLC0415 - imports onnx and numpy
    from .render import show_suspicion  # noqa: PLC0415 - imports rich

    with screen.progress() as progress:
        suspicion = suspect(
            model,
            level,
            inputs,
            shapes=options.parse_shapes(shape or ()),
            dims=options.parse_dims(dim or ()),
            seed=seed,
            report_to=options.file_of(json),
            progress=progress,
        )
    show_suspicion(screen, suspicion)
    echo_json(json, suspicion)
    if suspicion.blame is not None:
        raise typer.Exit(WRONG)
