"""The names and files of a new plugin package."""

from __future__ import annotations

import keyword
import os
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template

from msgspec import Struct, to_builtins
from packaging.utils import InvalidName, canonicalize_name

from ...core.errors import PassesError, UsageError
from ...core.io.publishing import staging_folder
from ...core.run.pipeline import selectable_names
from ...passes.pipelines import BUILT_IN, OPTIONAL_PASSES, PIPELINES, TRANSFORMS

MAX_NAME_LENGTH = 60


class PluginNames(Struct, frozen=True):
    """The `name` of the package and its pass, in kebab-case, and the name of its Python `module`."""

    name: str
    module: str


def names_for(text: str) -> PluginNames:
    """The names for a plugin called `text`. Raises UsageError for a name that is already used here or in Python."""
    try:
        name = canonicalize_name(text, validate=True)
    except InvalidName:
        raise UsageError(
            f"{text!r} is not a name for a package: use letters, digits and single dashes, such as my-plugin"
        ) from None
    module = name.replace("-", "_")
    if len(name) > MAX_NAME_LENGTH:
        raise UsageError(f"{name} is too long for a name: at most {MAX_NAME_LENGTH} characters")
    if not module.isidentifier() or keyword.iskeyword(module):
        raise UsageError(
            f"{module} is not a valid module name: it begins with a digit or is a Python keyword; choose another name"
        )
    if (conflict := _name_conflict(name, module)) is not None:
        raise UsageError(f"{name} is taken: {conflict}; choose another name")
    return PluginNames(name, module)


def _name_conflict(name: str, module: str) -> str | None:
    """Describe what already has one of the names; None if both are free."""
    known = {e.name for e in TRANSFORMS}.union(PIPELINES, *(selectable_names(p) for p in (*BUILT_IN, *OPTIONAL_PASSES)))
    if name in {n.replace("_", "-") for n in known}:
        return "passwright has a pass, rule or pipeline with this name"
    if module in sys.stdlib_module_names:
        return f"Python has a module {module}"
    try:
        return f"{name} {distribution(name).version} is installed"
    except PackageNotFoundError:
        return f"a module {module} is installed" if find_spec(module) is not None else None


TEMPLATE_TARGETS = {
    "pyproject.toml.in": "pyproject.toml",
    "init.py.in": "src/$module/__init__.py",
    "rules.py.in": "src/$module/rules.py",
    "passes.py.in": "src/$module/passes.py",
    "py.typed.in": "src/$module/py.typed",
    "test_rules.py.in": "tests/test_rules.py",
    "test_passes.py.in": "tests/test_passes.py",
    "model.py.in": "example/model.py",
    "README.md.in": "README.md",
    "LICENSE.in": "LICENSE",
    "workflow.yml.in": ".github/workflows/test.yml",
    "gitignore.in": ".gitignore",
}
"""The path of each template in the package."""


class CannotWrite(PassesError):
    """The package could not be written."""


def write_plugin(names: PluginNames, into: Path) -> tuple[Path, tuple[str, ...]]:
    """Create the package in a new folder of `into`, atomically; return the folder, and its files.

    Raises UsageError if `into` is not a folder or already contains the name, and CannotWrite if writing fails.
    """
    folder, texts = into / names.name, render_templates(names)
    try:
        if not into.is_dir():
            raise UsageError(f"{into} is not a folder; create it first")
        if os.path.lexists(folder):
            raise UsageError(f"{folder} exists already; choose another name, or another folder with --into")
        with staging_folder(into) as stage:
            made = stage / folder.name
            for target, text in texts.items():
                (made / target).parent.mkdir(parents=True, exist_ok=True)
                (made / target).write_bytes(text.encode())
            made.rename(folder)
    except OSError as e:
        raise CannotWrite(f"cannot write {folder}: {e.strerror}") from e
    return folder, tuple(texts)


def render_templates(names: PluginNames) -> dict[str, str]:
    """The text of each file, by its path in the package."""
    words = to_builtins(names)
    templates = files(__spec__.parent) / "template"
    return {
        Template(target).substitute(words): Template((templates / source).read_text("utf-8")).substitute(words)
        for source, target in TEMPLATE_TARGETS.items()
    }
