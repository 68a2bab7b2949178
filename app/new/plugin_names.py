"""What a plugin and its module are called."""

from __future__ import annotations

import keyword
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec

from packaging.utils import InvalidName, canonicalize_name

from ...core.pass_manager.pass_selection import BadUsage, names_in
from ...passes.pipelines import BUILT_IN, OPTIONAL, PIPELINES

LONGEST = 60


@dataclass(frozen=True, slots=True)
class Names:
    """`name` is that of the package and of its pass, in kebab-case; `module` is what Python imports."""

    name: str
    module: str


def names_for(text: str) -> Names:
    """The names for a plugin `text`. Raises BadUsage unless nothing else is called so, here or in Python."""
    try:
        name = canonicalize_name(text, validate=True)
    except InvalidName:
        raise BadUsage(f"{text!r} is no name for a package: letters, digits and single dashes, as my-plugin") from None
    module = name.replace("-", "_")
    if len(name) > LONGEST:
        raise BadUsage(f"{name} is too long for a name: at most {LONGEST} characters")
    if not module.isidentifier() or keyword.iskeyword(module):
        raise BadUsage(f"{module} cannot be imported: it begins with a digit or is a word of Python; take another name")
    if (taken := _taken(name, module)) is not None:
        raise BadUsage(f"{name} is taken: {taken}; take another name")
    return Names(name, module)


def _taken(name: str, module: str) -> str | None:
    """What bears one of the names already."""
    if name in _names_of_passes():
        return "a pass, rule or pipeline of passwright is called so"
    if module in sys.stdlib_module_names:
        return f"Python has a module {module}"
    try:
        return f"{name} {distribution(name).version} is installed"
    except PackageNotFoundError:
        return f"a module {module} is installed" if find_spec(module) is not None else None


def _names_of_passes() -> set[str]:
    """What --enable, --only and --pipeline know."""
    rules_and_passes = set[str]().union(*(names_in(p) for p in (*BUILT_IN, *OPTIONAL)))
    return {n.replace("_", "-") for n in rules_and_passes} | PIPELINES.keys()
