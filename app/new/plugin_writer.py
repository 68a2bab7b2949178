"""Writing the package of a plugin: all of it or nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory

from ...core.errors import PassesError
from ...core.pass_manager.pass_selection import UsageError
from .plugin_names import PluginNames

TEMPLATES = "template"
TEMPLATE_TARGETS = {
    "pyproject.toml.in": "pyproject.toml",
    "init.py.in": "src/$module/__init__.py",
    "rules.py.in": "src/$module/rules.py",
    "test_rules.py.in": "tests/test_rules.py",
    "model.py.in": "example/model.py",
    "README.md.in": "README.md",
    "workflow.yml.in": ".github/workflows/test.yml",
    "gitignore.in": ".gitignore",
}
"""Where in the package each template goes."""


class CannotWrite(PassesError):
    """The package could not be written."""


def write_plugin(names: PluginNames, into: Path) -> tuple[Path, tuple[str, ...]]:
    """Make the package in a new folder of `into`; returns the folder, and its files relative to it.

    Raises UsageError where `into` is no folder or holds something of that name, CannotWrite where the disk says no.
    """
    folder, texts = into / names.name, render_templates(names)
    try:
        _require_unused(folder)
        _publish(texts, folder)
    except OSError as e:
        raise CannotWrite(f"cannot write {folder}: {e.strerror}") from e
    return folder, tuple(texts)


def render_templates(names: PluginNames) -> dict[str, str]:
    """The text of each file, by its place in the package."""
    words = asdict(names)
    templates = files(__spec__.parent) / TEMPLATES
    return {
        Template(target).substitute(words): Template((templates / source).read_text("utf-8")).substitute(words)
        for source, target in TEMPLATE_TARGETS.items()
    }


def _require_unused(folder: Path) -> None:
    if not folder.parent.is_dir():
        raise UsageError(f"{folder.parent} is not a folder; make it first")
    if os.path.lexists(folder):
        raise UsageError(f"{folder} exists already, and stays as it is; take another name or another folder (--into)")


def _publish(texts: Mapping[str, str], folder: Path) -> None:
    """Write the files into a folder beside `folder`, and move them there when they are whole."""
    with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as stage:
        made = Path(stage) / folder.name
        for place, text in texts.items():
            (made / place).parent.mkdir(parents=True, exist_ok=True)
            (made / place).write_bytes(text.encode())
        made.rename(folder)
