"""The command `passes`. What is slow to import is imported where it is used."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options

if TYPE_CHECKING:
    from ...core.errors import PassesError, PluginError
    from ...core.report import Report
    from .show import Screen
    from .suspicion import Suspicion
    from .verification import Comparison

app = typer.Typer(
    help="Rewrite ONNX models, and prove with onnxruntime that they still compute the same.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

BAD_INPUT, USAGE, WRONG, UNVERIFIED = 1, 2, 3, 4
EXIT_CODES = """Exit codes: 0 done; 1 bad model or input; 2 usage; 3 verification failed, nothing written;
4 could not be verified, nothing written."""
BISECT_EXIT_CODES = """Exit codes: 0 nothing is wrong; 1 bad model or input; 2 usage; 3 something is, and was named;
4 could not be verified."""
VERIFY_EXIT_CODES = (
    """Exit codes: 0 they agree; 1 bad model or input; 2 usage; 3 they differ; 4 could not be found out."""
)


@app.command(epilog=EXIT_CODES)
def run(
    model: options.Model,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to write the verified model.")] = None,
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
    debloat: Annotated[
        bool, typer.Option("--debloat", help="Write large constants that repeat themselves as how to make them.")
    ] = False,
    seed: options.Seed = 0,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Write without any proof.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Write nothing if any change is wrong, instead of leaving it out.")
    ] = False,
    exact: options.Exact = False,
    keep_functions: options.KeepFunctions = False,
    repro: options.Repro = None,
    map_to: Annotated[
        Path | None, typer.Option("--map", help="Write what became of each name, as JSON, to this file.")
    ] = None,
    json: options.Json = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Say why rules declined, and show every rule.")
    ] = False,
) -> None:
    """Optimize a model, verify it against the original, and write it.

    A change that breaks the model is found, named and left out.
    """
    with one_line_errors():
        from .api import optimize  # noqa: PLC0415 - imports onnx and numpy
        from .show import Screen, log_to_stderr  # noqa: PLC0415 - imports rich

        if verbose:
            log_to_stderr()
        screen = Screen(quiet=json == options.STANDARD_OUTPUT)
        with screen.progress() as progress:
            result = optimize(
                model,
                pipeline,
                plugin or (),
                not no_verify,
                inputs,
                shapes=options.parse_shapes(shape or ()),
                dims=options.parse_dims(dim or ()),
                outputs=options.parse_outputs(outputs or ()),
                inputs_only=inputs_only,
                only=only or (),
                skip=skip or (),
                enable=[*(enable or ()), *["debloat"] * debloat],
                exact=exact,
                strict=strict,
                keep_functions=keep_functions,
                seed=seed,
                output=output,
                report_to=options.file_of(json),
                repro_to=repro,
                map_to=map_to,
                progress=progress,
            )
        screen.report(result.report, output, verbose=verbose)
        echo_json(json, result.report)


@app.command(cls=options.LevelMayBeLeftOut, epilog=BISECT_EXIT_CODES)
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
        from .api import optimize  # noqa: PLC0415 - imports onnx and numpy
        from .show import Screen  # noqa: PLC0415 - imports rich

        screen = Screen(quiet=json == options.STANDARD_OUTPUT)
        if ort is not None:
            of_passes = (plugin, only, skip, enable, exact, keep_functions, repro, pipeline != "basic")
            options.require(
                not outputs and not inputs_only and not dim, "--ort takes the model as it is: cut it with `passes run`"
            )
            options.require(not any(of_passes), "--ort looks at onnxruntime's optimizers: leave out what is for passes")
            _suspect(screen, model, ort, inputs, shape, seed, json)
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
        screen.bisection(report)
        echo_json(json, report)
        if report.quarantined:
            raise typer.Exit(WRONG)


def _suspect(
    screen: Screen,
    model: Path,
    level: str,
    inputs: Path | None,
    shape: list[str] | None,
    seed: int,
    json: Path | None,
) -> None:
    from .suspicion import suspect  # noqa: PLC0415 - imports onnx and numpy

    with screen.progress() as progress:
        suspicion = suspect(
            model,
            level,
            inputs,
            shapes=options.parse_shapes(shape or ()),
            seed=seed,
            report_to=options.file_of(json),
            progress=progress,
        )
    screen.suspicion(suspicion)
    echo_json(json, suspicion)
    if suspicion.blame is not None:
        raise typer.Exit(WRONG)


@app.command(epilog=VERIFY_EXIT_CODES)
def verify(
    original: Annotated[Path, typer.Argument(help="The .onnx file whose answers count.")],
    other: Annotated[Path, typer.Argument(help="The .onnx file to hold to them, whatever made it.")],
    inputs: options.Inputs = None,
    shape: options.Shapes = None,
    seed: options.Seed = 0,
    exact: Annotated[bool, typer.Option("--exact", help="Demand the same bits.")] = False,
    json: options.Json = None,
) -> None:
    """Compare two models on inputs made to find mistakes."""
    with one_line_errors():
        from .show import Screen  # noqa: PLC0415 - imports rich
        from .verification import verify as compare  # noqa: PLC0415 - imports onnx and numpy

        screen = Screen(quiet=json == options.STANDARD_OUTPUT)
        with screen.progress() as progress:
            comparison = compare(
                original,
                other,
                inputs,
                shapes=options.parse_shapes(shape or ()),
                seed=seed,
                exact=exact,
                report_to=options.file_of(json),
                progress=progress,
            )
        screen.comparison(comparison)
        echo_json(json, comparison)
        if not comparison.agree:
            raise typer.Exit(WRONG)


@app.command("list")
def list_passes(
    plugin: options.Plugins = None,
) -> None:
    """Show all passes and their rules, each with its equation and contract."""
    with one_line_errors():
        from ..pipelines import PIPELINES  # noqa: PLC0415 - imports onnx and numpy
        from .catalogue import catalogue  # noqa: PLC0415 - imports onnx and numpy
        from .show import Screen  # noqa: PLC0415 - imports rich

        broken: dict[str, PluginError] = {}
        Screen().catalogue(catalogue(plugin or (), broken), PIPELINES)
        for error in broken.values():
            typer.echo(f"warning: {one_line(error)}", err=True)


@contextmanager
def one_line_errors() -> Generator[None]:
    """Turn what is expected to go wrong into one line and an exit code."""
    from ...core.errors import PassesError  # noqa: PLC0415 - its package imports onnx

    try:
        yield
    except PassesError as e:
        typer.echo(f"error: {one_line(e)}", err=True)
        raise typer.Exit(exit_code(e)) from e


def echo_json(json: Path | None, told: Report | Comparison | Suspicion) -> None:
    """Print a report as JSON, if that is where it is to go."""
    if json == options.STANDARD_OUTPUT:
        typer.echo(told.to_json())


def one_line(error: PassesError) -> str:
    """What went wrong, without line breaks."""
    return " ".join(str(error).split())


def exit_code(error: PassesError) -> int:
    """The exit code that a failure stands for."""
    from ...core.errors import Unverifiable, VerificationError  # noqa: PLC0415 - its package imports onnx
    from ...core.selection import BadUsage  # noqa: PLC0415 - its package imports onnx

    for kind, code in ((BadUsage, USAGE), (VerificationError, WRONG), (Unverifiable, UNVERIFIED)):
        if isinstance(error, kind):
            return code
    return BAD_INPUT


def main() -> None:
    """Entry point of the command."""
    app()
