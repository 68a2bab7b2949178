"""Reports of profiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...core.ort.engines import ONNXRUNTIME, SINGLE
from ..report.notebook import report_card, report_json, report_line


class NodeTime(Struct, frozen=True):
    """A node that the engine ran; times are seconds of one run, without its bodies.

    Attributes:
        provider: the execution provider of onnxruntime, or the kernel of another engine.
        file_nodes: the nodes of the profiled file that it implements.
        origin: the nodes of the original from which those were made.
        rule: our rewrite that made them, or "".
        start: seconds after the first node of the run in the timeline.
        calls: the calls in one run, which together take `seconds`.
        written: the bytes of its results in the first run of a session.
        allocated: the bytes allocated for them; less if it writes into the memory of an operand.
        is_copy: it only moves data into other memory.
    """

    name: str
    op: str
    provider: str
    seconds: float
    start: float
    file_nodes: tuple[str, ...] = ()
    origin: tuple[str, ...] = ()
    rule: str = ""
    calls: float = 1.0
    written: int = 0
    allocated: int = 0
    is_copy: bool = False


class LoadTimes(Struct, frozen=True):
    """The parts of a session's start in seconds: to `read` the file, `optimize` the graph, and pack weights.

    `initialize` is the rest: kernels, placement of weights, and the order of ops. The `first_run` also allocates and
    plans memory.
    """

    read: float
    optimize: float
    pack: float
    initialize: float
    first_run: float


class TypeTime(Struct, frozen=True):
    """The nodes of one type: their number, and their calls and seconds in one run."""

    op: str
    nodes: int
    calls: float
    seconds: float


class Profile(Struct, frozen=True):
    """The profile of one model: a run takes `seconds`, of which `node_seconds` in nodes. `trace` is the file.

    Times are medians over all `runs`, of each node and of the time outside nodes, and sums of these, so that other load
    has little effect. `nodes` and `types` are sorted, slowest first. `eliminated_nodes` are the file's nodes without an
    executed node: the engine folded them, merged them into equal ones, or removed them. `precision` is the one in which
    the engine computes. `loading` is the start of a session, and `peak` the largest number of bytes in use in its first
    run, without weights; None and 0 if the engine does not report them.
    """

    label: str
    runs: int
    seconds: float
    node_seconds: float
    nodes: list[NodeTime]
    types: list[TypeTime]
    trace: Path | None = None
    eliminated_nodes: tuple[str, ...] = ()
    precision: str = SINGLE
    loading: LoadTimes | None = None
    peak: int = 0

    @property
    def copies(self) -> list[NodeTime]:
        """The nodes that only move data into other memory."""
        return [n for n in self.nodes if n.is_copy]

    @property
    def outside(self) -> float:
        """Seconds of a run outside nodes."""
        return max(self.seconds - self.node_seconds, 0.0)


@dataclass(slots=True)
class ProfileReport:
    """The profiles of the original and, if it was optimized, of the result, in an `engine`.

    `level` is the level of onnxruntime's own optimization, `sizes` those of symbolic dims except the `batch`;
    `rejected` describes our wrong changes, one per line.

    Examples:
        >>> report = profile("model.onnx", min_time=0.01, threads=1)
        >>> report.before.seconds > 0
        True
    """

    source: str
    before: Profile
    after: Profile | None
    level: str
    provider: str
    threads: int
    sizes: dict[str, int]
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    rejected: list[str] = field(default_factory=list[str])
    note: str = ""
    batch: int = 1
    engine: str = ONNXRUNTIME
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def profiles(self) -> list[Profile]:
        """The profile before optimization and, if there is one, the profile after it."""
        return [self.before] if self.after is None else [self.before, self.after]

    def times_by_op(self) -> list[tuple[str, list[TypeTime | None]]]:
        """Each op type with its time in each of the `profiles`, None if it does not occur; slowest first."""
        sides = [{t.op: t for t in p.types} for p in self.profiles]
        slowest = {op: max(types[op].seconds for types in sides if op in types) for types in sides for op in types}
        ops = sorted(slowest, key=lambda op: (-slowest[op], op))
        return [(op, [types.get(op) for types in sides]) for op in ops]

    to_json, __repr__, _repr_html_ = report_json, report_line, report_card
