"""`passes new`: a new plugin package."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ..options import option

EXIT_CODES = """Exit codes: 0 created; 1 could not be written; 2 usage error, such as a folder that exists."""
EXAMPLES = {"passes new my-rules": "creates the folder my-rules"}


@dataclass(frozen=True, kw_only=True)
class NewOptions:
    """The options of `passes new`."""

    into: Path = option(Path(), "The folder to create it in; the current one by default.", "FOLDER", kind=Path)


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the package, such as my-plugin.", show_default=False)
    ],
    options: NewOptions,
) -> None:
    """Create a plugin: an installable package with a rule, a pass, tests, types and a CI workflow."""
    from ..registry.plugin_writer import names_for, write_plugin  # noqa: PLC0415 - imports onnx and numpy
    from ..report.terminal import Terminal  # noqa: PLC0415 - imports rich

    names = names_for(name)
    folder, files = write_plugin(names, options.into)
    Terminal().lines((
        *[f"the package is named {names.name}, the normalized form of {name}"] * (names.name != name),
        f"created {folder} with",
        *(f"    {file}" for file in files),
        "next:",
        f"    cd {shlex.quote(str(folder))} && pip install -e '.[test]'",
        "    pytest",
        f"    python example/model.py && passes run example/model.onnx --enable {names.name} -o optimized.onnx",
    ))  # fmt: skip
