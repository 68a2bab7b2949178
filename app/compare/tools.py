"""Optimizers to compare with, chosen by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from ...core.pass_manager.pass_selection import UsageError
from ...core.support.suggestions import did_you_mean
from ..adapters.adapter_names import ORT, PACKAGES, install_hint
from ..adapters.default_optimizers import COMPARED_LEVELS


@dataclass(frozen=True, slots=True)
class Tool:
    """An optimizer by the name it is `label` by, and by that which its process knows; `level` is onnxruntime's."""

    label: str
    key: str
    version: str
    level: str = ""


def select_tools(names: Sequence[str] | None) -> tuple[list[Tool], dict[str, str]]:
    """The tools of these names, and why others are left out; None stands for all that are installed.

    Raises UsageError for a name that is none, or a tool that is not installed.
    """
    if names is None:
        found = [n for n in PACKAGES if is_installed(n)]
        left_out = {n: install_hint(n) for n in PACKAGES if n not in found}
    else:
        found, left_out = list(dict.fromkeys(names)), {}
        for name in found:
            _require_installed(name)
    return [tool for name in found for tool in _tools_named(name)], left_out


def is_installed(name: str) -> bool:
    """Whether the tool can be imported."""
    return find_spec(PACKAGES[name]) is not None


def _require_installed(name: str) -> None:
    if name not in PACKAGES:
        near = did_you_mean(name, PACKAGES) or f" (there are {', '.join(PACKAGES)})"
        raise UsageError(f"--with {name}: no optimizer is called so{near}")
    if not is_installed(name):
        raise UsageError(f"--with {name}: it is {install_hint(name)}")


def _tools_named(name: str) -> list[Tool]:
    if name == ORT:
        return [Tool(f"ORT {level}", f"{ORT}-{level}", _version(name), level) for level in COMPARED_LEVELS]
    return [Tool(name, name, _version(name))]


def _version(name: str) -> str:
    try:
        return version(PACKAGES[name])
    except PackageNotFoundError:  # a module that no package brought
        return ""
