"""The command `passes`."""

from __future__ import annotations

from typing import Annotated

import typer

from .bench import command as bench
from .bisect import command as bisect
from .check import command as check
from .compare import command as compare
from .diff import command as diff
from .explain import command as explain
from .listing import command as list_passes
from .new import command as new
from .options import OptionalLevelCommand
from .profile import command as profile
from .run import command as run
from .signals import unwind_on_sigterm
from .verify import command as verify
from .view import command as view

app = typer.Typer(
    help="Rewrite ONNX models, and verify the result against the original in onnxruntime.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog=run.EXIT_CODES)(run.run)
app.command(cls=OptionalLevelCommand, epilog=bisect.EXIT_CODES)(bisect.bisect)
app.command(epilog=verify.EXIT_CODES)(verify.verify)
app.command(epilog=explain.EXIT_CODES)(explain.explain)
app.command(epilog=diff.EXIT_CODES)(diff.diff)
app.command(epilog=compare.EXIT_CODES)(compare.compare)
app.command(epilog=bench.EXIT_CODES)(bench.bench)
app.command(epilog=profile.EXIT_CODES)(profile.profile)
app.command(epilog=view.EXIT_CODES)(view.view)
app.command(epilog=check.EXIT_CODES)(check.check)
app.command("list")(list_passes.list_passes)
app.command(epilog=new.EXIT_CODES)(new.new)


def show_versions(wanted: bool) -> None:
    """Print the versions that a report of a fault is to name, and exit."""
    if wanted:
        from .environment import versions  # noqa: PLC0415 - imports onnx

        typer.echo(", ".join(f"{name} {version}" for name, version in versions().items()))
        raise typer.Exit


@app.callback()
def passes(
    version: Annotated[
        bool, typer.Option("--version", callback=show_versions, is_eager=True, help="Tell the versions, and exit.")
    ] = False,
) -> None:
    """Take the options that belong to no command."""


def main() -> None:
    """Entry point of the command."""
    with unwind_on_sigterm():
        app()
