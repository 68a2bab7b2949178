"""Worker of tool_pass, isolated against crashes: `python -m <this module>`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx

from ...core.errors import format_error
from ...core.io.foreign_models import large_tensor_digests, replace_unchanged_weights
from ...core.ort.backends import strip_source_locations
from ...core.ort.worker_process import serve

MAX_MESSAGE = 300  # characters of an error; some tools print the model


def reply(request: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Call a function on the model in a file with an option, and write the result without unchanged large weights."""
    module, _, function = request["call"].partition(":")
    model = onnx.ModelProto.FromString(Path(request["sent"]).read_bytes())
    contents = large_tensor_digests(model)
    result = require_model(getattr(import_module(module), function)(model, request["option"]))
    data = replace_unchanged_weights(result, contents).SerializeToString(deterministic=True)
    Path(request["back"]).write_bytes(data)
    return ()


def tool_error(error: BaseException) -> str:
    """A tool's error on one line, cut to MAX_MESSAGE characters."""
    return strip_source_locations(format_error(error))[:MAX_MESSAGE] or type(error).__name__


def require_model(result: object) -> onnx.ModelProto:
    """The model that a tool returned. Raises TypeError for anything else."""
    if not isinstance(result, onnx.ModelProto):
        raise TypeError(f"it returned {result!r}, not a model")
    return result


if __name__ == "__main__":
    serve(reply, (BaseException,), tool_error)
