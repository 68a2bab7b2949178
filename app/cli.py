"""The command `passes`."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..core.errors import ModelError
from ..core.ort.process_limits import limit_memory
from ..core.support.printable_text import printable_line
from .bench import command as bench
from .bisect import command as bisect
from .check import command as check
from .compare import command as compare
from .diff import command as diff
from .exit_codes import INTERRUPTED, exit_on_bus_error, one_line_errors, unwind_on_sigterm
from .explain import command as explain
from .listing import command as list_passes
from .new import command as new
from .options import OptionalLevelCommand
from .profile import command as profile
from .quantize import command as quantize
from .run import command as run
from .standard_streams import prepare_standard_streams
from .verify import command as verify
from .view import command as view


class Commands(TyperGroup):
    """The commands; errors of usage are printable, as their arguments may be names of files."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the options before the name of a command."""
        with printable_messages():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Parse the arguments of a command, and run it."""
        with printable_messages():
            return super().invoke(ctx)


@contextmanager
def printable_messages() -> Generator[None]:
    """Make the message of a usage error printable."""
    try:
        yield
    except Exception as e:
        if isinstance(message := getattr(e, "message", None), str):
            vars(e)["message"] = printable_line(message)
        raise


app = typer.Typer(
    cls=Commands,
    help="Rewrite ONNX models, and verify the result against the original in onnxruntime.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
OPTIMIZE, VERIFY, INSPECT, MEASURE, PLUGINS = (
    "Optimize", "Verify models", "Inspect models and runs", "Measure", "Write rules and plugins",
)  # fmt: skip
app.command(epilog=run.EXIT_CODES, rich_help_panel=OPTIMIZE)(run.run)
app.command("list", rich_help_panel=OPTIMIZE)(list_passes.list_passes)
app.command(epilog=quantize.EXIT_CODES, rich_help_panel=OPTIMIZE)(quantize.quantize)
app.command(epilog=verify.EXIT_CODES, rich_help_panel=VERIFY)(verify.verify)
app.command(cls=OptionalLevelCommand, epilog=bisect.EXIT_CODES, rich_help_panel=VERIFY)(bisect.bisect)
app.command(epilog=explain.EXIT_CODES, rich_help_panel=INSPECT)(explain.explain)
app.command(epilog=diff.EXIT_CODES, rich_help_panel=INSPECT)(diff.diff)
app.command(epilog=view.EXIT_CODES, rich_help_panel=INSPECT)(view.view)
app.command(epilog=compare.EXIT_CODES, rich_help_panel=MEASURE)(compare.compare)
app.command(epilog=bench.EXIT_CODES, rich_help_panel=MEASURE)(bench.bench)
app.command(epilog=profile.EXIT_CODES, rich_help_panel=MEASURE)(profile.profile)
app.command(epilog=check.EXIT_CODES, rich_help_panel=PLUGINS)(check.check)
app.command(epilog=new.EXIT_CODES, rich_help_panel=PLUGINS)(new.new)


def show_versions(requested: bool) -> None:
    """Print the versions for a bug report, and exit."""
    if requested:
        from .environment import versions  # noqa: PLC0415 - imports onnx

        typer.echo(", ".join(f"{name} {version}" for name, version in versions().items()))
        raise typer.Exit


@app.callback()
def passes(
    version: Annotated[
        bool, typer.Option("--version", callback=show_versions, is_eager=True, help="Show the versions, and exit.")
    ] = False,
) -> None:
    """Handle the options without a command."""
    with one_line_errors():
        require_current_folder()


def require_current_folder() -> None:
    """Raise ModelError if the current folder was removed."""
    try:
        Path.cwd()
    except OSError as e:
        raise ModelError(f"the current folder cannot be used: {e.strerror}") from e


def main() -> None:
    """Run the command, and exit."""
    limit_memory(None)
    exit_on_bus_error()
    prepare_standard_streams()
    with unwind_on_sigterm():
        try:
            app()
        except KeyboardInterrupt:  # before typer catches it
            sys.exit(INTERRUPTED)
