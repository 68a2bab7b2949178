"""Having other optimizers make their models: each in a process of its own, which it may crash."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.ort.worker_process import Process
from .tools import Tool

WORKER = f"{__package__}.tool_worker"
LIMIT = 600.0  # seconds that an optimizer may take for a model


@dataclass(frozen=True, slots=True)
class Contender:
    """What one optimizer made: the `file`, or the `failure` in a line. `seconds` from file to model, None if unknown.

    `level` is that of onnxruntime's own optimizers.
    """

    made_by: str
    version: str
    file: Path
    failure: str = ""
    seconds: float | None = None
    level: str = ""


def make(tool: Tool, model: Path, folder: Path, limit: float = LIMIT) -> Contender:
    """What a tool makes of the model, in a new folder of its own in `folder`."""
    place = folder / tool.known
    place.mkdir()
    made = place / f"{tool.known}.onnx"
    heard = timed(tool.known, model, made, place / "log", {}, limit)
    return Contender(tool.shown, tool.version, made, heard.get("failure", ""), heard.get("seconds"), tool.level)


def timed(tool: str, model: Path, made: Path, log: Path, run: dict[str, Any], limit: float = LIMIT) -> dict[str, Any]:
    """`seconds`, or the `failure`, of a tool in a fresh process; `run` is what our own is to be asked."""
    process = Process((sys.executable, "-P", "-m", WORKER), limit, log)
    try:
        question = {"tool": tool, "model": str(model.absolute()), "made": str(made), "run": run}
        end, heard = process.answer(question)
    finally:
        process.end()
    return heard if end is None else {"failure": f"{end}{f' ({limit:g} s)' if end.code is None else ''}"}
