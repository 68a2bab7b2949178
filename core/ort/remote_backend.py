"""Backend with sessions in a worker process, so that crashes and hangs become errors."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from ..errors import MORE_MEMORY, EvaluationError, MemoryExhausted, ModelLoadError, UnverifiableError
from ..io.split_models import Loadable, SplitFile, file_of, load_file
from ..processes.custom_operators import runtime_name
from ..processes.worker_process import (
    Command,
    RequestFailed,
    WorkerExit,
    WorkerProcess,
    module_command,
    serve,
    worker_pool,
)
from ..support.scratch_folder import ScratchFolder
from .backends import LOAD_TIMEOUT, TERMINATION_GRACE, Arrays, LoadedModel, is_lack_of_memory, session_memory
from .engines import SINGLE
from .sessions import UNOPTIMIZED, SessionConfig
from .value_files import with_arrays

T = TypeVar("T")


@dataclass(slots=True)
class SessionWorker:
    """The session of this process, if there is one."""

    session: LoadedModel | None = None

    def load(self, model: bytes | Path | SplitFile, config: SessionConfig) -> str:
        """Load a model, replacing the previous one; return the precision in which it runs. Raises ModelLoadError."""
        self.unload()
        self.session = LoadedModel(model if isinstance(model, bytes) else load_file(model), config)
        return self.session.precision

    def unload(self) -> None:
        """Free the memory of the session."""
        self.session = None
        gc.collect()

    def run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None, most: int) -> list[Any]:
        """Run the model once, for at most `timeout` seconds. Raises EvaluationError.

        The outputs may take at most `most` bytes; if that is 0, they are not returned.
        """
        assert self.session is not None
        found = self.session.run(outputs, feeds, timeout)
        parts = [cast("list[Any]", output) if isinstance(output, list) else [output] for output in found]
        size = sum(getattr(array, "nbytes", 0) for array in chain(*parts))
        if size > most > 0:
            raise MemoryExhausted(
                f"its outputs take {size / 1e6:.3g} MB, more than the {most / 1e6:.3g} MB allowed for them"
            )
        return found if most else []


WORKER = module_command(__name__)
OUTPUTS_SHARE = 8  # 1/n of the process's memory that outputs of a run may take


@dataclass(slots=True)
class RemoteBackend:
    """A `Backend`: the engine of a `config`, with one session at a time, in a process that is taken from the pool.

    Another session replaces the previous one. The process's memory limit depends on the size of its model. Use as a
    context manager. A process that lacks memory is replaced. `crashes` counts crashed and killed processes. `_is_used`:
    the process ran models of other backends, which may have damaged it or left less memory. `_written` is the last
    model given, with its file; `_loaded` is the session in the process.
    """

    config: SessionConfig = UNOPTIMIZED
    timeout: float = LOAD_TIMEOUT
    command: Command = WORKER
    crashes: int = field(default=0, init=False)
    _process: WorkerProcess[SessionWorker] = field(init=False)
    _is_used: bool = field(init=False)
    _folder: ScratchFolder = field(default_factory=ScratchFolder, init=False)
    _numbers: count[int] = field(default_factory=count, init=False)
    _written: tuple[Loadable, Path | SplitFile] | None = field(default=None, init=False)
    _loaded: tuple[RemoteSession, int | None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._process = worker_pool().take(self.command)
        self._is_used = not self._process.is_unused

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        worker_pool().give_back(self._process, self._process.call(self.timeout).unload)
        self._folder.remove()

    def __call__(self, model: Loadable, *, config: SessionConfig | None = None) -> RemoteSession:
        """Load a model, with another `config` if given. Raises ModelLoadError."""
        config = config or self.config
        session = RemoteSession(self, self._source(model), config, session_memory(model, config))
        try:
            self._in_process(lambda: self.load(session))
        except WorkerExit as e:
            raise ModelLoadError(f"{e.describe(runtime_name(config.engine_name))} as it loads it") from e
        except EvaluationError as e:
            if is_lack_of_memory(e):
                raise ModelLoadError(f"{e}; {MORE_MEMORY}") from e
            raise
        return session

    def _source(self, model: Loadable) -> bytes | Path | SplitFile:
        if isinstance(model, bytes):
            return model
        if self._written is None or self._written[0] is not model:
            self._written = model, file_of(model, self._folder.path / f"{next(self._numbers)}.onnx")
        return self._written[1]

    def load(self, session: RemoteSession) -> None:
        """Load the model of a session, unless the process already has it. Raises ModelLoadError and WorkerExit."""
        if self._loaded is None or self._loaded[0] is not session or self._loaded[1] != self._process.pid:
            self._loaded = None
            self._process.limit_memory(session.memory)
            session.precision = self._process.call(self.timeout).load(session.model, session.config)
            self._loaded = session, self._process.pid

    def run(
        self, session: RemoteSession, outputs: Sequence[str], feeds: Arrays, timeout: float | None, most: int
    ) -> list[Any]:
        """Run a session in its worker. Raises EvaluationError, RequestFailed and WorkerExit."""
        allowed = self.timeout if timeout is None else timeout + TERMINATION_GRACE

        def run() -> list[Any]:
            self.load(session)
            return self._process.call(allowed).run(list(outputs), with_arrays(feeds), timeout, most)

        return self._in_process(run)

    def _in_process(self, work: Callable[[], T]) -> T:
        """The result of `work`, which is done again in a new process if a used one crashes or lacks memory."""
        try:
            return work()
        except WorkerExit as e:
            self.crashes += 1
            if e.code is None or not self._is_used:
                raise
        except EvaluationError as e:
            if not is_lack_of_memory(e):
                raise
            self._process.terminate()  # what it allocated would be missing in its next run
            if not self._is_used:
                raise
        self._is_used = False
        return self._in_process(work)


@dataclass(slots=True, eq=False)
class RemoteSession:
    """A model in the process of a backend: a `Session`. `precision` is the one in which the engine computes."""

    backend: RemoteBackend
    model: bytes | Path | SplitFile
    config: SessionConfig
    memory: int
    precision: str = SINGLE

    @property
    def name(self) -> str:
        """The name of the engine."""
        return self.config.engine_name

    def run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None = None) -> list[Any]:
        """Run once, for at most `timeout` seconds. Raises EvaluationError, and UnverifiableError for odd values.

        The outputs may take a share of the process's memory, because they are copied to this process.
        """
        return self._run(outputs, feeds, timeout, self.memory // OUTPUTS_SHARE)

    def try_run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None = None) -> None:
        """Like `run`, but the outputs may take all the memory, and are not returned."""
        self._run(outputs, feeds, timeout, 0)

    def _run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None, most: int) -> list[Any]:
        try:
            return self.backend.run(self, outputs, feeds, timeout, most)
        except MemoryExhausted as e:
            raise MemoryExhausted(f"{e}; {MORE_MEMORY}") from e
        except RequestFailed as e:
            raise UnverifiableError(str(e)) from e
        except WorkerExit as e:
            raise EvaluationError(e.describe(runtime_name(self.name))) from e


def main() -> None:
    """Serve the parent until it ends."""
    serve(SessionWorker())
