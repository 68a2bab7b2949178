"""What `passes new` made, and how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from ..terminal import Terminal
from .plugin_names import PluginNames


def show_plugin(terminal: Terminal, names: PluginNames, folder: Path, files: Sequence[str]) -> None:
    """The files of a new plugin, and the three commands that install, test and run it."""
    terminal.line(f"made {folder} with")
    for place in files:
        terminal.line(f"    {place}")
    terminal.line("next:")
    terminal.line(f"    cd {shlex.quote(str(folder))} && pip install -e '.[test]'")
    terminal.line("    pytest")
    terminal.line(
        f"    python example/model.py && passes run example/model.onnx --enable {names.name} -o optimized.onnx"
    )
