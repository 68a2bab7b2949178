"""Commands with grouped help and settings."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from textwrap import wrap
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ..options import GROUPS, SETTINGS, Option, require
from .exit_codes import USAGE, one_line_errors, printable_messages
from .help_pages import GroupedHelp, page_width
from .parameters import option_classes, options_from, typer_parameters
from .settings import (
    IGNORE,
    OWN_FILE,
    PROJECT_FILE,
    SettingsFile,
    checked_settings,
    find_settings,
    key_of,
    may_run_code,
    toml_value,
)

RUN = "run"
FILE = f"{__name__}.file"  # key of the settings file in the data of a context
SHOW, TRUST = "--show-settings", "--trust-settings"
CHOICES = {
    SHOW: "Print all options with their sources, and exit.",
    TRUST: "Allow settings files to name plugins and other code.",
    IGNORE: f"Read neither {OWN_FILE} nor {PROJECT_FILE}.",
}


class Command(GroupedHelp, TyperCommand):
    """A command that takes settings from a file; `options` by parameter as in `options_by_parameter`."""

    groups = GROUPS
    options: Mapping[str, Option]

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the arguments; messages of usage errors are made printable."""
        with printable_messages():
            return super().make_context(*args, **options)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with settings as defaults."""
        typed = {a.partition("=")[0] for a in (args[: args.index("--")] if "--" in args else args)}
        if ctx.resilient_parsing or not typed.isdisjoint(ctx.help_option_names):
            return super().parse_args(ctx, args)
        with one_line_errors():
            file = find_settings() if IGNORE not in typed else None
            values = {} if file is None else self._settings(file, ctx)
        names = {o: p.name for p in self.params for o in p.opts}
        chosen = {names[o] for o in typed & names.keys()}
        off = {other for name, about in self.options.items() if name in chosen for other in about.excludes}
        off |= {
            other
            for name, about in self.options.items()
            if name not in chosen and not values.get(name)
            for other in about.enables
        }
        ctx.default_map = {name: value for name, value in values.items() if name not in off}
        ctx.meta[FILE] = str(file.path) if file is not None else ""
        if SHOW in typed:
            with _optional(self.params):
                super().parse_args(ctx, args)
            self._show(ctx, file)
            raise typer.Exit
        rest = super().parse_args(ctx, args)
        if file is not None and TRUST not in typed:
            hint = f"add {TRUST} if you trust its folder, or {IGNORE}"
            with one_line_errors():
                for p in self._settings_in_force(ctx):
                    is_code = may_run_code(p.name, self.options[p.name], ctx.default_map[p.name])
                    require(not is_code, f"{file.path}: {key_of(p)} may run code that is not installed: {hint}")
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command. If it rejects the options, list those that come from settings."""
        try:
            return super().invoke(ctx)
        except typer.Exit as e:
            if e.exit_code == USAGE and (keys := [key_of(p) for p in self._settings_in_force(ctx)]):
                from ..report.terminal import Terminal  # noqa: PLC0415 - imports rich

                Terminal().warning(f"(settings of {ctx.meta[FILE]}: {', '.join(keys)}; {IGNORE} ignores them)")
            raise

    def _settings(self, file: SettingsFile, ctx: Any) -> dict[str, Any]:
        """The settings for this command by parameter. Raises UsageError for invalid keys and values."""
        commands = ctx.parent.command
        run = self if self.name == RUN else commands.get_command(ctx.parent, RUN)
        tables: dict[str, Any] = {
            k: v for k, v in file.table.items() if isinstance(v, dict) and k in commands.list_commands(ctx.parent)
        }
        shared = {k: v for k, v in file.table.items() if k not in tables}
        values = checked_settings(file, "", shared, run, ctx)
        if self is not run:
            values = {n: v for n, v in values.items() if n in self.options and not self.options[n].is_own}
        name = self.name or ""
        return values | checked_settings(file, name, tables.get(name, {}), self, ctx)

    def _settings_in_force(self, ctx: Any) -> list[Any]:
        """The options whose values come from a file."""
        return [p for p in self.params if _source(ctx, p) == "DEFAULT_MAP"]

    def _show(self, ctx: Any, file: SettingsFile | None) -> None:
        """Print the options in use as TOML, each with its source."""
        from ..report.terminal import Terminal  # noqa: PLC0415 - imports rich

        sources = {"COMMANDLINE": "command line", "DEFAULT_MAP": ctx.meta[FILE]}
        shown, unset = list[str](), list[str]()
        for p in self.params:
            value = ctx.params.get(p.name)
            if value is None and isinstance(default := getattr(p, "show_default", None), str):
                value = default
            if p.param_type_name != "option" or f"--{key_of(p)}" in CHOICES:
                continue
            if value in (None, "", (), []) or (value is False and _source(ctx, p) == "DEFAULT"):
                unset.append(key_of(p))
            else:
                shown.append(f"{key_of(p)} = {toml_value(value)}  # {sources.get(_source(ctx, p), 'default')}")
        head = f"no {OWN_FILE}, and no tool.passwright in {PROJECT_FILE}" if file is None else str(file.path)
        comments = partial(
            wrap, width=page_width(), initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
        )
        Terminal().lines([*comments(head), *shown, *comments(f"not set: {', '.join(unset)}")])


def with_options(command: Callable[..., int | None], bad_input: int) -> Callable[..., None]:
    """Make a command function for typer, with a parameter for each option and for those that control settings.

    The function exits with the exit code that the command returns, or with `bad_input` for an unusable model, input or
    plugin.
    """
    classes = option_classes(command)

    @wraps(command)
    def call(**given: Any) -> None:
        with one_line_errors(bad_input):
            options = {name: options_from(c, given) for name, c in classes.items()}
            code = command(**{name: given[name] for name in arguments}, **options)
        if code:
            raise typer.Exit(code)

    arguments = [name for name in signature(command).parameters if name not in classes]
    added = [
        Parameter(
            flag.lstrip("-").replace("-", "_"),
            Parameter.KEYWORD_ONLY,
            default=False,
            annotation=Annotated[bool, typer.Option(flag, help=text, rich_help_panel=SETTINGS)],
        )
        for flag, text in CHOICES.items()
    ]
    vars(call)["__signature__"] = Signature([*typer_parameters(command), *added])
    return call


@contextmanager
def _optional(params: Iterable[Any]) -> Generator[None]:
    """Make all parameters optional within the context."""
    required = [p for p in params if p.required]
    for p in required:
        p.required = False
    try:
        yield
    finally:
        for p in required:
            p.required = True


def _source(ctx: Any, p: Any) -> str:
    """The source of a parameter's value."""
    source = ctx.get_parameter_source(p.name)
    return "" if source is None else source.name
