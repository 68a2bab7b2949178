"""Backend with sessions in a worker process, where crashes and hangs become errors."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from ..errors import EvaluationError, ModelLoadError, UnverifiableError
from . import value_files
from .backends import Arrays, OnnxRuntime
from .sessions import UNOPTIMIZED, Loadable, SessionConfig
from .worker_process import Message, RequestFailed, WorkerExit, WorkerProcess, module_command, serve

LOAD_TIMEOUT = 300.0  # seconds to load a model
TERMINATION_GRACE = 10.0  # seconds for a run to stop after its timeout


@dataclass(slots=True)
class RemoteBackend:
    """A `Backend`: onnxruntime under a `config`, one session at a time, in a process that is started when needed.

    Another session replaces the first. Use it as a context manager. `crashes` counts crashed and killed processes;
    `_written` is the model given last as bytes, and its file.
    """

    config: SessionConfig = UNOPTIMIZED
    timeout: float = LOAD_TIMEOUT
    command: tuple[str, ...] = module_command(__spec__.name)
    crashes: int = field(default=0, init=False)
    folder: TemporaryDirectory[str] = field(default_factory=TemporaryDirectory[str], init=False)
    _process: WorkerProcess = field(init=False)
    _numbers: count[int] = field(default_factory=count, init=False)
    _written: tuple[bytes, Path] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._process = WorkerProcess(self.command, self.timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self.folder.cleanup()

    def __call__(
        self, model: Loadable, *, folder: Path | None = None, config: SessionConfig | None = None
    ) -> RemoteSession:
        """Load a model, under another `config` if given; `folder` has the weights of one given as bytes.

        Raises ModelLoadError.
        """
        if not isinstance(model, bytes):
            kind, path = "path", model.absolute()
        else:
            if self._written is None or self._written[0] is not model:
                self._written = model, Path(self.folder.name) / f"{next(self._numbers)}.onnx"
                self._written[1].write_bytes(model)
            kind, path = "bytes", self._written[1]
        load_request = {
            "session": next(self._numbers),
            kind: str(path),
            "folder": None if folder is None else str(folder.absolute()),
            "setting": asdict(config or self.config),
        }
        try:
            self.request(load_request, self.timeout)
        except RequestFailed as e:
            raise ModelLoadError(str(e)) from e
        except WorkerExit as e:
            raise ModelLoadError(f"{e.describe('onnxruntime')} as it loads it") from e
        return RemoteSession(self, load_request)

    def request(self, message: Message, timeout: float) -> None:
        """Load or run a session. Raises RequestFailed or WorkerExit."""
        try:
            self._process.request(message, timeout)
        except WorkerExit:
            self.crashes += 1
            raise


@dataclass(slots=True)
class RemoteSession:
    """A model in the process of a backend: a `Session`."""

    backend: RemoteBackend
    load_request: dict[str, Any]
    name: str = "onnxruntime"

    def run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None = None) -> list[Any]:
        """Run once, for at most `timeout` seconds. Raises EvaluationError, UnverifiableError for odd values."""
        allowed = self.backend.timeout if timeout is None else timeout + TERMINATION_GRACE
        with TemporaryDirectory(dir=self.backend.folder.name) as folder:
            given, results = Path(folder) / "feeds", Path(folder) / "results"
            value_files.write_value(dict(feeds), given)
            run = {"feeds": str(given), "outputs": list(outputs), "results": str(results), "limit": timeout}
            try:
                self.backend.request(self.load_request | run, allowed)
            except RequestFailed as e:
                raise EvaluationError(str(e)) from e
            except WorkerExit as e:
                raise EvaluationError(e.describe("onnxruntime")) from e
            return value_files.read_value(results)


def serve_sessions() -> None:
    """Reply to requests, until the input ends.

    A request names the session, with the model and config to make it of unless it is the current one; with `feeds` it
    is run.
    """
    current: dict[int, OnnxRuntime] = {}

    def reply(request: Message) -> Iterable[Message]:
        if request["session"] not in current:
            current.clear()
            gc.collect()  # memory of the previous one
            model = Path(request["bytes"]).read_bytes() if "bytes" in request else Path(request["path"])
            folder = None if request["folder"] is None else Path(request["folder"])
            current[request["session"]] = OnnxRuntime(model, SessionConfig(**request["setting"]), folder=folder)
        if "feeds" in request:
            feeds = value_files.read_value(Path(request["feeds"]))
            results = current[request["session"]].run(request["outputs"], feeds, request["limit"])
            value_files.write_value(results, Path(request["results"]))
        return ()

    serve(reply, (EvaluationError, UnverifiableError))


if __name__ == "__main__":
    serve_sessions()
