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
from ..io.split_models import Loadable, SplitModel, load_split, save_split
from ..support.scratch_folder import ScratchFolder
from . import value_files
from .backends import LOAD_TIMEOUT, TERMINATION_GRACE, Arrays, OnnxRuntime
from .sessions import UNOPTIMIZED, SessionConfig
from .worker_process import Message, RequestFailed, WorkerExit, WorkerProcess, module_command, serve


@dataclass(slots=True)
class RemoteBackend:
    """A `Backend`: onnxruntime under a `config`, one session at a time, in a process that is started when needed.

    Another session replaces the first. Use it as a context manager. `crashes` counts crashed and killed processes;
    `_written` is the model given last that was no file, and its file.
    """

    config: SessionConfig = UNOPTIMIZED
    timeout: float = LOAD_TIMEOUT
    command: tuple[str, ...] = module_command(__spec__.name)
    crashes: int = field(default=0, init=False)
    folder: ScratchFolder = field(default_factory=ScratchFolder, init=False)
    _process: WorkerProcess = field(init=False)
    _numbers: count[int] = field(default_factory=count, init=False)
    _written: tuple[bytes | SplitModel, Path] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._process = WorkerProcess(self.command, self.timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self.folder.remove()

    def __call__(self, model: Loadable | SplitModel, *, config: SessionConfig | None = None) -> RemoteSession:
        """Load a model, under another `config` if given. Raises ModelLoadError."""
        if isinstance(model, Path):
            kind, path = "path", model.absolute()
        else:
            if self._written is None or self._written[0] is not model:
                self._written = model, self.folder.path / f"{next(self._numbers)}.onnx"
                _write_for_worker(*self._written)
            kind, path = "bytes" if isinstance(model, bytes) else "split", self._written[1]
        load_request = {
            "session": next(self._numbers),
            kind: str(path),
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
        with TemporaryDirectory(dir=self.backend.folder.path) as folder:
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


def _write_for_worker(model: bytes | SplitModel, path: Path) -> None:
    if isinstance(model, bytes):
        path.write_bytes(model)
    else:
        save_split(model, path)


def _read_request(request: Message) -> Loadable | SplitModel:
    """The model that a request names."""
    if "split" in request:
        return load_split(Path(request["split"]))
    return Path(request["bytes"]).read_bytes() if "bytes" in request else Path(request["path"])


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
            current[request["session"]] = OnnxRuntime(_read_request(request), SessionConfig(**request["setting"]))
        if "feeds" in request:
            feeds = value_files.read_value(Path(request["feeds"]))
            results = current[request["session"]].run(request["outputs"], feeds, request["limit"])
            value_files.write_value(results, Path(request["results"]))
        return ()

    serve(reply, (EvaluationError, UnverifiableError))


if __name__ == "__main__":
    serve_sessions()
