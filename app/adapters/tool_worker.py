"""Worker of tool_process, which a tool may crash: `python -m <this module>`.

A request names a function, an option, the file of a model, and the file for the function's result.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx

from ...core.errors import format_error
from ...core.io.interchange import large_tensor_digests, replace_unchanged_weights
from ...core.ort.backends import strip_source_locations
from ...core.ort.worker_process import serve

MAX_MESSAGE = 300  # characters of an error; some tools print the model


def reply(request: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Run the tool; the reply has no parts."""
    Path(request["back"]).write_bytes(_run_tool(request["call"], request["option"], Path(request["sent"])))
    return ()


def tool_error(error: BaseException) -> str:
    """A tool's error on one line, cut to MAX_MESSAGE characters."""
    return strip_source_locations(format_error(error))[:MAX_MESSAGE] or type(error).__name__


def require_model(result: object) -> onnx.ModelProto:
    """The model that a tool returned. Raises TypeError for anything else."""
    if not isinstance(result, onnx.ModelProto):
        raise TypeError(f"it gave back no model, but {result!r}")
    return result


def _run_tool(function_name: str, option: str, sent: Path) -> bytes:
    """The tool's result, serialized, without the large weights that it did not change."""
    module, _, function = function_name.partition(":")
    model = onnx.ModelProto.FromString(sent.read_bytes())
    contents = large_tensor_digests(model)
    made = require_model(getattr(import_module(module), function)(model, option))
    return replace_unchanged_weights(made, contents).SerializeToString(deterministic=True)


if __name__ == "__main__":
    serve(reply, (BaseException,), tool_error)
