"""The command `passes`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from traceback import format_exc
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command as command_of

from ...core.errors import ModelError
from ...core.processes.process_limits import let_idle_threads_sleep, limit_memory
from ...core.support.printable_text import printable_lines
from .exit_codes import BAD_INPUT, USAGE, one_line_errors, printable_messages
from .help_pages import HELP, GroupedHelp, convert_by, page_width, write_rows
from .signals import INTERRUPTED, exit_on_bus_error, unwind_on_sigterm
from .standard_streams import prepare_standard_streams

OPTIMIZE, VERIFY, INSPECT, MEASURE, PLUGINS = (
    "Optimize", "Verify models", "Inspect models and runs", "Measure", "Write rules and plugins",
)  # fmt: skip


class Entry(NamedTuple):
    """A command that is not imported yet: its help group, its function, and one line of help."""

    group: str
    function: str
    summary: str


COMMANDS = {
    "run": Entry(OPTIMIZE, "run", "Optimize a model, verify it against the original, and write it."),
    "batch": Entry(OPTIMIZE, "batch", "Run a command over many models."),
    "list": Entry(OPTIMIZE, "list_passes", "List passes, rules, pipelines and targets."),
    "quantize": Entry(OPTIMIZE, "quantize", "Quantize a model within an accuracy budget."),
    "tune": Entry(OPTIMIZE, "tune", "Find the fastest settings that give correct results."),
    "advise": Entry(OPTIMIZE, "advise", "Suggest which techniques pay off, and the commands to run."),
    "verify": Entry(VERIFY, "verify", "Compare the values of two models."),
    "bisect": Entry(VERIFY, "bisect", "Find wrong changes, or wrong optimizers in onnxruntime."),
    "info": Entry(INSPECT, "info", "Show operators, sizes and interfaces of models."),
    "show": Entry(INSPECT, "show", "Print a model, or a part of it, as ONNX text."),
    "explain": Entry(INSPECT, "explain", "Show where a rule applies, and why not elsewhere."),
    "diff": Entry(INSPECT, "diff", "Compare the graphs of two models, or two reports."),
    "view": Entry(INSPECT, "view", "Open a model in Netron."),
    "compare": Entry(MEASURE, "compare", "Compare the results of several optimizers."),
    "bench": Entry(MEASURE, "bench", "Measure latency, memory and size of models."),
    "profile": Entry(MEASURE, "profile", "Measure the time of each op, before and after optimization."),
    "check": Entry(PLUGINS, "check", "Test rules on models generated from their patterns."),
    "new": Entry(PLUGINS, "new", "Create a package with a rule and its tests."),
}


OTHER_NAMES = {"optimize": "run", "simplify": "run", "slim": "run", "benchmark": "bench", "inspect": "info"}
"""Names of commands in other tools, and ours."""


def _unknown_command(name: str) -> str:
    """A message about an unknown command, with the one that was probably meant."""
    from ...core.support.suggestions import did_you_mean  # noqa: PLC0415 - used seldom

    if name.endswith(".onnx"):
        return f"{name} is no command; did you mean passes run {name}?"
    near = OTHER_NAMES.get(name)
    hint = f"; did you mean {near}?" if near else did_you_mean(name, COMMANDS)
    return f"there is no command {name}{hint or ' (see passes -h)'}"


class LazyCommands(Mapping[str, Any]):
    """The commands by name, imported on lookup."""

    def __init__(self) -> None:
        self.loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.loaded:
            self.loaded[name] = load_command(name, COMMANDS[name])
        return self.loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def load_command(name: str, entry: Entry) -> Any:
    """Import a command. Its module defines the exit codes and examples of its help."""
    from ..options import Option  # noqa: PLC0415 - imports core
    from .command_class import Command, with_options  # noqa: PLC0415 - imports the options of commands
    from .parameters import kinds_of_arguments, option_classes, options_by_parameter  # noqa: PLC0415 - as above

    module = import_module(f"..commands.{name}", __package__)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    function = getattr(module, entry.function)
    call = with_options(function, getattr(module, "BAD_INPUT", BAD_INPUT))
    alone.command(name, cls=getattr(module, "COMMAND_CLASS", Command), epilog=module.EXIT_CODES)(call)
    command: Any = command_of(alone)
    command.examples, command.options = module.EXAMPLES, options_by_parameter(function)
    command.classes = tuple(option_classes(function).values())
    arguments = {name: Option("", kind=kind) for name, kind in kinds_of_arguments(function).items()}
    for p in command.params:
        p.about = about = (command.options | arguments).get(p.name)
        convert_by(bool if about is None else about.converted, p)
    return command


class CommandName:
    """A command name for completion, without importing the command."""

    hidden = False

    def get_short_help_str(self) -> str:
        """No help."""
        return ""


class Commands(GroupedHelp, TyperGroup):
    """The group of commands; messages of usage errors, which may contain file names, are made printable."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = LazyCommands()

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The commands and options that begin with the given text."""
        loaded, self.commands = self.commands, dict.fromkeys(COMMANDS, CommandName())
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = loaded

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - of the base class
        """The parts of the usage line."""
        return ["[OPTIONS]", "COMMAND", "..."]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - of the base class
        """Write the commands by group."""
        width = max(map(len, COMMANDS))
        groups: dict[str, list[tuple[str, str]]] = {}
        for name, entry in COMMANDS.items():
            groups.setdefault(entry.group, []).append((name.ljust(width), entry.summary))
        for group, rows in groups.items():
            write_rows(formatter, group, rows)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the general options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options before the name of a command; print the help if there are no arguments."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)
            raise typer.Exit(USAGE)
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the options before the name of a command."""
        for p in self.params:
            convert_by(bool, p)
        with printable_messages():
            return super().make_context(*args, **{"terminal_width": page_width(), **options})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Look up a command by the typed name."""
        with printable_messages():
            if args and args[0] not in COMMANDS:
                raise typer.BadParameter(_unknown_command(args[0]))
            return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Commands,
    help="Rewrite ONNX models, and verify the result against the original in onnxruntime.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_versions(requested: bool) -> None:
    """Print the versions for a bug report, and exit."""
    if requested:
        from ..registry.environment import versions  # noqa: PLC0415 - imports onnx

        typer.echo(", ".join(f"{name} {version}" for name, version in versions().items()))
        raise typer.Exit


@app.callback()
def passes(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=show_versions,
            is_eager=True,
            rich_help_panel=HELP,
            help="Show the versions, and exit.",
        ),
    ] = False,
) -> None:
    """Handle the options that apply without a command."""
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
    let_idle_threads_sleep()
    exit_on_bus_error()
    prepare_standard_streams()
    try:
        with unwind_on_sigterm():
            app()
    except KeyboardInterrupt:  # before typer catches it
        sys.exit(INTERRUPTED)
    except Exception:  # noqa: BLE001 - our own bug; the message may contain names
        typer.echo(printable_lines(format_exc().rstrip()), err=True)
        sys.exit(BAD_INPUT)
