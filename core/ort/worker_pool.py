"""Worker processes that are kept between uses, and started before they are needed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache
from math import inf

from .worker_process import WorkerProcess


@dataclass(slots=True)
class WorkerPool:
    """At most one idle worker for each command. Any thread may use it."""

    _idle: dict[tuple[str, ...], WorkerProcess] = field(default_factory=dict[tuple[str, ...], WorkerProcess])

    def start(self, command: tuple[str, ...]) -> None:
        """Start a worker, for a later `take`, unless there is one."""
        if command not in self._idle:
            worker = WorkerProcess(command, inf)
            worker.start()
            self._keep(worker)

    def take(self, command: tuple[str, ...]) -> WorkerProcess:
        """A worker that nobody else uses."""
        worker = self._idle.pop(command, None)
        if worker is None or not worker.is_alive:
            return WorkerProcess(command, inf)
        return worker

    def give_back(self, worker: WorkerProcess) -> None:
        """Keep a worker for the next use, or end it if there is one."""
        if worker.is_alive:
            self._keep(worker)

    def _keep(self, worker: WorkerProcess) -> None:
        if self._idle.setdefault(worker.command, worker) is not worker:
            worker.terminate()


def worker_pool() -> WorkerPool:
    """The pool of this process."""
    return _pool_of_process(os.getpid())


@cache
def _pool_of_process(_pid: int) -> WorkerPool:
    """The pool of a process; after a fork, the new one has its own."""
    return WorkerPool()
