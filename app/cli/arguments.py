"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[Path, typer.Argument(metavar="FILE", help="The .onnx file; it is never modified.")]


def path_of(value: str | Path | None) -> Path | None:
    """The path given by an option, which may be text in Python."""
    return None if value is None else Path(value)
