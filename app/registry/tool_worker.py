"""Worker process of tool_pass, isolated because it may crash."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pickle import PickleBuffer

import onnx

from ...core.errors import PassesError, format_error
from ...core.io.foreign_models import large_tensor_digests, replace_unchanged_weights
from ...core.ort.backends import strip_source_locations
from ...core.processes.worker_process import serve

MAX_MESSAGE = 300  # characters of an error; some tools print the model


class ToolFailed(PassesError):
    """A tool raised an exception; the message is one line."""


class ToolWorker:
    """The tools of this process."""

    def call(self, function: str, model: Sequence[PickleBuffer], option: str) -> bytes:
        """Call `module:function` on a model with an option; return the result without unchanged large weights.

        The model is in parts. Raises ToolFailed for anything that the function raises.
        """
        module, _, name = function.partition(":")
        try:
            proto = onnx.ModelProto.FromString(b"".join(model))
            contents = large_tensor_digests(proto)
            result = require_model(getattr(import_module(module), name)(proto, option))
            return replace_unchanged_weights(result, contents).SerializeToString(deterministic=True)
        except KeyboardInterrupt:
            raise
        except BaseException as e:
            raise ToolFailed(tool_error(e)) from e


def tool_error(error: BaseException) -> str:
    """A tool's error in one line of at most MAX_MESSAGE characters."""
    return strip_source_locations(format_error(error))[:MAX_MESSAGE] or type(error).__name__


def require_model(result: object) -> onnx.ModelProto:
    """The model that a tool returned. Raises TypeError for other objects."""
    if not isinstance(result, onnx.ModelProto):
        raise TypeError(f"it returned {result!r}, not a model")
    return result


def main() -> None:
    """Serve the parent until it ends."""
    serve(ToolWorker())
