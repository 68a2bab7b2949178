"""What profiles of a model came to, as data."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class NodeTime:
    """A node as onnxruntime ran it: seconds of one run, without what ran in its bodies.

    `file_nodes`: the nodes of the file that was profiled which it does the work of, `origin`: the nodes of the original
    model behind those, `rule`: the rewrite of ours that made it, "" if none did. `start`: seconds after the first node
    of the run that the timeline shows. `calls`: how often it ran in one run, which takes all of `seconds`.
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


@dataclass(frozen=True, slots=True)
class TypeTime:
    """All nodes of one type: how many, how often they ran in one run, their seconds of one run in all."""

    op: str
    nodes: int
    calls: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Profile:
    """One model: a run takes `seconds`, of which `node_seconds` are spent in nodes. `trace` is the file.

    Times are medians over all `runs`, of each node and of what is outside nodes, and sums of those: a run that nothing
    else holds up, however often other programs did.

    `nodes` and `types` come with what took longest first. `eliminated_nodes` are the nodes of the file that nothing
    which ran stands for: onnxruntime computed them ahead, merged them into equal ones or left them out.
    """

    label: str
    runs: int
    seconds: float
    node_seconds: float
    nodes: list[NodeTime]
    types: list[TypeTime]
    trace: Path | None = None
    eliminated_nodes: tuple[str, ...] = ()

    @property
    def outside(self) -> float:
        """Seconds of a run that were not spent in nodes."""
        return max(self.seconds - self.node_seconds, 0.0)


@dataclass(slots=True)
class ProfileReport:
    """The profiles of the original and, where it was optimized, of the result.

    `level` is that of onnxruntime's own optimization, `sizes` are those of symbolic dims, `batch` aside; `quarantined`
    tells of changes of ours that were wrong, in a line each.
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
    quarantined: list[str] = field(default_factory=list[str])
    note: str = ""
    batch: int = 1

    @property
    def profiles(self) -> list[Profile]:
        """One or both."""
        return [self.before] if self.after is None else [self.before, self.after]

    def to_json(self) -> str:
        """The profiles as JSON text."""
        return json.dumps(asdict(self), indent=1, allow_nan=False, default=str)
