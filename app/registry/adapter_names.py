"""Passes of other tools, named by the tool, a colon, and a part of it."""

from __future__ import annotations

import sys
from collections.abc import Collection
from contextlib import redirect_stdout
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from typing import Any

from ...core import Pass, Pipeline
from ...core.errors import PluginError, UnknownNameError, UsageError, format_error
from ...core.ort.sessions import LEVELS
from ...core.support.suggestions import did_you_mean
from .onnxscript_pass import OnnxscriptPass, collect_rules, default_rules
from .tool_pass import ToolPass, ToolProcess

ONNXSCRIPT, ONNXOPTIMIZER, ORT = "onnxscript", "onnxoptimizer", "ort"
PACKAGES = {ORT: "onnxruntime"} | {name: name for name in ("onnxsim", "onnxslim", ONNXOPTIMIZER, ONNXSCRIPT)}
CONTRIB_DOMAINS = ("com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")  # only in onnxruntime
SPELLINGS = f"{ONNXSCRIPT}:default, {ONNXSCRIPT}:package.module:ATTRIBUTE or {ONNXSCRIPT}:file.py:ATTRIBUTE"


def adapter(name: str) -> Pass | None:
    """The pass of another tool by name; None for a name without a tool.

    Raises PluginError for a tool that is not installed or rules that cannot be imported, and UnknownNameError for an
    unknown part of a tool.
    """
    tool, colon, part = name.partition(":")
    if tool not in PACKAGES:
        return None
    if installed_version(tool) is None:
        raise PluginError(f"{tool} needs {PACKAGES[tool]}, which is {install_hint(tool)}")
    if tool == ONNXSCRIPT:
        return _onnxscript_pass(name, part)
    process = ToolProcess(f"{__package__}.tool_functions:optimize_model")
    if tool == ONNXOPTIMIZER:
        return _onnxoptimizer_pass(name, part if colon else None, process)
    if tool == ORT:
        if part not in LEVELS:
            levels = ", ".join(f"{ORT}:{level}" for level in LEVELS)
            raise UnknownNameError(f"{name}: onnxruntime has the levels {levels}")
        return ToolPass(name, process, name, () if part == next(iter(LEVELS)) else CONTRIB_DOMAINS)
    if colon:
        raise UnknownNameError(f"{name}: {tool} has no separate passes; use {tool}")
    return ToolPass(name, process, name)


def available() -> dict[str, str]:
    """The tools with adapters: the installed version, or how to install it."""
    versions = {tool: installed_version(tool) for tool in PACKAGES}
    return {tool: install_hint(tool) if v is None else v or "installed" for tool, v in versions.items()}


def installed_version(tool: str) -> str | None:
    """The version of a tool; "" if the package has another name, such as onnxruntime-gpu; None if not installed."""
    try:
        package = PACKAGES.get(tool, tool)
        return None if find_spec(package) is None else version(package)
    except PackageNotFoundError:
        return ""


def require_installed(name: str, tools: Collection[str]) -> None:
    """Raise UsageError for a name given to --tools that is not one of `tools` or not installed."""
    if name not in tools:
        near = did_you_mean(name, tools) or f" (there are {', '.join(tools)})"
        raise UsageError(f"--tools {name}: no optimizer has that name{near}")
    if installed_version(name) is None:
        raise UsageError(f"--tools {name}: it is {install_hint(name)}")


def install_hint(tool: str) -> str:
    """Describe a tool that is not installed, with the command to install it."""
    return f"not installed (pip install {PACKAGES.get(tool, tool)})"


def _onnxoptimizer_pass(name: str, part: str | None, process: ToolProcess) -> Pass:
    try:
        tool: Any = import_module(ONNXOPTIMIZER)
    except ImportError as e:
        raise PluginError(f"{ONNXOPTIMIZER} cannot be imported: {format_error(e)}") from e
    if part is None:
        names = [f"{ONNXOPTIMIZER}:{p}" for p in tool.get_fuse_and_elimination_passes()]
        return Pipeline(name, tuple(ToolPass(n, process, n) for n in names))
    known: list[str] = tool.get_available_passes()
    if part not in known:
        raise UnknownNameError(f"{ONNXOPTIMIZER} has no pass named '{part}'{did_you_mean(part, known)}")
    return ToolPass(name, process, name)


def _onnxscript_pass(name: str, reference: str) -> Pass:
    """The pass of the default rules, or of those in an attribute of a module or file."""
    rules = default_rules() if reference == "default" else _attribute_value(name, reference)
    try:
        return OnnxscriptPass(name, collect_rules(rules))
    except TypeError as e:
        raise PluginError(f"{name}: {e}") from e


def _attribute_value(name: str, reference: str) -> object:
    """The value of `package.module:ATTRIBUTE` or `file.py:ATTRIBUTE`; output of the file goes to standard error."""
    where, _, attribute = reference.rpartition(":")
    if not where or not attribute:
        raise UnknownNameError(f"{name}: not of the form {SPELLINGS}")
    try:
        with redirect_stdout(sys.stderr):
            is_file = where.endswith(".py")
            things = run_path(where, run_name=Path(where).stem) if is_file else vars(import_module(where))
    except KeyboardInterrupt:
        raise
    except BaseException as e:
        raise PluginError(f"{name}: {where} cannot be imported: {format_error(e)}") from e
    if attribute not in things:
        near = did_you_mean(attribute, (n for n in things if not n.startswith("_")))
        raise UnknownNameError(f"{name}: {where} has no {attribute}{near}")
    return things[attribute]
