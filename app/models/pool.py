"""Pools of workers that serve requests: the interface, and the processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from queue import SimpleQueue
from threading import Condition, Event, Thread
from time import monotonic
from typing import Any, Protocol

from ...core.errors import PassesError
from ...core.processes.process_limits import default_memory, usable_cores
from ...core.processes.watchdog import call_after
from ...core.processes.worker_process import Command, WorkerError, WorkerExit, WorkerProcess
from ...core.support.scratch_folder import ScratchFolder

Message = dict[str, Any]
"""A JSON object."""
MEMORY, SECONDS = "memory", "seconds"
"""Keys of a request that a pool reads: the bytes of memory that it needs, and the time limit for its worker."""
REPEATED = "repeated"
"""Key that a pool adds to the reply of a repeated request: a description of how the first worker ended."""
SHORTAGE = "shortage"
"""Key that a worker adds to its reply if the machine lacks something, such as disk space: a description of it."""
END_WAIT = 5.0  # seconds between SIGTERM and SIGKILL, less than a command has to clean up
KILL_WAIT = 2.0  # seconds for the end of a killed process
BASE_BYTES = 600 << 20  # memory of a worker and the process that runs its models
BYTES_PER_BYTE = 3  # memory per byte of weights
MAX_MODEL_BYTES = 2 << 30  # of weights; larger models are only partly in memory


class PoolLost(PassesError):
    """All workers of a pool are lost; their open requests have no reply."""


class RequestServer(Protocol):
    """The worker of a pool, in a separate process."""

    def reply_to(self, request: Message) -> Message:
        """Serve a request."""
        ...


class Pool(Protocol):
    """Workers of one command, as returned by `module_command`; each serves one request at a time.

    A request is a complete JSON object: any worker can serve it, and serve it again. `running` has the numbers of the
    requests that are being served; `on_start` is called, from any thread, when another one is started.
    """

    running: set[int]
    on_start: Callable[[], object]

    def replies(self, requests: Sequence[Message]) -> Generator[tuple[int, Message | WorkerError]]:
        """Yield the number and reply of each request once, in completion order.

        If a worker crashes or exceeds its time limit, another worker repeats the request once; if that one also ends,
        the reply is a WorkerError, and other requests are unaffected. The generator must be closed: all workers then
        clean up and end within seconds. Raises PassesError if there is no worker, and PoolLost.
        """
        ...


@dataclass(slots=True)
class ProcessPool:
    """At most `processes` workers of a `command`, whose requests take at most `memory` bytes together; see Pool.

    A request that needs more memory is served alone. Others start in order, except that a request that does not fit
    beside the running ones waits while later ones start.
    """

    command: Command
    processes: int
    memory: int = field(default_factory=default_memory)
    on_start: Callable[[], object] = field(default=lambda: None, init=False)
    running: set[int] = field(default_factory=set[int], init=False)

    def replies(self, requests: Sequence[Message]) -> Generator[tuple[int, Message | WorkerError]]:
        """Yield the replies; see Pool. Raises OSError if a worker cannot be started."""
        waiting = _Waiting([request.get(MEMORY, 0) for request in requests], self.memory)
        done = SimpleQueue[tuple[int, Message | Exception]]()

        def serve(worker: WorkerProcess[RequestServer]) -> None:
            while (number := waiting.take()) is not None:
                self.running.add(number)
                self.on_start()
                try:
                    reply = _reply(worker, requests[number], waiting.stopped)
                except Exception as e:  # noqa: BLE001 - raised by the consumer, or one of WorkerError
                    reply = e
                self.running.discard(number)
                waiting.release(number)
                done.put((number, reply))
            worker.ask_to_end()

        with ScratchFolder() as folder:
            count = min(self.processes, len(requests))
            workers = [WorkerProcess[RequestServer](self.command, inf, folder / f"{n}.log", None) for n in range(count)]
            threads = [Thread(target=serve, args=(worker,), daemon=True) for worker in workers]
            try:
                for thread in threads:
                    thread.start()
                for _ in requests:
                    number, reply = done.get()
                    if isinstance(reply, Exception) and not isinstance(reply, WorkerError):
                        raise reply
                    yield number, reply
            finally:
                waiting.stop()
                _end(workers, threads)


class _Waiting:
    """The numbers of waiting requests, and the memory in bytes of those being served."""

    def __init__(self, needs: Sequence[int], limit: int) -> None:
        self.stopped = Event()
        self._needs, self._limit = needs, limit
        self._numbers = dict.fromkeys(range(len(needs)))  # in order
        self._served = set[int]()
        self._used = 0
        self._changed = Condition()

    def take(self) -> int | None:
        """Wait for a request that fits into memory, and take it; None if no request is waiting."""
        with self._changed:
            while self._numbers and not self.stopped.is_set():
                left = self._limit - self._used
                number = next((n for n in self._numbers if not self._served or self._needs[n] <= left), None)
                if number is not None:
                    del self._numbers[number]
                    self._served.add(number)
                    self._used += self._needs[number]
                    return number
                self._changed.wait()
            return None

    def release(self, number: int) -> None:
        """Record that a request was served."""
        with self._changed:
            self._served.discard(number)
            self._used -= self._needs[number]
            self._changed.notify_all()

    def stop(self) -> None:
        """Stop handing out requests."""
        with self._changed:
            self.stopped.set()
            self._changed.notify_all()


def _reply(worker: WorkerProcess[RequestServer], request: Message, stopped: Event) -> Message:
    """The reply of a worker or, if its process ends, of a new process. Raises WorkerError if that also ends.

    If a process ends at a limit that it announced, its message is final.
    """
    try:
        return reply_in_time(worker, request)
    except WorkerExit as e:
        if stopped.is_set() or (e.code is None and e.progress is not None):
            raise
        return {**reply_in_time(worker, request), REPEATED: e.describe("the process")}


def reply_in_time(worker: WorkerProcess[RequestServer], request: Message) -> Message:
    """The reply of a worker; at the time limit, it is asked to clean up, and is killed END_WAIT seconds later."""
    if (seconds := request.get(SECONDS)) is None:
        return worker.call().reply_to(request)
    with call_after(seconds, worker.ask_to_end) as late, call_after(seconds + END_WAIT, worker.kill):
        try:
            return worker.call().reply_to(request)
        except WorkerExit as e:
            if late.is_set():
                raise WorkerExit(None, seconds, e.last_line) from e
            raise


def _end(workers: Sequence[WorkerProcess[RequestServer]], threads: Sequence[Thread]) -> None:
    """End all workers, killing those that do not clean up in time."""
    deadline = monotonic() + END_WAIT
    for worker, thread in zip(workers, threads, strict=True):
        if thread.is_alive():
            worker.ask_to_end()
    for worker, thread in zip(workers, threads, strict=True):
        thread.join(max(0.0, deadline - monotonic()))
        if thread.is_alive():
            worker.kill()
            thread.join(KILL_WAIT)
        worker.wait(max(0.0, deadline - monotonic()))


def default_processes() -> int:
    """One process per usable core, but no more than fit into memory with small models."""
    return max(1, min(usable_cores(), default_memory() // BASE_BYTES))


def model_memory(model: Path) -> int:
    """The estimated memory in bytes of a worker with this model; external data counts if it has a usual name."""
    size = 0
    for end in ("", ".data", "_data"):
        with suppress(OSError, ValueError):
            size += model.with_name(model.name + end).stat().st_size
    return BASE_BYTES + BYTES_PER_BYTE * min(size, MAX_MODEL_BYTES)
