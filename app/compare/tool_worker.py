"""Worker of tool_runs, isolated against crashes, which optimizes and times one model."""

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
from ...core.ort.worker_process import serve
from ..adapters.quantizers import QUANTIZERS
from ..adapters.tool_functions import FILE_OPTIMIZERS, OptimizeFile
from ..adapters.tool_worker import ToolFailed, require_model, tool_error
from .row import OURS


class TimedToolWorker:
    """An optimizer or a quantizer in this process."""

    def optimize(self, tool: str, model: Path, destination: Path, run_options: dict[str, Any]) -> float:
        """The seconds from the file to the model, without imports. Raises ToolFailed for whatever the tool raises."""
        logging.disable(logging.WARNING)
        warnings.simplefilter("ignore")
        try:
            return _timed(tool, model, destination, run_options)
        except KeyboardInterrupt:
            raise
        except BaseException as e:
            raise ToolFailed(tool_error(e)) from e


def _timed(tool: str, file: Path, destination: Path, run_options: dict[str, Any]) -> float:
    if "samples" in run_options:  # onnxsim optimizes as well as quantizes
        optimize = _quantizer(tool, run_options["samples"])
    else:
        optimize = _own_optimizer(run_options) if tool == OURS else FILE_OPTIMIZERS[tool]()
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


def _own_optimizer(run_options: dict[str, Any]) -> OptimizeFile:
    """Our optimizer, without verification."""
    import_module("onnxruntime")  # for constant folding
    from ..run.optimize import optimize  # noqa: PLC0415 - not for the other tools

    return lambda path, _: optimize(path, verify=False, **run_options).model


def _quantizer(label: str, samples: list[str]) -> OptimizeFile:
    """A recipe that calibrates with samples in files, which writes its result itself."""
    quantize = QUANTIZERS[label].load()
    return lambda path, destination: quantize(path, map(read_value, map(Path, samples)), destination)


def main() -> None:
    """Serve the parent until it ends."""
    serve(TimedToolWorker())
