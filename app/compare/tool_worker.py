"""The process that an optimizer may crash: `python -m <this module>` makes one model, and says how long that took.

making.py beside it is the other end.
"""

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

from ...core.errors import format_error
from ...core.io.serialized_model import MAX_MESSAGE_BYTES
from ...core.ort.backends import strip_source_locations
from ...core.ort.worker_process import serve
from ..adapters.default_optimizers import LOADERS, OptimizeFile
from .comparison_report import OURS

MAX_MESSAGE = 300  # characters of a complaint; some tools print the model


def reply(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The `seconds` from the file to the model, without imports, or what was said against it."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    try:
        seconds = _timed_run(request["tool"], Path(request["model"]), Path(request["made"]), request["run"])
    except KeyboardInterrupt:
        raise
    except BaseException as e:  # noqa: BLE001 - the tool's, whatever it is
        yield {"failure": strip_source_locations(format_error(e))[:MAX_MESSAGE] or type(e).__name__}
    else:
        yield {"seconds": seconds}


def _timed_run(tool: str, path: Path, destination: Path, run: dict[str, Any]) -> float:
    prepared: Callable[[], OptimizeFile] = partial(_own_optimizer, run) if tool == OURS else LOADERS[tool]
    optimize = prepared()
    start = perf_counter()
    model = optimize(path, destination)
    seconds = perf_counter() - start
    if model is not None:
        write_model(model, destination)
    if not destination.is_file():
        raise FileNotFoundError("it gave no model")
    return seconds


def _own_optimizer(run: dict[str, Any]) -> OptimizeFile:
    """Without verification, as the others are without it."""
    import_module("onnxruntime")  # for constant folding
    from ..run.optimize import optimize  # noqa: PLC0415 - seldom asked for

    return lambda path, _: optimize(path, verify=False, **run).model


def write_model(model: object, destination: Path) -> None:
    """Write what a tool made, its weights apart where they are too many for one message."""
    if not isinstance(model, onnx.ModelProto):
        raise TypeError(f"it gave back no model, but {model!r}")
    apart = sum(len(t.raw_data) for t in model.graph.initializer) > MAX_MESSAGE_BYTES
    onnx.save(model, str(destination), save_as_external_data=apart, location=f"{destination.name}.data")


if __name__ == "__main__":
    serve(reply)
