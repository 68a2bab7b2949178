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

    Another session replaces the first. To be closed, as a context. `crashes`: how often the process crashed or was
    killed.
    """

    config: SessionConfig = UNOPTIMIZED
    timeout: float = LOAD_TIMEOUT
    command: tuple[str, ...] = module_command(__spec__.name)
    crashes: int = field(default=0, init=False)
    _folder: TemporaryDirectory[str] = field(init=False)
    _process: WorkerProcess = field(init=False)
    _numbers: count[int] = field(default_factory=count, init=False)
    _written: tuple[bytes, Path] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._folder = TemporaryDirectory()
        self._process = WorkerProcess(self.command, self.timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._folder.cleanup()

    def __call__(
        self, model: Loadable, *, folder: Path | None = None, config: SessionConfig | None = None
    ) -> RemoteSession:
        """A session, under another `config` if given; `folder` is where weights of a model given as bytes are.

        Raises ModelLoadError.
        """
        kind, path = ("bytes", self._message_file(model)) if isinstance(model, bytes) else ("path", model.absolute())
        question = {
            "session": next(self._numbers),
            kind: str(path),
            "folder": None if folder is None else str(folder.absolute()),
            "setting": asdict(config or self.config),
        }
        session = RemoteSession(self, question)
        session.load()
        return session

    def request(self, message: Message, timeout: float) -> None:
        """Load or run a session. Raises RequestFailed or WorkerExit."""
        try:
            self._process.request(message, timeout)
        except WorkerExit:
            self.crashes += 1
            raise

    def exchange_folder(self) -> TemporaryDirectory[str]:
        """A folder for what goes in and what comes out."""
        return TemporaryDirectory(dir=self._folder.name)

    def _message_file(self, model: bytes) -> Path:
        """Where a message is; one that was asked for just before is there already."""
        if self._written is None or self._written[0] is not model:
            self._written = model, Path(self._folder.name) / f"{next(self._numbers)}.onnx"
            self._written[1].write_bytes(model)
        return self._written[1]


@dataclass(slots=True)
class RemoteSession:
    """A model in that process, with the protocol of a `Session`."""

    backend: RemoteBackend
    load_request: dict[str, Any]
    name: str = "onnxruntime"

    def load(self) -> None:
        """Have it loaded. Raises ModelLoadError."""
        try:
            self.backend.request(self.load_request, self.backend.timeout)
        except RequestFailed as e:
            raise ModelLoadError(str(e)) from e
        except WorkerExit as e:
            raise ModelLoadError(f"{e.describe('onnxruntime')} as it loads it") from e

    def run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None = None) -> list[Any]:
        """Run once, for at most `timeout` seconds. Raises EvaluationError, UnverifiableError for odd values."""
        allowed = self.backend.timeout if timeout is None else timeout + TERMINATION_GRACE
        with self.backend.exchange_folder() as folder:
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
    """Reply to requests, until the input ends."""
    held: dict[int, OnnxRuntime] = {}

    def reply(request: Message) -> Iterable[Message]:
        if request["session"] not in held:
            held.clear()
            gc.collect()  # memory of the one before
            held[request["session"]] = _load_session(request)
        if "feeds" in request:
            _run(held[request["session"]], request)
        return ()

    serve(reply, (EvaluationError, UnverifiableError))


def _load_session(request: Message) -> OnnxRuntime:
    model = Path(request["bytes"]).read_bytes() if "bytes" in request else Path(request["path"])
    folder = None if request["folder"] is None else Path(request["folder"])
    return OnnxRuntime(model, SessionConfig(**request["setting"]), folder=folder)


def _run(session: OnnxRuntime, request: Message) -> None:
    results = session.run(request["outputs"], value_files.read_value(Path(request["feeds"])), request["limit"])
    value_files.write_value(results, Path(request["results"]))


if __name__ == "__main__":
    serve_sessions()
