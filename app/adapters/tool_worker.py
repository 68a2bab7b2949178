"""The process that a tool may crash: `python -m <this module>` answers questions, a line of JSON each.

A question names a function, an option, the file of a model and the file that the answer goes to. servant.py beside it
is the other end.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx

from ...core.errors import format_error
from ...core.io.interchange import large_tensor_digests, replace_unchanged_weights
from ...core.ort.backends import strip_source_locations
from ...core.ort.worker_process import serve

MAX_MESSAGE = 300  # characters of a complaint; some tools print the model


def reply(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What was said against it; nothing if it went well."""
    try:
        Path(request["back"]).write_bytes(_run_tool(request["call"], request["option"], Path(request["sent"])))
    except KeyboardInterrupt:
        raise
    except BaseException as e:  # noqa: BLE001 - the tool's, whatever it is
        yield {"error": strip_source_locations(format_error(e))[:MAX_MESSAGE]}
    else:
        yield {"error": ""}


def _run_tool(function_name: str, option: str, sent: Path) -> bytes:
    """What the tool makes of the model, without the large weights that it left alone."""
    module, _, function = function_name.partition(":")
    model = onnx.ModelProto.FromString(sent.read_bytes())
    contents = large_tensor_digests(model)
    made = getattr(import_module(module), function)(model, option)
    if not isinstance(made, onnx.ModelProto):
        raise TypeError(f"it gave back no model, but {made!r}")
    return replace_unchanged_weights(made, contents).SerializeToString(deterministic=True)


if __name__ == "__main__":
    serve(reply)
