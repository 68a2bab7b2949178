"""Timelines for chrome://tracing and Perfetto, in the Trace Event Format, with a process for each model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import ModelError
from ..measure.profile_trace import KernelExecution, ProfiledRun
from .profile_builder import RecordedProfile, kernel_key

MAX_RUNS = 10  # runs of each model, from the median one on
MICROSECONDS_PER_SECOND = 1e6


def write_timeline(profiles: Sequence[RecordedProfile], metadata: dict[str, str], path: Path) -> None:
    """Write some runs of each profile, all beginning at 0. Raises ModelError if the file cannot be written."""
    events = [event for i, recorded in enumerate(profiles, 1) for event in _events(recorded, i)]
    trace = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": metadata}
    try:
        path.write_text(json.dumps(trace, allow_nan=False, separators=(",", ":")) + "\n", encoding="utf-8")
    except OSError as e:
        raise ModelError(f"cannot write {path}: {e.strerror}") from e


def _events(recorded: RecordedProfile, process: int) -> Iterator[dict[str, Any]]:
    place = {"pid": process, "tid": process}
    names = {"process_name": {"name": recorded.profile.label}, "thread_name": {"name": "nodes"}}
    for name, args in (names | {"process_sort_index": {"sort_index": process}}).items():
        yield {"ph": "M", "name": name, "ts": 0, **place, "args": args}
    first = min(recorded.timeline_run, max(len(recorded.runs) - MAX_RUNS, 0))
    chosen = recorded.runs[first : first + MAX_RUNS]
    for number, run in enumerate(chosen, first):
        begin = run.start - chosen[0].start
        yield _span(f"run {number}", "run", begin, begin + run.seconds) | place | {"args": {"nodes": len(run.kernels)}}
        for kernel, end in _kernel_ends(run):
            span = _span(kernel.name, "node", begin + kernel.start, begin + end)
            yield span | place | {"args": _kernel_args(recorded, run, kernel)}


def _kernel_ends(run: ProfiledRun) -> Iterator[tuple[KernelExecution, float]]:
    """Each kernel with its end, cut to that of the op whose body it is in: times are rounded to microseconds."""
    ends = [run.seconds]
    for kernel in run.kernels:
        while len(ends) > 1 and ends[-1] <= kernel.start:
            ends.pop()
        ends.append(min(kernel.start + kernel.seconds, ends[-1]))
        yield kernel, ends[-1]


def _span(name: str, category: str, begin: float, end: float) -> dict[str, Any]:
    start = round(begin * MICROSECONDS_PER_SECOND, 3)
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "ts": start,
        "dur": max(round(end * MICROSECONDS_PER_SECOND - start, 3), 0.0),
    }


def _kernel_args(recorded: RecordedProfile, run: ProfiledRun, kernel: KernelExecution) -> dict[str, Any]:
    node = recorded.nodes[kernel_key(kernel)]
    return {
        "op": kernel.op,
        "provider": kernel.provider,
        "own_us": round(kernel.self_seconds * MICROSECONDS_PER_SECOND, 3),
        "share": round(kernel.self_seconds / run.seconds if run.seconds else 0.0, 6),
        "file_nodes": list(node.file_nodes),
        "origin": list(node.origin),
        "rule": node.rule,
    }
