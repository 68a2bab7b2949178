"""Runs of the compared optimizers, each in a worker process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...core.errors import UnverifiableError
from ...core.run.phase_timer import PhaseTimer, seconds_of_verification
from ..optimize.optimize import Result, optimize_model
from ..optimize.run_options import RunOptions
from ..registry.adapter_names import ORT, PACKAGES, install_hint, installed_version, require_installed
from ..registry.environment import versions
from ..registry.timed_runs import TIMEOUT, run_timed
from ..registry.tool_functions import COMPARED_LEVELS, OptimizeFile
from .comparison_report import OURS, Row


class Tool(Struct, frozen=True):
    """An optimizer: its `label` in tables, its `key` in the worker, and the `level` of an optimizer of onnxruntime."""

    label: str
    key: str
    version: str
    level: str = ""


class OptimizerOutput(Struct, frozen=True):
    """The row of one optimizer before verification, and the `file` that it wrote unless it failed.

    `level` is the level of onnxruntime's own optimizers.
    """

    row: Row
    file: Path
    level: str = ""


def installed_tools(names: Sequence[str] | None, known: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Select tools by name, with the reasons why others are skipped; None selects all that are installed.

    Raises UsageError for a tool that is unknown or not installed.
    """
    if names is not None:
        for name in names:
            require_installed(name, known)
        return list(dict.fromkeys(names)), {}
    installed = [name for name in known if installed_version(name) is not None]
    return installed, {name: install_hint(name) for name in known if name not in installed}


def select_tools(names: Sequence[str] | None) -> tuple[list[Tool], dict[str, str]]:
    """Select optimizers like `installed_tools`; onnxruntime's has several levels."""
    chosen, skipped = installed_tools(names, list(PACKAGES))
    tools: list[Tool] = []
    for name in chosen:
        version = installed_version(name) or ""
        if name == ORT:
            tools += [Tool(f"ORT {level}", f"{ORT}-{level}", version, level) for level in COMPARED_LEVELS]
        else:
            tools.append(Tool(name, name, version))
    return tools, skipped


def run_in_folder(
    key: str, model: Path, folder: Path, settings: Mapping[str, Any], timeout: float = TIMEOUT
) -> tuple[Path, dict[str, Any]]:
    """Run a tool on the model, in a new folder in `folder`. Return the file that it writes, and its reply."""
    own_folder = folder / key
    own_folder.mkdir()
    file = own_folder / f"{key}.onnx"
    return file, run_timed(key, model, file, own_folder / "log", dict(settings), timeout)


def run_tool(tool: Tool, model: Path, folder: Path, timeout: float = TIMEOUT) -> OptimizerOutput:
    """Run an optimizer; return its row and its file."""
    file, reply = run_in_folder(tool.key, model, folder, {}, timeout)
    row = Row(tool.label, tool.version, online=False, failure=reply.get("failure", ""), seconds=reply.get("seconds"))
    return OptimizerOutput(row, file, tool.level)


def run_own(
    model: Path, options: RunOptions, folder: Path, timer: PhaseTimer
) -> tuple[OptimizerOutput, Result, list[str]]:
    """Run like `passes run`, then again without verification, to time it like other tools; return notes as well.

    A model that cannot be verified is still optimized. Raises the other errors of `optimize`.
    """
    own_folder = folder / OURS
    own_folder.mkdir()
    file = own_folder / f"{OURS}.onnx"
    notes: list[str] = []
    with timer.phase("optimizing and verifying"):
        try:
            result = optimize_model(model, replace(options, output=file))
        except UnverifiableError as e:
            result = optimize_model(model, replace(options, output=file, verify=False, inputs=None))
            notes.append(f"{OURS} could not verify its result: {e}")
    timer.seconds["verifying"] = round(seconds_of_verification(result.report.seconds), 6)
    with timer.phase("optimizing once more, timed"):
        names = {name: list(getattr(options, name)) for name in ("only", "skip", "enable")}
        frozen = options.freeze_initializers
        run = {
            "pipeline": options.pipeline,
            "freeze_initializers": frozen,
            "plugin": [str(p) for p in options.plugin],
            **names,
        }
        timed_file = own_folder / "timed.onnx"
        reply = run_timed(f"{__name__}:own_optimizer", model, timed_file, own_folder / "log", run)
    for left in (timed_file, Path(f"{timed_file}.data")):
        left.unlink(missing_ok=True)
    notes += [f"{OURS} skipped {q.description}" for q in result.report.rejected]
    notes += [f"{OURS} could not be timed: {reply['failure']}"] if "failure" in reply else []
    row = Row(OURS, versions()[OURS], online=False, seconds=reply.get("seconds"))
    return OptimizerOutput(row, file), result, notes


def own_optimizer(run_options: dict[str, Any]) -> OptimizeFile:
    """Our optimizer without verification."""
    import_module("onnxruntime")  # for constant folding
    return lambda path, _: optimize_model(path, RunOptions(verify=False, **run_options)).model
