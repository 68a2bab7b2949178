"""What `passes new` made, and how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from ..terminal import Screen
from .plugin_names import Names


def show_plugin(screen: Screen, names: Names, folder: Path, made: Sequence[str]) -> None:
    """The files of a new plugin, and the three commands that install, test and run it."""
    screen.line(f"made {folder} with")
    for place in made:
        screen.line(f"    {place}")
    screen.line("next:")
    screen.line(f"    cd {shlex.quote(str(folder))} && pip install -e '.[test]'")
    screen.line("    pytest")
    screen.line(f"    python example/model.py && passes run example/model.onnx --enable {names.name} -o optimized.onnx")
