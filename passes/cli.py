"""The command `passes`. What is slow to import is imported where it is used."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..core.errors import PassesError, PluginError

app = typer.Typer(
    help="Rewrite ONNX models, and prove with onnxruntime that they still compute the same.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

STANDARD_OUTPUT = Path("-")
BAD_INPUT, USAGE, WRONG, UNVERIFIED = 1, 2, 3, 4
EXIT_CODES = """Exit codes: 0 done; 1 bad model or input; 2 usage; 3 verification failed, nothing written;
4 could not be verified, nothing written."""


@app.callback()
def _commands() -> None:
    """Keeps `run` a command of its own."""


@app.command(epilog=EXIT_CODES)
def run(
    model: Annotated[Path, typer.Argument(help="The .onnx file to optimize; it is never written to.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to write the verified model.")] = None,
    pipeline: Annotated[str, typer.Option(help="A pipeline: none, basic.")] = "basic",
    plugin: Annotated[list[Path] | None, typer.Option(help="A Python file with rules or passes of your own.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Run only this pass or rule; may be repeated.")] = None,
    skip: Annotated[list[str] | None, typer.Option(help="Leave out this pass or rule; may be repeated.")] = None,
    enable: Annotated[list[str] | None, typer.Option(help="Add this pass; may be repeated.")] = None,
    inputs: Annotated[
        Path | None, typer.Option(help="Inputs to verify with: an .npz, or a folder of ONNX test data.")
    ] = None,
    shape: Annotated[list[str] | None, typer.Option(help="Shape of an input, such as x:1,3,224,224.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the inputs that are made up.")] = 0,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Write without any proof.")] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Only rewrites that keep every bit.")] = False,
    keep_functions: Annotated[
        bool, typer.Option("--keep-functions", help="Leave local functions as they are.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON to this file; - for the output.")] = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Say why rules declined, and show every rule.")
    ] = False,
) -> None:
    """Optimize a model, verify it against the original, and write it."""
    with one_line_errors():
        from .api import optimize  # noqa: PLC0415 - imports onnx and numpy
        from .show import Screen, log_to_stderr  # noqa: PLC0415 - imports rich

        if verbose:
            log_to_stderr()
        screen = Screen(quiet=json == STANDARD_OUTPUT)
        with screen.progress() as progress:
            result = optimize(
                model,
                pipeline,
                plugin or (),
                not no_verify,
                inputs,
                shapes=parse_shapes(shape or ()),
                only=only or (),
                skip=skip or (),
                enable=enable or (),
                exact=exact,
                keep_functions=keep_functions,
                seed=seed,
                output=output,
                report_to=json if json != STANDARD_OUTPUT else None,
                progress=progress,
            )
        screen.report(result.report, output, verbose=verbose)
        if json == STANDARD_OUTPUT:
            typer.echo(result.report.to_json())


@app.command("list")
def list_passes(
    plugin: Annotated[list[Path] | None, typer.Option(help="A Python file with rules or passes of your own.")] = None,
) -> None:
    """Show all passes and their rules, each with its equation and contract."""
    with one_line_errors():
        from .catalogue import catalogue  # noqa: PLC0415 - imports onnx and numpy
        from .pipelines import PIPELINES  # noqa: PLC0415 - imports onnx and numpy
        from .show import Screen  # noqa: PLC0415 - imports rich

        broken: dict[str, PluginError] = {}
        Screen().catalogue(catalogue(plugin or (), broken), PIPELINES)
        for error in broken.values():
            typer.echo(f"warning: {one_line(error)}", err=True)


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Shapes by input name. Raises BadUsage for two of one name."""
    from ..core.selection import BadUsage  # noqa: PLC0415 - its package imports onnx

    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape in map(parse_shape, texts):
        if shapes.setdefault(name, shape) != shape:
            raise BadUsage(f"--shape {name}: given twice")
    return shapes


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`x:1,3,224,224` as a name and dims; a name may hold colons. Raises BadUsage."""
    from ..core.selection import BadUsage  # noqa: PLC0415 - its package imports onnx

    name, _, dims = text.rpartition(":")
    try:
        shape = tuple(int(d) for d in dims.split(",") if d.strip())
    except ValueError:
        shape = (-1,)
    if not name or any(d < 0 for d in shape):
        raise BadUsage(f"--shape {text}: not of the form name:1,3,224,224")
    return name, shape


@contextmanager
def one_line_errors() -> Generator[None]:
    """Turn what is expected to go wrong into one line and an exit code."""
    from ..core.errors import PassesError  # noqa: PLC0415 - its package imports onnx

    try:
        yield
    except PassesError as e:
        typer.echo(f"error: {one_line(e)}", err=True)
        raise typer.Exit(exit_code(e)) from e


def one_line(error: PassesError) -> str:
    """What went wrong, without line breaks."""
    return " ".join(str(error).split())


def exit_code(error: PassesError) -> int:
    """The exit code that a failure stands for."""
    from ..core.errors import Unverifiable, VerificationError  # noqa: PLC0415 - its package imports onnx
    from ..core.selection import BadUsage  # noqa: PLC0415 - its package imports onnx

    for kind, code in ((BadUsage, USAGE), (VerificationError, WRONG), (Unverifiable, UNVERIFIED)):
        if isinstance(error, kind):
            return code
    return BAD_INPUT


def main() -> None:
    """Entry point of the command."""
    app()
