"""Worker processes that are kept between uses, and started before they are needed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache
from math import inf

from .worker_process import Message, WorkerProcess, module_command

Command = tuple[str, ...]
EVALUATION_WORKER: Command = module_command(f"{__package__}.evaluation_worker")
"""The command of a worker that evaluates constants."""


@dataclass(slots=True)
class WorkerPool:
    """At most one idle worker for each command. Any thread may use it."""

    _idle: dict[Command, WorkerProcess] = field(default_factory=dict[Command, WorkerProcess])
    _substitutes: dict[Command, Command] = field(default_factory=dict[Command, Command])

    def start(self, command: Command, also: Command | None = None) -> None:
        """Start a worker, for a later `take`, unless there is one. It serves the requests for a worker `also` too."""
        if also is not None:
            self._substitutes[also] = command
        if command not in self._idle:
            worker = WorkerProcess(command, inf)
            worker.start()
            self._keep(worker)

    def tell(self, command: Command, request: Message) -> None:
        """Send a request, whose reply says nothing, to the idle worker, if there is one."""
        worker = self._idle.pop(command, None)  # no other thread takes it meanwhile
        if worker is not None and worker.is_alive:
            worker.begin(request)
            self.give_back(worker)

    def take(self, command: Command) -> WorkerProcess:
        """A worker that nobody else uses."""
        for known in filter(None, (command, self._substitutes.get(command))):
            worker = self._idle.pop(known, None)
            if worker is not None and worker.is_alive:
                return worker
        return WorkerProcess(command, inf)

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
