"""Traces of onnxruntime's profiler: lists of events in the format of chrome://tracing.

A run is a Session event `model_run`, the execution of an op a Node event `NAME_kernel_time`. Bodies run within the
time of their op, on its thread. Other events, such as those of a GPU's own profiler, are ignored: on a GPU, the times
of nodes are those of launching them. Reading and initializing the model are also Session events. A Node event has the
number of bytes that the arena allocated during the op: in the first run for each value, later for the whole run at
once, because the memory plan is known. Observed with onnxruntime 1.23.2, which does not report the arena, 1.30.0 and
1.31.1.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from ...core.errors import EvaluationError

if TYPE_CHECKING:  # benchmark_worker imports this module, and must import little of the package
    from ...core.ir.graph import Graph

KERNEL_SUFFIX = "_kernel_time"
RUN_EVENT = "model_run"
READ_EVENT, INITIALIZE_EVENT = "model_loading_", "session_initialization"  # the first is followed by the kind of source
UNESCAPED_NAME = re.compile(r'"name" :"(.*?)","args" :', re.DOTALL)
MICRO = 1e-6
KernelKey = tuple[str, str, str, int]


class KernelExecution(Struct, frozen=True):
    """One execution of a node: `start` in seconds from the beginning of the run, `self_seconds` without its subgraphs.

    `index` is onnxruntime's number of the node in its graph, -1 if unknown. In bytes: `written` is the size of its
    results, `allocated` the memory that the arena allocated for them, and `held` the memory in use afterwards.
    """

    name: str
    op: str
    provider: str
    index: int
    start: float
    seconds: float
    self_seconds: float
    written: int = 0
    allocated: int = 0
    held: int = 0

    @property
    def key(self) -> KernelKey:
        """The identity of the node; onnxruntime numbers the nodes of each body from 0."""
        return self.name, self.op, self.provider, self.index


class ProfiledRun(Struct, frozen=True):
    """One run of the model: its start, its duration, and its kernels ordered by start."""

    start: float
    seconds: float
    kernels: tuple[KernelExecution, ...]

    @property
    def node_seconds(self) -> float:
        """Seconds spent in nodes."""
        return sum(k.self_seconds for k in self.kernels)


def make_node_names_unique(graph: Graph) -> None:
    """Give each node a unique name: the name of its first output if it has none; add a number if it is a duplicate."""
    ops = [op for g in graph.with_subgraphs() for op in g.sorted_ops()]
    taken = {op.name for op in ops}
    seen: set[str] = set()
    for op in ops:
        stem = op.name or next((v.name for v in op.outputs if v.name), op.type)
        if not op.name or op.name in seen:
            numbered = (f"{stem} #{n}" for n in count(2))
            op.name = next(name for name in chain([stem], numbered) if name not in taken)
        taken.add(op.name)
        seen.add(op.name)


def read_trace(path: Path) -> list[ProfiledRun]:
    """The runs in a trace. Raises EvaluationError for other files."""
    return parse_runs(read_events(path))


def read_events(path: Path) -> list[Any]:
    """All events in a trace. Raises EvaluationError for other files."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        try:
            events = json.loads(text, strict=False)
        except ValueError:  # onnxruntime 1.23 does not escape names
            events = json.loads(UNESCAPED_NAME.sub(lambda m: f'"name" :{json.dumps(m[1])},"args" :', text))
    except (OSError, ValueError) as e:
        raise EvaluationError(f"onnxruntime's profile cannot be read: {e}") from e
    if not isinstance(events, list):
        raise EvaluationError("onnxruntime's profile is not a list of events")
    return cast("list[Any]", events)


def loading_seconds(events: Iterable[Any]) -> tuple[float, float] | None:
    """The seconds to read a model and to initialize its session; None without such events."""
    timed = [(str(e.get("name")), e["dur"] * MICRO) for e in events if _is_timed(e) and e.get("cat") == "Session"]
    read = [seconds for name, seconds in timed if name.startswith(READ_EVENT)]
    initialized = [seconds for name, seconds in timed if name == INITIALIZE_EVENT]
    return (sum(read), sum(initialized)) if read and initialized else None


def parse_runs(events: Iterable[Any]) -> list[ProfiledRun]:
    """The runs among events, in order, without the nodes of an incomplete last run."""
    timed = sorted((e for e in events if _is_timed(e)), key=lambda e: e["ts"])
    spans = [e for e in timed if e.get("cat") == "Session" and e.get("name") == RUN_EVENT]
    nodes = [e for e in timed if e.get("cat") == "Node" and str(e.get("name", "")).endswith(KERNEL_SUFFIX)]
    starts = [node["ts"] for node in nodes]
    runs: list[ProfiledRun] = []
    begin = 0
    for span in spans:
        begin = bisect_left(starts, span["ts"], begin)
        end = bisect_right(starts, _end(span), begin)
        runs.append(ProfiledRun(span["ts"] * MICRO, span["dur"] * MICRO, _parse_kernels(span["ts"], nodes[begin:end])))
        begin = end
    return runs


def _is_timed(event: Any) -> bool:
    if not isinstance(event, dict):
        return False
    return all(isinstance(cast("Mapping[str, Any]", event).get(key), int | float) for key in ("ts", "dur"))


def _end(event: Mapping[str, Any]) -> float:
    return event["ts"] + event["dur"]


def _parse_kernels(begin: float, nodes: list[Mapping[str, Any]]) -> tuple[KernelExecution, ...]:
    """The nodes of a run as kernels. A node that begins before another one on its thread ends runs inside that one."""
    order = sorted(range(len(nodes)), key=lambda i: (nodes[i]["ts"], -nodes[i]["dur"], -i))  # outer nodes come last
    inside = [0.0] * len(nodes)
    open_on: dict[Any, list[int]] = {}
    for i in order:
        stack = open_on.setdefault(nodes[i].get("tid"), [])
        while stack and _end(nodes[stack[-1]]) <= nodes[i]["ts"]:
            stack.pop()
        if stack:
            inside[stack[-1]] += nodes[i]["dur"]
        stack.append(i)
    return tuple(_parse_kernel(nodes[i], begin, inside[i]) for i in order)


def _parse_kernel(event: Mapping[str, Any], begin: float, inside: float) -> KernelExecution:
    args: Any = event.get("args")
    known = cast("Mapping[str, Any]", args if isinstance(args, dict) else {})
    index = str(known.get("node_index", ""))
    sizes = (str(known.get(name)) for name in ("output_size", "mem_in_use_delta", "mem_bytes_in_use"))
    return KernelExecution(
        event["name"].removesuffix(KERNEL_SUFFIX),
        str(known.get("op_name", "")),
        str(known.get("provider", "")),
        int(index) if index.isdecimal() else -1,
        (event["ts"] - begin) * MICRO,
        event["dur"] * MICRO,
        max(event["dur"] - inside, 0) * MICRO,
        *(int(size) if size.isdecimal() else 0 for size in sizes),  # if more was freed than allocated, it is negative
    )
