"""A model run under onnxruntime's profiler, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx

from ...core.errors import EvaluationError
from ...core.io.files import ModelFile, load
from ...core.ort import value_files
from ...core.ort.sessions import Setting
from ...core.ort.worker_process import Process
from .profile_trace import Run, read_trace
from .profiler_worker import TOO_MANY
from .skeleton import name_apart, outline, write_with

LIMIT = 600.0  # seconds for a model, beside those it is to run
WORKER = (sys.executable, "-P", "-m", f"{__package__}.profiler_worker")


@dataclass(frozen=True, slots=True)
class Recording:
    """The runs that count, the graph of the file with a name for each node, and what onnxruntime made of it.

    `ran` is None where the provider cannot tell. Weights are names only in both.
    """

    runs: tuple[Run, ...]
    file: onnx.GraphProto
    ran: onnx.GraphProto | None


def record(
    path: Path,
    setting: Setting,
    feeds: Mapping[str, Any],
    min_time: float,
    command: tuple[str, ...] = WORKER,
    limit: float = LIMIT,
) -> Recording:
    """Run the model in `path` for `min_time` seconds after warming up, three times at least.

    Raises ModelError for what is no model, EvaluationError if onnxruntime does not load or run it, or crashes.
    """
    is_external = require_model(path)
    file = outline(path).graph
    name_apart(file)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copy, saves = folder / "model.onnx", folder / "ran.onnx"
        write_with(file, path, copy)
        value_files.write(dict(feeds), folder / "feeds")
        question = {
            "setting": asdict(replace(setting, saves=str(saves), profiles=str(folder / "profile"))),
            "model": str(copy),
            "folder": str(path.resolve().parent) if is_external else "",
            "feeds": str(folder / "feeds"),
            "outputs": [v.name for v in file.output],
            "min_time": min_time,
        }
        heard = _asked(question, command, limit + min_time)
        runs = tuple(read_trace(Path(heard["trace"]))[heard["warm"] :])
        if not runs:
            raise EvaluationError(TOO_MANY)
        ran = outline(saves).graph if heard["saved"] and saves.exists() else None
    return Recording(runs, file, ran)


def require_model(path: Path) -> bool:
    """Whether a model's weights are in other files, too. Raises ModelError, with the reason, if it is no model."""
    file = ModelFile(path)
    load(file, inline=False)
    return bool(file.externals)


def _asked(question: dict[str, Any], command: tuple[str, ...], limit: float) -> dict[str, Any]:
    process = Process(command, limit)
    try:
        end, heard = process.answer(question)
    finally:
        process.end()
    if end is not None:
        raise EvaluationError(f"onnxruntime's profiler gave nothing: {end}")
    if "failure" in heard:
        raise EvaluationError(heard["failure"])
    return heard
