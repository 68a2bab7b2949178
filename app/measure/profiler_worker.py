"""Worker of profile_recording, which runs a model under onnxruntime's profiler: `python -m <this module>`.

The reply names the file of the profile, and how many of its first runs only warm up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from ...core.errors import EvaluationError, ModelLoadError
from ...core.ort import value_files
from ...core.ort.backends import OnnxRuntime
from ...core.ort.sessions import SessionConfig
from ...core.ort.worker_process import serve
from .profile_trace import read_trace

WARMUP_RUNS = 3  # runs of a new session that do not count
MIN_RUNS, MAX_RUNS = 3, 2000  # runs that do
TOO_MANY_EVENTS = "one run has more events than onnxruntime's profiler takes"
MAX_EVENTS = 50_000  # of a profile; onnxruntime drops those beyond a million, and writes up to 2 kB for each


def profile_replies(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The one part of the reply to `request`, see `record_profile`. Raises EvaluationError."""
    config = SessionConfig(**request["setting"])
    folder = Path(request["folder"]) if request["folder"] else None
    model = Path(request["model"])
    loadable = model.read_bytes() if folder is not None else model
    feeds = value_files.read_value(Path(request["feeds"]))
    outputs: list[str] = request["outputs"]
    pilot, saved = _saving_session(loadable, config, folder)
    pilot.run(outputs, feeds)
    first = read_trace(pilot.end_profile())
    del pilot
    if not first:
        raise EvaluationError(TOO_MANY_EVENTS)
    session = OnnxRuntime(loadable, replace(config, optimized_model_path=""), folder=folder)
    for _ in range(WARMUP_RUNS):
        session.run(outputs, feeds)
    repeat(lambda: session.run(outputs, feeds), request["min_time"], max_runs(len(first[0].kernels)))
    yield {"trace": str(session.end_profile()), "warm": WARMUP_RUNS, "saved": saved}


def _saving_session(model: Any, config: SessionConfig, folder: Path | None) -> tuple[OnnxRuntime, bool]:
    """A first session, and whether it wrote what it made of the model: providers that compile nodes cannot."""
    try:
        return OnnxRuntime(model, config, folder=folder), True
    except ModelLoadError:
        return OnnxRuntime(model, replace(config, optimized_model_path=""), folder=folder), False


def max_runs(kernels: int) -> int:
    """How many runs of so many kernels a profile has room for, those that warm up aside."""
    return max(MIN_RUNS, min(MAX_RUNS, MAX_EVENTS // max(kernels, 1) - WARMUP_RUNS))


def repeat(
    run: Callable[[], object], seconds: float, max_calls: int, clock: Callable[[], float] = perf_counter
) -> None:
    """Call `run` for so many seconds: three times at least, and not more often than `max_calls`."""
    end = clock() + seconds
    for n in range(max_calls):
        if n >= MIN_RUNS and clock() >= end:
            return
        run()


if __name__ == "__main__":
    serve(profile_replies, (EvaluationError,))
