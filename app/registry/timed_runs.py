"""Timed runs of optimizers and quantizers, each in a separate process because it may crash or hang."""

from __future__ import annotations

import logging
import warnings
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import onnx

from ...core.io.model import MAX_MESSAGE_BYTES
from ...core.ort.value_files import read_value
from ...core.processes.worker_process import WorkerError, WorkerProcess, module_command, serve
from .quantizers import QUANTIZERS
from .tool_functions import FILE_OPTIMIZERS, OptimizeFile
from .tool_worker import ToolFailed, require_model, tool_error

TIMEOUT = 600.0  # seconds that an optimizer may take for a model


class TimedToolWorker:
    """An optimizer or a quantizer in this process."""

    def optimize(self, tool: str, model: Path, destination: Path, run_options: dict[str, Any]) -> float:
        """Return the seconds from file to model, without imports. Raises ToolFailed if the tool raises anything."""
        logging.disable(logging.WARNING)
        warnings.simplefilter("ignore")
        try:
            return _timed(tool, model, destination, run_options)
        except KeyboardInterrupt:
            raise
        except BaseException as e:
            raise ToolFailed(tool_error(e)) from e


def _timed(tool: str, file: Path, destination: Path, run_options: dict[str, Any]) -> float:
    if "samples" in run_options:  # onnxsim can both optimize and quantize
        optimize = _quantizer(tool, run_options["samples"])
    else:
        module, _, name = tool.partition(":")
        optimize = getattr(import_module(module), name)(run_options) if name else FILE_OPTIMIZERS[tool]()
    start = perf_counter()
    model = optimize(file, destination)
    seconds = perf_counter() - start
    if model is not None:
        weights = sum(len(t.raw_data) for t in require_model(model).graph.initializer)
        is_large = weights > MAX_MESSAGE_BYTES
        onnx.save(model, str(destination), save_as_external_data=is_large, location=f"{destination.name}.data")
    if not destination.is_file():
        raise FileNotFoundError("it returned no model")
    return seconds


def _quantizer(label: str, samples: list[str]) -> OptimizeFile:
    """A recipe that calibrates with samples in files, and writes its result itself."""
    quantize = QUANTIZERS[label].load()
    return lambda path, destination: quantize(path, map(read_value, map(Path, samples)), destination)


def run_timed(
    tool: str, model: Path, destination: Path, log: Path, run_options: dict[str, Any], timeout: float = TIMEOUT
) -> dict[str, Any]:
    """Run a tool in a fresh process; return its `seconds`, or the `failure`.

    `tool` is a name in FILE_OPTIMIZERS; with the paths of `samples` in `run_options`, a name in QUANTIZERS; or
    `module:name` of a function that makes an optimizer from `run_options`.
    """
    process = WorkerProcess[TimedToolWorker](module_command(__name__), timeout, log, memory=None)
    try:
        with process:
            return {"seconds": process.call().optimize(tool, model.absolute(), destination, run_options)}
    except (WorkerError, ToolFailed) as e:
        return {"failure": str(e)}


def main() -> None:
    """Serve the parent until it ends."""
    serve(TimedToolWorker())
