"""Pool of worker processes that take jobs one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from time import monotonic

from ...core.ort.process_limits import MACHINE_SHARE, machine_memory
from ...core.ort.worker_process import Message, WorkerError, WorkerExit, WorkerProcess
from ...core.support.scratch_folder import ScratchFolder

END_WAIT = 5.0  # seconds between SIGTERM and SIGKILL, less than a command has to clean up
KILL_WAIT = 2.0  # seconds for the end of a killed process
BASE_BYTES = 600 << 20  # of a worker and the process that runs its models
BYTES_PER_BYTE = 3  # of memory for one of weights
MAX_MODEL_BYTES = 2 << 30  # of weights; those of larger models are in memory in parts


@dataclass(slots=True)
class JobPool:
    """At most `processes` workers of a `command`, each of which serves one request at a time.

    A worker that ends is replaced, so that one that crashes costs no other job; nor does one that an earlier job
    damaged, as its request is repeated. `running` are the numbers of the
    requests that are being served; `on_start` is called when there is another one, by any thread.
    """

    command: tuple[str, ...]
    processes: int
    on_start: Callable[[], object] = field(default=lambda: None, init=False)
    running: set[int] = field(default_factory=set[int], init=False)

    def replies(self, requests: Sequence[Message]) -> Generator[tuple[int, Message | WorkerError]]:
        """The number and the reply of each request, in the order of their ends; a WorkerError for a worker that ended.

        The generator has to be closed: then all workers end, within seconds, and have the time to clean up.
        """
        waiting, done, stopping = SimpleQueue[int](), SimpleQueue[tuple[int, Message | Exception]](), Event()
        for number in range(len(requests)):
            waiting.put(number)

        def serve(worker: WorkerProcess) -> None:
            while not stopping.is_set():
                try:
                    number = waiting.get_nowait()
                except Empty:
                    worker.ask_to_end()
                    return
                self.running.add(number)
                self.on_start()
                try:
                    reply = _reply(worker, requests[number], stopping)
                except Exception as e:  # noqa: BLE001 - raised by the consumer, or one of WorkerError
                    reply = e
                self.running.discard(number)
                done.put((number, reply))

        with ScratchFolder() as folder:
            count = min(self.processes, len(requests))
            workers = [WorkerProcess(self.command, inf, folder / f"{n}.log") for n in range(count)]
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
                stopping.set()
                _end(workers, threads)


def _reply(worker: WorkerProcess, request: Message, stopping: Event) -> Message:
    """The reply of a worker; of a new one, if one that served other requests ends. Raises WorkerError."""
    is_fresh = worker.is_unused
    try:
        return worker.request(request)
    except WorkerExit:
        if is_fresh or stopping.is_set():
            raise
    return worker.request(request)


def _end(workers: Sequence[WorkerProcess], threads: Sequence[Thread]) -> None:
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


def default_processes(models: Sequence[Path]) -> int:
    """One process for each core that this one may use, but no more than fit into memory with the largest models."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    largest = sorted((min(_weight_bytes(model), MAX_MODEL_BYTES) for model in models), reverse=True)[:cores]
    needs = accumulate(BASE_BYTES + BYTES_PER_BYTE * size for size in largest)
    return max(1, sum(need <= MACHINE_SHARE * machine_memory() for need in needs))


def _weight_bytes(model: Path) -> int:
    """The bytes of a model, and of its external data under the usual names."""
    size = 0
    for end in ("", ".data", "_data"):
        with suppress(OSError, ValueError):
            size += model.with_name(model.name + end).stat().st_size
    return size
