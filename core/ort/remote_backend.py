"""A backend whose sessions live in a process of their own: what crashes or hangs there is an error here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from ..errors import EvaluationError, ModelLoadError
from . import value_files
from .backends import Arrays
from .sessions import UNOPTIMIZED, Loadable, SessionConfig
from .worker_process import ProcessExit, WorkerProcess

LOAD_TIMEOUT = 300.0  # seconds to load a model
TERMINATION_GRACE = 10.0  # seconds that a run which is told to stop has for it
WORKER = f"{__package__}.remote_backend_worker"


@dataclass(slots=True)
class RemoteBackend:
    """A `Backend`: onnxruntime under a `config`, one session at a time, in a process that is started when needed.

    Asked for a session while there is one, it gives up the first. To be closed, as a context. `crashes`: how often the
    process crashed or had to be ended.
    """

    config: SessionConfig = UNOPTIMIZED
    timeout: float = LOAD_TIMEOUT
    command: tuple[str, ...] = (sys.executable, "-P", "-m", WORKER)
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

    def request(self, message: dict[str, Any], timeout: float) -> str | ProcessExit | None:
        """Why it fails, in words or because the process ended; None if it does not."""
        self._process.timeout = timeout
        end, heard = self._process.request(message)
        self.crashes += end is not None
        return end if end is not None else heard["failure"]

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
        failure = self.backend.request(self.load_request, self.backend.timeout)
        if isinstance(failure, ProcessExit):
            raise ModelLoadError(f"onnxruntime {_exit_message(failure, self.backend.timeout)} as it loads it")
        if failure is not None:
            raise ModelLoadError(failure)

    def run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None = None) -> list[Any]:
        """Run once, for at most `timeout` seconds. Raises EvaluationError, UnverifiableError for odd values."""
        allowed = self.backend.timeout if timeout is None else timeout + TERMINATION_GRACE
        with self.backend.exchange_folder() as folder:
            given, results = Path(folder) / "feeds", Path(folder) / "results"
            value_files.write_value(dict(feeds), given)
            run = {"feeds": str(given), "outputs": list(outputs), "results": str(results), "limit": timeout}
            failure = self.backend.request(self.load_request | run, allowed)
            if isinstance(failure, ProcessExit):
                raise EvaluationError(f"onnxruntime {_exit_message(failure, allowed)}")
            if failure is not None:
                raise EvaluationError(failure)
            return value_files.read_value(results)


def _exit_message(end: ProcessExit, timeout: float) -> str:
    if end.code is None:
        return f"does not end within {timeout:g} s"
    return f"crashes ({end})"
