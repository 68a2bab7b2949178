"""What the tests ask of plugins and pipelines, in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from passwright.app.registry.resolved_pipeline import choose
from passwright.core import Pass
from passwright.core.plugins.discovery import Broken, Installed, file_shelf
from passwright.core.plugins.pass_registry import Found


def from_file(path: Path) -> dict[str, Found]:
    """The passes of one Python file."""
    return file_shelf(path).passes


def installed(broken: Broken | None = None) -> dict[str, Found]:
    """The passes of all installed packages; what is wrong with them goes to `broken`, or the first of it is raised."""
    found = Installed()
    found.load_all()
    if broken is not None:
        broken |= found.broken
    elif found.broken:
        raise next(iter(found.broken.values()))
    return found.shelf.passes


def pipeline_of(*given: Any, **options: Any) -> Pass:
    """The pipeline that is asked for, whatever the model."""
    return choose(*given, **options).pipeline
