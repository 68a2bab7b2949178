"""Help pages of commands, adapted to the terminal width."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import typer

MIN_WIDTH, MAX_WIDTH = 20, 100  # columns
NARROW = 60  # columns; below this width, the help of an option is under its name
INDENT = 2  # columns, for paragraphs and lists
ARGUMENTS, OPTIONS, HELP = "Arguments", "Options", "Help"
Row = tuple[str, str]


def convert_by(function: Callable[[Any], Any], p: Any) -> None:
    """Make a parameter convert each value with a function that raises ValueError for invalid values.

    Typer would import pydantic, which takes longer than a command takes to start.
    """
    if "process_value" in vars(p):
        return
    has_many, convert = p.multiple or p.nargs == -1, p.process_value

    def process_value(ctx: Any, value: Any) -> Any:
        if value is None and p.required and not ctx.resilient_parsing:
            return convert(ctx, value)  # reports missing values
        try:
            if has_many:
                return [function(v) for v in value or ()]
            found = None if value is None else function(value)
        except ValueError as e:
            raise typer.BadParameter(str(e), ctx=ctx, param=p) from e
        return found if p.callback is None else p.callback(ctx, p, found)

    p.process_value = process_value


class GroupedHelp:
    """A base class for commands whose help lists options by group, in the order of `groups`, without Python types.

    It must precede the class of typer, whose help pages take longer to import than a command takes to start. `examples`
    maps commands to their effects.
    """

    groups: Sequence[str] = ()
    examples: Mapping[str, str] = {}

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help, which is recreated for each command."""
        base: Any = super()
        option = base.get_help_option(ctx)
        convert_by(bool, option)
        return option

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete options without their help, because typer would import rich to render it."""
        base: Any = super()
        found = base.shell_complete(ctx, incomplete)
        for item in found:
            item.help = None
        return found

    def collect_usage_pieces(self: Any, ctx: Any) -> list[str]:
        """The parts of the usage line, with brackets around optional ones."""
        arguments = [(_name(p), p.required) for p in self.get_params(ctx) if p.param_type_name == "argument"]
        return ["[OPTIONS]", *(name if is_required else f"[{name}]" for name, is_required in arguments)]

    def format_options(self: Any, ctx: Any, formatter: Any) -> None:
        """Write arguments and options by group."""
        found: dict[str, list[Row]] = {group: [] for group in (ARGUMENTS, OPTIONS, *self.groups)}
        for p in self.get_params(ctx):
            if not p.hidden:
                usual = HELP if p.name == "help" else p.rich_help_panel or OPTIONS
                group = ARGUMENTS if p.param_type_name == "argument" else usual
                found.setdefault(group, []).append(help_row(p, ctx))
        found[HELP] = found.pop(HELP)  # listed last
        for group, rows in found.items():
            write_rows(formatter, group, rows)

    def format_epilog(self: Any, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - of the base class
        """Write the examples and the exit codes."""
        wrapper = textwrap.TextWrapper(formatter.width - 8, break_long_words=False, break_on_hyphens=False)
        rows = ((" \\\n      ".join(wrapper.wrap(command)), text) for command, text in self.examples.items())
        write_rows(formatter, "Examples", rows, share=2)
        if self.epilog:
            formatter.write_paragraph()
            formatter.write_text(" ".join(self.epilog.split()))


def help_row(p: Any, ctx: Any) -> Row:
    """The row of the help for a parameter."""
    return _name(p), _description(p, ctx)


def page_width() -> int:
    """The columns of a page of help."""
    return max(min(shutil.get_terminal_size().columns, MAX_WIDTH), MIN_WIDTH)


def write_rows(formatter: Any, heading: str, rows: Iterable[Row], share: int = 3) -> None:
    """Write a list of names and texts, if not empty; names take at most 1/`share` of the width."""
    listed = [(_styled(name, fg="cyan"), text) for name, text in rows]
    if listed:
        with formatter.section(_styled(heading, bold=True)):
            formatter.write_dl(listed, col_max=formatter.width // share if formatter.width >= NARROW else INDENT)


def _name(p: Any) -> str:
    """The names and metavar of an option, or the metavar of an argument."""
    metavar = (p.metavar or p.name.upper()).strip("[]") if p.param_type_name == "argument" else p.metavar
    if p.param_type_name == "argument":
        return metavar if p.nargs == 1 or metavar.endswith("...") else f"{metavar}..."
    names = ", ".join(sorted(p.opts, key=len))
    return names if p.is_flag else f"{names} {metavar}"


def _description(p: Any, ctx: Any) -> str:
    default = p.show_default if isinstance(p.show_default, str) else p.get_default(ctx, call=False)
    is_shown = p.show_default and isinstance(default, str | int | float) and default is not False and default != ""
    return f"{p.help or ''}{f' [default: {default}]' if is_shown else ''}"


def _styled(text: str, **style: Any) -> str:
    """The text with a style, which typer removes if there is no terminal."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if is_plain else typer.style(text, **style)
