"""Runs of a tool in a worker process."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...core.errors import FailureKind
from ...core.io.model import MAX_MESSAGE_BYTES, SerializedModel
from ...core.ort.worker_process import RequestFailed, WorkerExit, WorkerProcess, module_command

TIMEOUT = 240.0  # seconds for an answer; before the manager takes the pass for stuck
WORKER = f"{__package__}.tool_worker"
CACHE_BYTES = 256 << 20  # bytes of answers


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The serialized result of a tool, or the reason for which there is none."""

    model: bytes = b""
    why: FailureKind | None = None
    message: str = ""


@dataclass(slots=True)
class ToolProcess:
    """`function` names a function of a model and an option, as `module:function`.

    The same question has the same answer. So a replay costs no second run of the tool, and a tool that does not do the
    same twice cannot mislead the search for what is wrong.
    """

    function: str
    timeout: float = TIMEOUT
    _process: WorkerProcess = field(init=False, repr=False)
    _cached: dict[bytes, ToolResult] = field(default_factory=dict[bytes, ToolResult], init=False, repr=False)

    def __post_init__(self) -> None:
        self._process = WorkerProcess(module_command(WORKER), self.timeout)

    def run(self, model: SerializedModel, option: str) -> ToolResult:
        """The result of the tool for `model`."""
        if model.size > MAX_MESSAGE_BYTES:
            return ToolResult(why=FailureKind.RAISED, message="it cannot be given a model over 2 GB")
        key = blake2b(option.encode())
        with TemporaryDirectory() as folder:
            sent = Path(folder) / "sent.onnx"
            with sent.open("wb") as f:
                for chunk in model.chunks():
                    f.write(chunk)
                    key.update(chunk)
            known = self._cached.get(key.digest())
            if known is not None:
                return known
            found = self._request(
                {"call": self.function, "option": option, "sent": str(sent), "back": f"{folder}/back.onnx"}
            )
        return self._cache(key.digest(), found)

    def _request(self, request: dict[str, Any]) -> ToolResult:
        try:
            self._process.request(request, retry=True)
        except RequestFailed as e:
            self._process.terminate()  # an assertion of C++ that became an exception leaves anything behind
            return ToolResult(why=FailureKind.RAISED, message=str(e))
        except WorkerExit as e:
            return ToolResult(why=FailureKind.ENDLESS if e.code is None else FailureKind.RAISED, message=str(e))
        return ToolResult(Path(request["back"]).read_bytes())

    def _cache(self, key: bytes, result: ToolResult) -> ToolResult:
        self._cached[key] = result
        while len(self._cached) > 1 and sum(len(a.model) for a in self._cached.values()) > CACHE_BYTES:
            del self._cached[next(iter(self._cached))]
        return result
