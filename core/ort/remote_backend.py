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

from ..errors import CannotLoad, EvaluationError
from . import value_files
from .backends import Arrays
from .sessions import AS_WRITTEN, Loadable, Setting
from .worker_process import End, Process

LIMIT = 300.0  # seconds to load a model
GRACE = 10.0  # seconds that a run which is told to stop has for it
WORKER = f"{__package__}.remote_backend_worker"


@dataclass(slots=True)
class Remote:
    """A `Backend`: onnxruntime under a `setting`, one session at a time, in a process that is started when needed.

    Asked for a session while there is one, it gives up the first. To be closed, as a context. `deaths`: how often the
    process crashed or had to be ended.
    """

    setting: Setting = AS_WRITTEN
    limit: float = LIMIT
    command: tuple[str, ...] = (sys.executable, "-P", "-m", WORKER)
    deaths: int = field(default=0, init=False)
    _folder: TemporaryDirectory[str] = field(init=False)
    _process: Process = field(init=False)
    _numbers: count[int] = field(default_factory=count, init=False)
    _written: tuple[bytes, Path] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._folder = TemporaryDirectory()
        self._process = Process(self.command, self.limit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.end()
        self._folder.cleanup()

    def __call__(self, model: Loadable, *, folder: Path | None = None, setting: Setting | None = None) -> RemoteSession:
        """A session, under another `setting` if given; `folder` is where weights of a model given as bytes are.

        Raises CannotLoad.
        """
        kind, path = ("bytes", self._file_of(model)) if isinstance(model, bytes) else ("path", model.absolute())
        question = {
            "session": next(self._numbers),
            kind: str(path),
            "folder": None if folder is None else str(folder.absolute()),
            "setting": asdict(setting or self.setting),
        }
        session = RemoteSession(self, question)
        session.load()
        return session

    def ask(self, question: dict[str, Any], limit: float) -> str | End | None:
        """Why it fails, in words or because the process ended; None if it does not."""
        self._process.limit = limit
        end, heard = self._process.answer(question)
        self.deaths += end is not None
        return end if end is not None else heard["failure"]

    def exchange(self) -> TemporaryDirectory[str]:
        """A folder for what goes in and what comes out."""
        return TemporaryDirectory(dir=self._folder.name)

    def _file_of(self, model: bytes) -> Path:
        """Where a message is; one that was asked for just before is there already."""
        if self._written is None or self._written[0] is not model:
            self._written = model, Path(self._folder.name) / f"{next(self._numbers)}.onnx"
            self._written[1].write_bytes(model)
        return self._written[1]


@dataclass(slots=True)
class RemoteSession:
    """A model in that process, with the protocol of a `Session`."""

    remote: Remote
    question: dict[str, Any]
    name: str = "onnxruntime"

    def load(self) -> None:
        """Have it loaded. Raises CannotLoad."""
        failure = self.remote.ask(self.question, self.remote.limit)
        if isinstance(failure, End):
            raise CannotLoad(f"onnxruntime {_death(failure, self.remote.limit)} as it loads it")
        if failure is not None:
            raise CannotLoad(failure)

    def run(self, outputs: Sequence[str], feeds: Arrays, limit: float | None = None) -> list[Any]:
        """Run once, for at most `limit` seconds. Raises EvaluationError, Unverifiable for odd values."""
        allowed = self.remote.limit if limit is None else limit + GRACE
        with self.remote.exchange() as folder:
            given, results = Path(folder) / "feeds", Path(folder) / "results"
            value_files.write(dict(feeds), given)
            run = {"feeds": str(given), "outputs": list(outputs), "results": str(results), "limit": limit}
            failure = self.remote.ask(self.question | run, allowed)
            if isinstance(failure, End):
                raise EvaluationError(f"onnxruntime {_death(failure, allowed)}")
            if failure is not None:
                raise EvaluationError(failure)
            return value_files.read(results)


def _death(end: End, limit: float) -> str:
    if end.code is None:
        return f"does not end within {limit:g} s"
    return f"crashes ({end})"
