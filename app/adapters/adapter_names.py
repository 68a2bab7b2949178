"""Passes of other tools by their names on the command line: the tool, a colon, and a part of it."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from runpy import run_path
from typing import Any

from ...core import Pass, Pipeline
from ...core.errors import PluginError, format_error
from ...core.ort.sessions import LEVELS
from ...core.pass_manager.pass_selection import UnknownNameError
from ...core.support.suggestions import did_you_mean
from .onnxscript_pass import OnnxscriptPass, collect_rules, default_rules
from .tool_pass import ToolPass
from .tool_process import TIMEOUT, ToolProcess

ONNXSCRIPT, ONNXOPTIMIZER, ORT = "onnxscript", "onnxoptimizer", "ort"
SINGLE_PASS_TOOLS = ("onnxsim", "onnxslim")  # tools that do all they do at once
PACKAGES = {ORT: "onnxruntime"} | {name: name for name in (*SINGLE_PASS_TOOLS, ONNXOPTIMIZER, ONNXSCRIPT)}
CONTRIB_DOMAINS = ("com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")  # what onnxruntime alone has
SPELLINGS = f"{ONNXSCRIPT}:default, {ONNXSCRIPT}:package.module:ATTRIBUTE or {ONNXSCRIPT}:file.py:ATTRIBUTE"


def adapter(name: str, *, timeout: float = TIMEOUT) -> Pass | None:
    """The pass of another tool by its name; None for a name without a tool.

    A tool has `timeout` seconds for each answer. Raises PluginError for a tool that is not installed or rules that
    cannot be had, UnknownNameError for a part that a tool does not have.
    """
    tool, colon, part = name.partition(":")
    if tool not in PACKAGES:
        return None
    _require_installed(tool)
    return _ADAPTERS[tool](name, part if colon else None, timeout)


def available() -> dict[str, str]:
    """The tools there are adapters for: the version that is installed, or how to get one."""
    found: dict[str, str] = {}
    for tool, package in PACKAGES.items():
        try:
            found[tool] = version(package)
        except PackageNotFoundError:
            found[tool] = install_hint(tool)
    return found


def install_hint(tool: str) -> str:
    """The state of a tool that is not installed, and the remedy."""
    return f"not installed (pip install {PACKAGES[tool]})"


def _require_installed(tool: str) -> None:
    package = PACKAGES[tool]
    try:
        version(package)
    except PackageNotFoundError:
        raise PluginError(f"{tool} needs {package}, which is {install_hint(tool)}") from None


def _tool_process(function: str, timeout: float) -> ToolProcess:
    return ToolProcess(f"{__package__}.tool_functions:{function}", timeout)


def _single_tool_pass(name: str, option: str | None, timeout: float) -> Pass:
    tool = name.partition(":")[0]
    if option is not None:
        raise UnknownNameError(f"{name}: {tool} has no passes by name; it is asked for as {tool}")
    return ToolPass(name, _tool_process(tool, timeout))


def _onnxoptimizer_pass(name: str, option: str | None, timeout: float) -> Pass:
    try:
        tool: Any = import_module(ONNXOPTIMIZER)
    except ImportError as e:
        raise PluginError(f"{ONNXOPTIMIZER} cannot be imported: {format_error(e)}") from e
    servant = _tool_process(ONNXOPTIMIZER, timeout)
    if option is None:
        chosen: list[str] = tool.get_fuse_and_elimination_passes()
        return Pipeline(name, tuple(ToolPass(f"{ONNXOPTIMIZER}:{p}", servant, p) for p in chosen))
    known: list[str] = tool.get_available_passes()
    if option not in known:
        raise UnknownNameError(f"{ONNXOPTIMIZER} has no pass named '{option}'{did_you_mean(option, known)}")
    return ToolPass(name, servant, option)


def _ort_pass(name: str, option: str | None, timeout: float) -> Pass:
    if option is None or option not in LEVELS:
        raise UnknownNameError(f"{name}: onnxruntime has the levels {', '.join(f'{ORT}:{level}' for level in LEVELS)}")
    return ToolPass(name, _tool_process(ORT, timeout), option, () if option == next(iter(LEVELS)) else CONTRIB_DOMAINS)


def _onnxscript_pass(name: str, option: str | None, _: float) -> Pass:
    if not option:
        raise UnknownNameError(f"{name}: which rules? {SPELLINGS}")
    try:
        return OnnxscriptPass(name, collect_rules(_named_rules(name, option)))
    except TypeError as e:
        raise PluginError(f"{name}: {e}") from e


def _named_rules(name: str, reference: str) -> object:
    where, colon, attribute = reference.rpartition(":")
    if reference == "default":
        return default_rules()
    if not colon or not where or not attribute:
        raise UnknownNameError(f"{name}: which rules? {SPELLINGS}")
    try:
        things = _namespace_of(where)
    except KeyboardInterrupt:
        raise
    except BaseException as e:
        raise PluginError(f"{name}: {where} cannot be imported: {format_error(e)}") from e
    if attribute not in things:
        near = did_you_mean(attribute, (n for n in things if not n.startswith("_")))
        raise UnknownNameError(f"{name}: {where} has no {attribute}{near}")
    return things[attribute]


def _namespace_of(where: str) -> dict[str, Any]:
    """The definitions of a module or Python file; its own prints do not reach the output."""
    with redirect_stdout(sys.stderr):
        if where.endswith(".py"):
            return run_path(where, run_name=Path(where).stem)
        return vars(import_module(where))


_ADAPTERS = {ONNXSCRIPT: _onnxscript_pass, ONNXOPTIMIZER: _onnxoptimizer_pass, ORT: _ort_pass} | dict.fromkeys(
    SINGLE_PASS_TOOLS, _single_tool_pass
)
