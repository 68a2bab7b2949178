"""Pools of workers that serve requests: the interface, and processes of this machine."""

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
"""An object of JSON."""
MEMORY, SECONDS = "memory", "seconds"
"""Keys of a request that a pool reads: the bytes that it needs, and the time after which its worker is ended."""
REPEATED = "repeated"
"""Key that a pool may add to the reply to a repeated request: the end of the first worker, in words."""
SHORTAGE = "shortage"
"""Key that a worker adds to its reply if the machine lacks something, such as space on a disk: that, in words."""
END_WAIT = 5.0  # seconds between SIGTERM and SIGKILL, less than a command has to clean up
KILL_WAIT = 2.0  # seconds for the end of a killed process
BASE_BYTES = 600 << 20  # of a worker and the process that runs its models
BYTES_PER_BYTE = 3  # of memory for one of weights
MAX_MODEL_BYTES = 2 << 30  # of weights; larger models are in memory in parts


class PoolLost(PassesError):
    """All workers of a pool are lost, with the requests that have no reply yet."""


class RequestServer(Protocol):
    """The worker of a pool, in a process of its own."""

    def reply_to(self, request: Message) -> Message:
        """Serve a request."""
        ...


class Pool(Protocol):
    """Workers of one command, as of `module_command`, each of which serves one request at a time.

    A request is an object of JSON, and complete by itself: any worker can serve it, and serve it again. `running` are
    the numbers of the requests that are being served; `on_start` is called when there is another one, by any thread.
    """

    running: set[int]
    on_start: Callable[[], object]

    def replies(self, requests: Sequence[Message]) -> Generator[tuple[int, Message | WorkerError]]:
        """The number and the reply of each request, once each, in the order of their ends.

        A request whose worker crashed or was killed for being late is repeated once, by another worker; the reply is a
        WorkerError if that one ends, too, and costs no other request. The generator has to be closed: then all
        workers end, within seconds, and have the time to clean up. Raises PassesError if there is no worker at all, and
        PoolLost.
        """
        ...


@dataclass(slots=True)
class ProcessPool:
    """At most `processes` workers of a `command`, see Pool, whose requests take at most `memory` bytes together.

    A request that takes more than all of them is served alone. Others start in order, except that those which do not
    fit beside the running ones wait while later ones start.
    """

    command: Command
    processes: int
    memory: int = field(default_factory=default_memory)
    on_start: Callable[[], object] = field(default=lambda: None, init=False)
    running: set[int] = field(default_factory=set[int], init=False)

    def replies(self, requests: Sequence[Message]) -> Generator[tuple[int, Message | WorkerError]]:
        """The replies, see Pool. Raises OSError if a worker cannot be started."""
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
    """The numbers of requests that wait to be served, and the memory, in bytes, of those that are being served."""

    def __init__(self, needs: Sequence[int], limit: int) -> None:
        self.stopped = Event()
        self._needs, self._limit = needs, limit
        self._numbers = dict.fromkeys(range(len(needs)))  # in order
        self._served = set[int]()
        self._used = 0
        self._changed = Condition()

    def take(self) -> int | None:
        """Wait for a request that fits into memory, and take it; None if no other waits."""
        with self._changed:
            while self._numbers and not self.stopped.is_set():
                number = next((n for n in self._numbers if self._fits(n)), None)
                if number is not None:
                    del self._numbers[number]
                    self._served.add(number)
                    self._used += self._needs[number]
                    return number
                self._changed.wait()
            return None

    def _fits(self, number: int) -> bool:
        return not self._served or self._used + self._needs[number] <= self._limit

    def release(self, number: int) -> None:
        """Take note that a request is served."""
        with self._changed:
            self._served.discard(number)
            self._used -= self._needs[number]
            self._changed.notify_all()

    def stop(self) -> None:
        """Let no further request be taken."""
        with self._changed:
            self.stopped.set()
            self._changed.notify_all()


def _reply(worker: WorkerProcess[RequestServer], request: Message, stopped: Event) -> Message:
    """The reply of a worker, or, if its process ends, of a new one. Raises WorkerError if that ends, too.

    The end of a process at a limit that it announced with its message is final.
    """
    try:
        return reply_in_time(worker, request)
    except WorkerExit as e:
        if stopped.is_set() or (e.code is None and e.progress is not None):
            raise
        return {**reply_in_time(worker, request), REPEATED: e.describe("the process")}


def reply_in_time(worker: WorkerProcess[RequestServer], request: Message) -> Message:
    """The reply of a worker, which is told to clean up and end at the time limit, and killed after END_WAIT more."""
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
    """End all workers, by force those that have not cleaned up in time."""
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
    """One process for each core that this one may use, but no more than fit into memory with small models."""
    return max(1, min(usable_cores(), default_memory() // BASE_BYTES))


def model_memory(model: Path) -> int:
    """The estimated bytes of memory of a worker with this model; its external data count under the usual names."""
    size = 0
    for end in ("", ".data", "_data"):
        with suppress(OSError, ValueError):
            size += model.with_name(model.name + end).stat().st_size
    return BASE_BYTES + BYTES_PER_BYTE * min(size, MAX_MODEL_BYTES)
