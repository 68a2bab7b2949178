"""The process that runs a model under onnxruntime's profiler: `python -m <this module>`; recording.py asks it.

It answers a question with the file that the profile is in and how many runs at its beginning only warm up, or with
what failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from ...core.errors import CannotLoad, EvaluationError
from ...core.ort import value_files
from ...core.ort.backends import OnnxRuntime
from ...core.ort.sessions import Setting
from ...core.ort.worker_process import serve
from .profile_trace import read_trace

WARM = 3  # runs of a new session that do not count
LEAST, MOST = 3, 2000  # runs that do
TOO_MANY = "one run has more events than onnxruntime's profiler takes"
EVENTS = 50_000  # of a profile; onnxruntime drops those beyond a million, and writes up to 2 kB for each


def profiled(question: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The answer; `question` is what `record` puts together."""
    setting = Setting(**question["setting"])
    folder = Path(question["folder"]) if question["folder"] else None
    model = Path(question["model"])
    loadable = model.read_bytes() if folder is not None else model
    feeds = value_files.read(Path(question["feeds"]))
    outputs: list[str] = question["outputs"]
    try:
        pilot, saved = _pilot(loadable, setting, folder)
        pilot.run(outputs, feeds)
        first = read_trace(pilot.end_profile())
        del pilot
        if not first:
            yield {"failure": TOO_MANY}
            return
        session = OnnxRuntime(loadable, replace(setting, saves=""), folder=folder)
        for _ in range(WARM):
            session.run(outputs, feeds)
        repeat(lambda: session.run(outputs, feeds), question["min_time"], most_runs(len(first[0].kernels)))
        yield {"trace": str(session.end_profile()), "warm": WARM, "saved": saved}
    except EvaluationError as e:
        yield {"failure": str(e)}


def _pilot(model: Any, setting: Setting, folder: Path | None) -> tuple[OnnxRuntime, bool]:
    """A first session, and whether it wrote what it made of the model: providers that compile nodes cannot."""
    try:
        return OnnxRuntime(model, setting, folder=folder), True
    except CannotLoad:
        return OnnxRuntime(model, replace(setting, saves=""), folder=folder), False


def most_runs(kernels: int) -> int:
    """How many runs of so many kernels a profile has room for, those that warm up aside."""
    return max(LEAST, min(MOST, EVENTS // max(kernels, 1) - WARM))


def repeat(run: Callable[[], object], seconds: float, most: int, clock: Callable[[], float] = perf_counter) -> None:
    """Call `run` for so many seconds: three times at least, and not more often than `most`."""
    end = clock() + seconds
    for n in range(most):
        if n >= LEAST and clock() >= end:
            return
        run()


if __name__ == "__main__":
    serve(profiled)
