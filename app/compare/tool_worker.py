"""Worker of tool_runs, which an optimizer may crash: `python -m <this module>` makes one model, and times that."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import onnx

from ...core.io.model import MAX_MESSAGE_BYTES
from ...core.ort.worker_process import serve
from ..adapters.default_optimizers import LOADERS, OptimizeFile
from ..adapters.tool_worker import require_model, tool_error
from .comparison_report import OURS


def reply(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The `seconds` from the file to the model, without imports."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    yield {"seconds": _timed_run(request["tool"], Path(request["model"]), Path(request["made"]), request["run"])}


def _timed_run(tool: str, path: Path, destination: Path, run: dict[str, Any]) -> float:
    prepared: Callable[[], OptimizeFile] = partial(_own_optimizer, run) if tool == OURS else LOADERS[tool]
    optimize = prepared()
    start = perf_counter()
    model = optimize(path, destination)
    seconds = perf_counter() - start
    if model is not None:
        write_model(require_model(model), destination)
    if not destination.is_file():
        raise FileNotFoundError("it gave no model")
    return seconds


def _own_optimizer(run: dict[str, Any]) -> OptimizeFile:
    """Without verification, as the others are without it."""
    import_module("onnxruntime")  # for constant folding
    from ..run.optimize import optimize  # noqa: PLC0415 - seldom asked for

    return lambda path, _: optimize(path, verify=False, **run).model


def write_model(model: onnx.ModelProto, destination: Path) -> None:
    """Write what a tool made, its weights apart where they are too many for one message."""
    apart = sum(len(t.raw_data) for t in model.graph.initializer) > MAX_MESSAGE_BYTES
    onnx.save(model, str(destination), save_as_external_data=apart, location=f"{destination.name}.data")


if __name__ == "__main__":
    serve(reply, (BaseException,), tool_error)
