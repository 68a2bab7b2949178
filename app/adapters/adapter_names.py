"""Passes of others by the names they have on the command line: the tool, a colon, and what of it."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from runpy import run_path
from typing import Any

from ...core import Pass, Pipeline
from ...core.errors import PluginError, told
from ...core.ort.sessions import LEVELS
from ...core.pass_manager.pass_selection import UnknownName
from ...core.support.suggestions import meant
from .onnxscript_pass import ScriptRules, default_rules, script_rules
from .tool_pass import Foreign
from .tool_process import LIMIT, Servant

SCRIPT, OPTIMIZER, ORT = "onnxscript", "onnxoptimizer", "ort"
WHOLE = ("onnxsim", "onnxslim")  # tools that do all they do at once
PACKAGES = {name: name for name in (SCRIPT, OPTIMIZER, *WHOLE)} | {ORT: "onnxruntime"}
CONTRIB = ("com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")  # what onnxruntime alone has
SPELLINGS = f"{SCRIPT}:default, {SCRIPT}:package.module:ATTRIBUTE or {SCRIPT}:file.py:ATTRIBUTE"


def adapter(name: str, *, limit: float = LIMIT) -> Pass | None:
    """The pass of another tool that is called so; None for a name that speaks of no other tool.

    A tool has `limit` seconds for each answer. Raises PluginError for a tool that is not installed or rules that
    cannot be had, UnknownName for a part that a tool does not have.
    """
    tool, colon, part = name.partition(":")
    if tool not in PACKAGES:
        return None
    _require_installed(tool)
    return _ADAPTERS[tool](name, part if colon else None, limit)


def available() -> dict[str, str]:
    """The tools there are adapters for: the version that is installed, or how to get one."""
    found: dict[str, str] = {}
    for tool, package in PACKAGES.items():
        try:
            found[tool] = version(package)
        except PackageNotFoundError:
            found[tool] = f"not installed (pip install {package})"
    return found


def _require_installed(tool: str) -> None:
    package = PACKAGES[tool]
    try:
        version(package)
    except PackageNotFoundError:
        raise PluginError(f"{tool} needs {package}, which is not installed (pip install {package})") from None


def _servant(function: str, limit: float) -> Servant:
    return Servant(f"{__package__}.tool_functions:{function}", limit)


def _whole(name: str, part: str | None, limit: float) -> Pass:
    tool = name.partition(":")[0]
    if part is not None:
        raise UnknownName(f"{name}: {tool} has no passes by name; it is asked for as {tool}")
    return Foreign(name, _servant(tool, limit))


def _optimizer(name: str, part: str | None, limit: float) -> Pass:
    try:
        tool: Any = import_module(OPTIMIZER)
    except ImportError as e:
        raise PluginError(f"{OPTIMIZER} cannot be imported: {told(e)}") from e
    servant = _servant(OPTIMIZER, limit)
    if part is None:
        chosen: list[str] = tool.get_fuse_and_elimination_passes()
        return Pipeline(name, tuple(Foreign(f"{OPTIMIZER}:{p}", servant, p) for p in chosen))
    known: list[str] = tool.get_available_passes()
    if part not in known:
        raise UnknownName(f"{OPTIMIZER} has no pass named '{part}'{meant(part, known)}")
    return Foreign(name, servant, part)


def _ort(name: str, part: str | None, limit: float) -> Pass:
    if part not in LEVELS:
        raise UnknownName(f"{name}: onnxruntime has the levels {', '.join(f'{ORT}:{level}' for level in LEVELS)}")
    return Foreign(name, _servant(ORT, limit), part, () if part == LEVELS[0] else CONTRIB)


def _script(name: str, part: str | None, _: float) -> Pass:
    if not part:
        raise UnknownName(f"{name}: which rules? {SPELLINGS}")
    try:
        return ScriptRules(name, script_rules(_named_rules(name, part)))
    except TypeError as e:
        raise PluginError(f"{name}: {e}") from e


def _named_rules(name: str, part: str) -> object:
    where, colon, attribute = part.rpartition(":")
    if part == "default":
        return default_rules()
    if not colon or not where or not attribute:
        raise UnknownName(f"{name}: which rules? {SPELLINGS}")
    try:
        things = _things_of(where)
    except KeyboardInterrupt:
        raise
    except BaseException as e:
        raise PluginError(f"{name}: {where} cannot be imported: {told(e)}") from e
    if attribute not in things:
        near = meant(attribute, (n for n in things if not n.startswith("_")))
        raise UnknownName(f"{name}: {where} has no {attribute}{near}")
    return things[attribute]


def _things_of(where: str) -> dict[str, Any]:
    """What a module, or a Python file, defines; what it prints is no output."""
    with redirect_stdout(sys.stderr):
        if where.endswith(".py"):
            return run_path(where, run_name=Path(where).stem)
        return vars(import_module(where))


_ADAPTERS = {SCRIPT: _script, OPTIMIZER: _optimizer, ORT: _ort} | dict.fromkeys(WHOLE, _whole)
