"""The table of options in the reference: `python docs/catalogue/option_table.py` writes it."""

from __future__ import annotations

from dataclasses import MISSING
from inspect import signature
from pathlib import Path
from typing import Any

from passwright.app.cli.entry import COMMANDS, app
from passwright.app.options import Option, flag_of, options_of
from typer.main import get_command

import passwright

REFERENCE = Path(__file__).parents[1] / "reference.md"
FUNCTIONS = {"run": "optimize", "bisect": "bisect_ort"}
"""Functions of other names than their commands."""
START, END = "| option | default | commands | |\n|---|---|---|---|\n", "\n\n"


def option_table() -> str:
    """A row for each option: its default and the commands that have it, with a mark where their functions do not."""
    group: Any = get_command(app)
    rows = dict[tuple[str, str, str], list[str]]()
    for name in COMMANDS:
        command = group.commands[name]
        defaults = {n: default for c in command.classes for n, (default, _) in options_of(c).items()}
        for parameter, about in command.options.items():
            row = (_flag(parameter, about), _default(defaults.get(parameter)), about.help)
            rows.setdefault(row, []).append(name if _is_in_python(name, parameter, about) else rf"{name}\*")
    return START + "".join(
        f"| {flag} | {default} | {', '.join(commands)} | {text.replace('|', '&#124;')} |\n"
        for (flag, default, text), commands in sorted(rows.items(), key=lambda row: row[0][0].lstrip("`-"))
    )


def _flag(parameter: str, about: Option) -> str:
    flag = flag_of(parameter, about)
    return f"`{flag}`" if about.kind is bool else f"`{flag} {about.metavar}`"


def _is_in_python(command: str, parameter: str, about: Option) -> bool:
    """Whether the function of a command has the option, or the one that it negates."""
    function = getattr(passwright, FUNCTIONS.get(command, command), None)
    if function is None:
        return False
    return parameter in signature(function).parameters or parameter == f"no_{''.join(about.excludes)}"


def _default(value: object) -> str:
    if value in (None, False, True, "", (), MISSING):
        return ""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)  # pyright: ignore[reportUnknownArgumentType]


def main() -> None:
    """Write the table in the reference."""
    text = REFERENCE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    REFERENCE.write_text(f"{before}{option_table()}\n{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
