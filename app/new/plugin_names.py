"""What a plugin and its module are called."""

from __future__ import annotations

import keyword
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec

from packaging.utils import InvalidName, canonicalize_name

from ...core.pass_manager.pass_selection import UsageError, selectable_names
from ...passes.pipelines import BUILT_IN, OPTIONAL_PASSES, PIPELINES

MAX_NAME_LENGTH = 60


@dataclass(frozen=True, slots=True)
class PluginNames:
    """`name` is that of the package and of its pass, in kebab-case; `module` is what Python imports."""

    name: str
    module: str


def names_for(text: str) -> PluginNames:
    """The names for a plugin `text`. Raises UsageError unless nothing else is called so, here or in Python."""
    try:
        name = canonicalize_name(text, validate=True)
    except InvalidName:
        raise UsageError(
            f"{text!r} is no name for a package: letters, digits and single dashes, as my-plugin"
        ) from None
    module = name.replace("-", "_")
    if len(name) > MAX_NAME_LENGTH:
        raise UsageError(f"{name} is too long for a name: at most {MAX_NAME_LENGTH} characters")
    if not module.isidentifier() or keyword.iskeyword(module):
        raise UsageError(
            f"{module} cannot be imported: it begins with a digit or is a word of Python; take another name"
        )
    if (taken := _name_conflict(name, module)) is not None:
        raise UsageError(f"{name} is taken: {taken}; take another name")
    return PluginNames(name, module)


def _name_conflict(name: str, module: str) -> str | None:
    """What bears one of the names already."""
    if name in _known_names():
        return "a pass, rule or pipeline of passwright is called so"
    if module in sys.stdlib_module_names:
        return f"Python has a module {module}"
    try:
        return f"{name} {distribution(name).version} is installed"
    except PackageNotFoundError:
        return f"a module {module} is installed" if find_spec(module) is not None else None


def _known_names() -> set[str]:
    """What --enable, --only and --pipeline know."""
    rules_and_passes = set[str]().union(*(selectable_names(p) for p in (*BUILT_IN, *OPTIONAL_PASSES)))
    return {n.replace("_", "-") for n in rules_and_passes} | PIPELINES.keys()
