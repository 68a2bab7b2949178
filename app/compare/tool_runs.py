"""Runs of other optimizers, each in a worker process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.ort.worker_process import WorkerError, WorkerProcess, module_command
from .tools import Tool

WORKER = module_command(f"{__package__}.tool_worker")
TIMEOUT = 600.0  # seconds that an optimizer may take for a model


@dataclass(frozen=True, slots=True)
class OptimizerOutput:
    """What one optimizer made: the `file`, or the `failure` in a line. `seconds` from file to model, None if unknown.

    `level` is that of onnxruntime's own optimizers.
    """

    made_by: str
    version: str
    file: Path
    failure: str = ""
    seconds: float | None = None
    level: str = ""


def run_tool(tool: Tool, model: Path, folder: Path, timeout: float = TIMEOUT) -> OptimizerOutput:
    """What a tool makes of the model, in a new folder of its own in `folder`."""
    place = folder / tool.key
    place.mkdir()
    made = place / f"{tool.key}.onnx"
    heard = run_timed(tool.key, model, made, place / "log", {}, timeout)
    return OptimizerOutput(tool.label, tool.version, made, heard.get("failure", ""), heard.get("seconds"), tool.level)


def run_timed(
    tool: str, model: Path, destination: Path, log: Path, run_options: dict[str, Any], timeout: float = TIMEOUT
) -> dict[str, Any]:
    """`seconds`, or the `failure`, of a tool in a fresh process; `run_options` are those of our own."""
    request = {"tool": tool, "model": str(model.absolute()), "made": str(destination), "run": run_options}
    try:
        with WorkerProcess(WORKER, timeout, log) as process:
            return process.request(request)
    except WorkerError as e:
        return {"failure": str(e)}
