"""Other tools as passes that run in a worker process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pickle import PickleBuffer

from msgspec import Struct

from ...core import ChangeLog, Graph
from ...core.errors import FailureKind, PassFailed
from ...core.io.foreign_models import main_graph_model, plan_merge
from ...core.io.model import MAX_MESSAGE_BYTES, SerializedModel, serialize
from ...core.ir.tensor import chunk_bytes
from ...core.processes.worker_process import RequestFailed, WorkerExit, WorkerProcess, module_command
from .tool_worker import ToolFailed, ToolWorker

TIMEOUT = 240.0  # seconds for a run of a tool, less than the manager allows a pass
CACHE_BYTES = 256 << 20  # bytes of cached results


class ToolResult(Struct, frozen=True):
    """The serialized result of a tool, or the reason why there is none."""

    model: bytes = b""
    why: FailureKind | None = None
    message: str = ""


@dataclass(slots=True)
class ToolProcess:
    """Runs of a `function` of a model and an option, given as `module:function`.

    Results are cached: replays do not repeat runs, and a nondeterministic tool cannot mislead the search for wrong
    changes.
    """

    function: str
    timeout: float = TIMEOUT
    _process: WorkerProcess[ToolWorker] = field(init=False, repr=False)
    _cached: dict[bytes, ToolResult] = field(default_factory=dict[bytes, ToolResult], init=False, repr=False)

    def __post_init__(self) -> None:
        self._process = WorkerProcess(module_command(f"{__package__}.tool_worker"), self.timeout, memory=None)

    def run(self, model: SerializedModel, option: str) -> ToolResult:
        """Return the tool's result for `model`."""
        if model.size > MAX_MESSAGE_BYTES:
            return ToolResult(why=FailureKind.RAISED, message="it cannot process a model over 2 GB")
        chunks, hashed = [PickleBuffer(chunk_bytes(c)) for c in model.chunks()], blake2b(option.encode())
        for chunk in chunks:
            hashed.update(chunk)
        if (key := hashed.digest()) not in self._cached:
            self._cached[key] = self._call(chunks, option)
        result = self._cached[key]
        while len(self._cached) > 1 and sum(len(a.model) for a in self._cached.values()) > CACHE_BYTES:
            del self._cached[next(iter(self._cached))]
        return result

    def _call(self, model: Sequence[PickleBuffer], option: str) -> ToolResult:
        try:
            return ToolResult(self._process.call(retry=True).call(self.function, model, option))
        except (ToolFailed, RequestFailed) as e:
            self._process.terminate()  # a C++ assertion that became an exception may leave an invalid state
            return ToolResult(why=FailureKind.RAISED, message=str(e))
        except WorkerExit as e:
            return ToolResult(why=FailureKind.ENDLESS if e.code is None else FailureKind.RAISED, message=str(e))


@dataclass(frozen=True, slots=True)
class ToolPass:
    """Replaces the model by the tool's result, as one change with rounding."""

    name: str
    _process: ToolProcess = field(compare=False)
    _option: str = ""
    _allowed_domains: tuple[str, ...] = ()  # that the result may add

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Run the tool. Raises PassFailed if it fails, or if its result cannot be merged."""
        if not change_log.may_change(self.name, "", exact=False):
            return 0
        result = self._process.run(serialize(main_graph_model(graph)), self._option)
        if result.why is not None:
            raise PassFailed(self.name, result.why, f"{self.name}: {result.message}")
        merge = plan_merge(self.name, graph, result.model, self._allowed_domains)
        if merge.is_no_op or not change_log.request_change(self.name, "", merge.removed_ops, exact=False):
            return 0
        merge.apply(self.name)
        return 1
