"""Options of `passes batch`, which also accepts the options of the command that it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

import typer

from ...core.errors import UsageError
from ..cli.command_class import IGNORE, TRUST, Command
from ..cli.entry import COMMANDS, load_command
from ..cli.help_pages import help_row, write_rows
from ..cli.parameters import options_from
from ..cli.settings import is_settable, key_of
from ..models.model_files import ModelJob
from ..options import require
from .actions import ACTIONS, DEFAULT

DO = "--do"
ARGUMENTS = f"{__name__}.arguments"  # key of the arguments for that command in the data of a context
CHOSEN = f"{__name__}.chosen"  # key of the name of that command, if it was chosen, in the same data
NO_VERIFY = "no_verify"
"""An option that only a batch may set, not a settings file."""
REFUSED = "dry_run"


class BatchCommand(Command):
    """`passes batch`; its context holds the arguments for the command that it runs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments except those for the command to run, which are kept for it."""
        chosen = _chosen(args)
        if (name := chosen or DEFAULT) not in ACTIONS:
            return super().parse_args(ctx, args)
        ctx.meta[CHOSEN] = chosen
        own = {option: p for p in self.get_params(ctx) for option in p.opts if p.param_type_name == "option"}
        others = {o: p for p in action_options(name).values() for o in p.opts if o not in own}
        kept, given = _split(args, own, others)
        ctx.meta[ARGUMENTS] = [*given, *(choice for choice in (IGNORE, TRUST) if choice in kept)]
        return super().parse_args(ctx, kept)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the options of the command to run, if it was chosen."""
        super().format_options(ctx, formatter)
        if (name := ctx.meta.get(CHOSEN)) is not None:
            rows = [help_row(p, ctx) for p in action_options(name).values()]
            write_rows(formatter, f"Options of passes {name}", rows)


def _chosen(args: Sequence[str]) -> str | None:
    """The name of the command that the arguments choose; None if they choose none."""
    name = None
    for argument, following in zip(args, (*args[1:], ""), strict=False):
        if argument == "--":
            break
        if argument.partition("=")[0] == DO:
            name = argument.partition("=")[2] or following
    return name


def _split(args: Sequence[str], own: Mapping[str, Any], others: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Split the arguments into those for `own` options and those for `others`, each with its values."""
    kept, given, rest = list[str](), list[str](), iter(args)
    for argument in rest:
        option, is_joined, _ = argument.partition("=")
        found = own.get(option) or others.get(option)
        place = given if option in others else kept
        place.append(argument)
        if argument == "--":
            kept += rest
        elif found is not None and not (found.is_flag or is_joined):
            place += [value for value in [next(rest, None)] if value is not None]
    return kept, given


@cache
def action_command(name: str) -> Any:
    """The command with that name."""
    return load_command(name, COMMANDS[name])


def action_options(name: str) -> dict[str, Any]:
    """The options of the command to run that a batch accepts, by name without dashes."""
    command = action_command(name)
    own = {f.name for f in fields(ACTIONS[name].options)} - {REFUSED}
    taken = {n for n, about in command.options.items() if n == NO_VERIFY or (n in own and is_settable(about))}
    return {key_of(p): p for p in command.params if p.name in taken}


@dataclass(slots=True)
class ActionOptions:
    """The options of the command to run, from the arguments of a context and from settings."""

    ctx: Any
    name: str
    _known: dict[tuple[str, ...], Any] = field(default_factory=dict[tuple[str, ...], Any], init=False)

    def of(self, job: ModelJob) -> Any:
        """The options for a job, including those in its row of a table. Raises UsageError and typer.BadParameter."""
        options = self.with_arguments(job.arguments, job.place)
        is_lacking = ACTIONS[self.name].other and job.other is None and not (options.engine or options.settings)
        require(not is_lacking, f"{job.place or job.model}: nothing to compare with: give --other DIR, or --engine")
        return options

    def with_arguments(self, arguments: tuple[str, ...] = (), place: str = "") -> Any:
        """The options with further arguments, which come from `place` in a table."""
        if arguments not in self._known:
            self._known[arguments] = self._parse(arguments, place)
        return self._known[arguments]

    def _parse(self, arguments: tuple[str, ...], place: str) -> Any:
        action = ACTIONS[self.name]
        given = [*self.ctx.meta[ARGUMENTS], *arguments, "--", "model", *["other"] * action.other]
        try:
            ctx = action_command(self.name).make_context(self.name, given, parent=self.ctx.parent)
            return options_from(action.options, ctx.params)
        except typer.BadParameter as e:
            require(not arguments, f"{place}: {e.format_message()}")
            raise
        except UsageError as e:
            raise UsageError(f"{place}: {e}" if arguments else str(e)) from e
