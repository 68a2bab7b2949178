"""Profiles as one file for chrome://tracing and Perfetto, in the Trace Event Format: each model a process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import ModelError
from ..measure.profile_trace import Kernel, Run
from .profile_builder import Joined, key_of

SHOWN = 10  # runs of each model, from the typical one on
MICRO = 1e6


def write_timeline(profiles: Sequence[Joined], told: dict[str, str], path: Path) -> None:
    """Write some runs of each profile, all beginning at 0. Raises ModelError if that cannot be done."""
    events = [event for i, joined in enumerate(profiles, 1) for event in _events(joined, i)]
    trace = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": told}
    try:
        path.write_text(json.dumps(trace, allow_nan=False, separators=(",", ":")) + "\n", encoding="utf-8")
    except OSError as e:
        raise ModelError(f"cannot write {path}: {e.strerror}") from e


def _events(joined: Joined, process: int) -> Iterator[dict[str, Any]]:
    place = {"pid": process, "tid": process}
    for what, name in (("process_name", joined.profile.label), ("thread_name", "nodes")):
        yield {"ph": "M", "name": what, "ts": 0, **place, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "ts": 0, **place, "args": {"sort_index": process}}
    first = min(joined.shown, max(len(joined.runs) - SHOWN, 0))
    chosen = joined.runs[first : first + SHOWN]
    for number, run in enumerate(chosen, first):
        begin = run.start - chosen[0].start
        yield _span(f"run {number}", "run", begin, begin + run.seconds) | place | {"args": {"nodes": len(run.kernels)}}
        for kernel, end in _ends(run):
            span = _span(kernel.name, "node", begin + kernel.start, begin + end)
            yield span | place | {"args": _told(joined, run, kernel)}


def _ends(run: Run) -> Iterator[tuple[Kernel, float]]:
    """Each kernel with its end, which is no later than that of what it runs in: times come cut to microseconds."""
    ends = [run.seconds]
    for kernel in run.kernels:
        while len(ends) > 1 and ends[-1] <= kernel.start:
            ends.pop()
        ends.append(min(kernel.start + kernel.seconds, ends[-1]))
        yield kernel, ends[-1]


def _span(name: str, category: str, begin: float, end: float) -> dict[str, Any]:
    start = round(begin * MICRO, 3)
    return {"ph": "X", "name": name, "cat": category, "ts": start, "dur": max(round(end * MICRO - start, 3), 0.0)}


def _told(joined: Joined, run: Run, kernel: Kernel) -> dict[str, Any]:
    node = joined.nodes[key_of(kernel)]
    told = {"stands_for": list(node.stands_for), "origin": list(node.origin), "rule": node.rule}
    share = kernel.own / run.seconds if run.seconds else 0.0
    own = {"own_us": round(kernel.own * MICRO, 3), "share": round(share, 6)}
    return {"op": kernel.op, "provider": kernel.provider, **own, **told}
