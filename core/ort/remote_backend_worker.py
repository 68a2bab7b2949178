"""The process that sessions of remote.py live in: `python -m <this module>` answers questions, a line of JSON each.

A question says which session is meant, and how to make it if it is not the one that there is; with `feeds` it is run.
The answer has the `failure`, null for none.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import EvaluationError, UnverifiableError
from . import value_files
from .backends import OnnxRuntime
from .sessions import SessionConfig
from .worker_process import serve


def serve_sessions() -> None:
    """Answer what comes on standard input, until it ends."""
    held: dict[int, OnnxRuntime] = {}

    def answer(question: dict[str, Any]) -> Iterator[dict[str, Any]]:
        try:
            if question["session"] not in held:
                held.clear()
                gc.collect()  # memory of the one before
                held[question["session"]] = _load_session(question)
            if "feeds" in question:
                _run(held[question["session"]], question)
        except (EvaluationError, UnverifiableError) as e:
            yield {"failure": str(e)}
        else:
            yield {"failure": None}

    serve(answer)


def _load_session(question: dict[str, Any]) -> OnnxRuntime:
    model = Path(question["bytes"]).read_bytes() if "bytes" in question else Path(question["path"])
    folder = None if question["folder"] is None else Path(question["folder"])
    return OnnxRuntime(model, SessionConfig(**question["setting"]), folder=folder)


def _run(session: OnnxRuntime, question: dict[str, Any]) -> None:
    results = session.run(question["outputs"], value_files.read_value(Path(question["feeds"])), question["limit"])
    value_files.write_value(results, Path(question["results"]))


if __name__ == "__main__":
    serve_sessions()
