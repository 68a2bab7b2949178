"""Worker of remote_backend: it holds one session.

A request names the session, with the model and config to make it of unless it is the one held; with `feeds` it is run.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from pathlib import Path

from ..errors import EvaluationError, UnverifiableError
from . import value_files
from .backends import OnnxRuntime
from .sessions import SessionConfig
from .worker_process import Message, serve


def serve_sessions() -> None:
    """Reply to requests, until the input ends."""
    held: dict[int, OnnxRuntime] = {}

    def reply(request: Message) -> Iterable[Message]:
        if request["session"] not in held:
            held.clear()
            gc.collect()  # memory of the one before
            held[request["session"]] = _load_session(request)
        if "feeds" in request:
            _run(held[request["session"]], request)
        return ()

    serve(reply, (EvaluationError, UnverifiableError))


def _load_session(request: Message) -> OnnxRuntime:
    model = Path(request["bytes"]).read_bytes() if "bytes" in request else Path(request["path"])
    folder = None if request["folder"] is None else Path(request["folder"])
    return OnnxRuntime(model, SessionConfig(**request["setting"]), folder=folder)


def _run(session: OnnxRuntime, request: Message) -> None:
    results = session.run(request["outputs"], value_files.read_value(Path(request["feeds"])), request["limit"])
    value_files.write_value(results, Path(request["results"]))


if __name__ == "__main__":
    serve_sessions()
