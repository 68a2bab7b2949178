"""`passes new`: a new plugin package."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ..cli.exit_codes import one_line_errors

EXIT_CODES = """Exit codes: 0 made; 1 could not be written; 2 usage: a name that is taken, a folder that exists."""
EXAMPLES = {"passes new my-rules": "creates the folder my-rules"}
CURRENT_FOLDER = Path()


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the package, such as my-plugin.", show_default=False)
    ],
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to create it in.")] = CURRENT_FOLDER,
) -> None:
    """Create a plugin: an installable package with a rule, its tests and their workflow."""
    with one_line_errors():
        from ..registry.plugin_writer import names_for, write_plugin  # noqa: PLC0415 - imports onnx and numpy
        from ..report.terminal import Terminal  # noqa: PLC0415 - imports rich

        names = names_for(name)
        folder, files = write_plugin(names, into)
        Terminal().lines((
            f"made {folder} with",
            *(f"    {file}" for file in files),
            "next:",
            f"    cd {shlex.quote(str(folder))} && pip install -e '.[test]'",
            "    pytest",
            f"    python example/model.py && passes run example/model.onnx --enable {names.name} -o optimized.onnx",
        ))  # fmt: skip
