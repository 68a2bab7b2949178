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

from ...core.errors import told
from ...core.io.interchange import large_contents, shortened
from ...core.ort.backends import without_positions
from ...core.ort.worker_process import serve

LONGEST = 300  # characters of a complaint; some tools print the model


def replied(question: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What was said against it; nothing if it went well."""
    try:
        Path(question["back"]).write_bytes(_made(question["call"], question["option"], Path(question["sent"])))
    except KeyboardInterrupt:
        raise
    except BaseException as e:  # noqa: BLE001 - the tool's, whatever it is
        yield {"error": without_positions(told(e))[:LONGEST]}
    else:
        yield {"error": ""}


def _made(call: str, option: str, sent: Path) -> bytes:
    """What the tool makes of the model, without the large weights that it left alone."""
    module, _, function = call.partition(":")
    model = onnx.ModelProto.FromString(sent.read_bytes())
    contents = large_contents(model)
    made = getattr(import_module(module), function)(model, option)
    if not isinstance(made, onnx.ModelProto):
        raise TypeError(f"it gave back no model, but {made!r}")
    return shortened(made, contents).SerializeToString(deterministic=True)


if __name__ == "__main__":
    serve(replied)
