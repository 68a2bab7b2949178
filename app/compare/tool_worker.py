"""Worker of tool_runs, isolated against crashes: `python -m <this module>` optimizes and times one model."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
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
from ..adapters.tool_worker import require_model, tool_error
from .row import OURS


def reply(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The `seconds` from the file to the model, without imports."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    tool, destination = request["tool"], Path(request["made"])
    if "samples" in request["run"]:  # onnxsim optimizes as well as quantizes
        optimize = _quantizer(tool, request["run"]["samples"])
    else:
        optimize = _own_optimizer(request["run"]) if tool == OURS else FILE_OPTIMIZERS[tool]()
    start = perf_counter()
    model = optimize(Path(request["model"]), destination)
    seconds = perf_counter() - start
    if model is not None:
        weights = sum(len(t.raw_data) for t in require_model(model).graph.initializer)
        is_large = weights > MAX_MESSAGE_BYTES
        onnx.save(model, str(destination), save_as_external_data=is_large, location=f"{destination.name}.data")
    if not destination.is_file():
        raise FileNotFoundError("it returned no model")
    yield {"seconds": seconds}


def _own_optimizer(run_options: dict[str, Any]) -> OptimizeFile:
    """Our optimizer, without verification."""
    import_module("onnxruntime")  # for constant folding
    from ..run.optimize import optimize  # noqa: PLC0415 - not for the other tools

    return lambda path, _: optimize(path, verify=False, **run_options).model


def _quantizer(label: str, samples: list[str]) -> OptimizeFile:
    """A recipe that calibrates with samples in files, which writes its result itself."""
    quantize = QUANTIZERS[label].load()
    return lambda path, destination: quantize(path, map(read_value, map(Path, samples)), destination)


if __name__ == "__main__":
    serve(reply, (BaseException,), tool_error)
