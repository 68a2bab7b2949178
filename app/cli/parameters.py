"""Typer parameters: arguments that commands share, and options made from classes of options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from ...core.errors import UsageError
from ..options import Option, OptionError, flag_of, options_of
from .completion import complete_lists, complete_names

Model = Annotated[Path, typer.Argument(metavar="FILE", help="The .onnx file; it is never modified.")]


def path_of(value: str | Path | None) -> Path | None:
    """The path given by an option, which may be text in Python."""
    return None if value is None else Path(value)


def option_classes(command: Callable[..., int | None]) -> dict[str, type]:
    """The classes of options in the signature of a command."""
    hints = get_type_hints(command, include_extras=True)
    return {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}


def options_by_parameter(command: Callable[..., int | None]) -> dict[str, Option]:
    """The options of a command by parameter name; `no_...` for flags that turn an option off."""
    found = dict[str, Option]()
    for options in option_classes(command).values():
        for name, (_, about) in options_of(options).items():
            found[name] = about
            if about.off[0]:
                flag, text = about.off
                found[_parameter_of(flag)] = Option(text, group=about.group, kind=bool, flags=(flag,), is_typed=True,
                                                    excludes=(name,))  # fmt: skip
    return found


def typer_parameters(command: Callable[..., int | None]) -> list[Parameter]:
    """The typer parameters of a command: its arguments and its options."""
    hints, classes = get_type_hints(command, include_extras=True), option_classes(command)
    arguments = [p.replace(annotation=hints[p.name]) for p in signature(command).parameters.values()
                 if p.name not in classes]  # fmt: skip
    defaults = {name: default for c in classes.values() for name, (default, _) in options_of(c).items()}
    options = [
        _typer_parameter(name, about, defaults.get(name, False))
        for name, about in options_by_parameter(command).items()
    ]
    return [*arguments, *options]


def _typer_parameter(name: str, about: Option, default: Any) -> Parameter:
    flags = about.flags or (f"--{name.replace('_', '-')}",)
    is_text = type(default) is about.kind and about.parse is None
    shown = "" if is_text or not isinstance(default, tuple) else ",".join(map(str, default))
    completed = (complete_lists if about.is_list else complete_names)(*about.completes) if about.completes else None
    info = typer.Option(
        *flags,
        metavar=about.metavar or None,
        help=about.help,
        rich_help_panel=about.group,
        autocompletion=completed,
        show_default=shown or True,
    )
    kind: Any = list[about.kind] if about.repeated else about.kind  # pyright: ignore[reportInvalidTypeForm]
    optional = kind if is_text else kind | None
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=default if is_text else None, annotation=Annotated[optional, info]
    )


def kinds_of_arguments(command: Callable[..., int | None]) -> dict[str, type]:
    """The types of a command's arguments, or of their items; text except for paths."""
    hints, classes = get_type_hints(command), option_classes(command)
    return {name: Path if Path in (hint, *get_args(hint)) or list[Path] in get_args(hint) else str
            for name, hint in hints.items() if name not in {*classes, "return"}}  # fmt: skip


def options_from(options: type, given: Mapping[str, Any]) -> Any:
    """Make options of a class from command-line values by parameter. Raises UsageError for malformed texts."""
    values = dict[str, Any]()
    for name, (_, about) in options_of(options).items():
        if (value := given.get(name)) is not None and value not in ((), []):
            values[name] = value
        if about.off[0] and given.get(_parameter_of(about.off[0])):
            if name in values:
                raise UsageError(f"{about.off[0]} and {flag_of(name, about)} are mutually exclusive")
            values[name] = False
    try:
        return options(**values)
    except OptionError as e:
        raise UsageError(f"{flag_of(e.name, options_of(options)[e.name][1])} {e.reason}") from e


def _parameter_of(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")
