"""Pool of Dask workers. The Dask cluster queues, places and repeats the requests."""

from __future__ import annotations

import asyncio
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from logging import CRITICAL
from queue import SimpleQueue
from threading import Thread
from typing import Any
from uuid import uuid4

from ...core.errors import PassesError, UsageError
from ...core.processes.worker_process import Command, RequestFailed, WorkerError
from . import dask_worker
from .dask_worker import (
    ENDED,
    FAILED,
    NUMBER,
    PACKAGES,
    REPLY,
    WORKER,
    installed_versions,
    known_versions,
    version_mismatch,
)
from .pool import MEMORY, REPEATED, SHORTAGE, Message, PoolLost

CONNECT_SECONDS = 10.0
START_SECONDS = 10.0  # to wait for the first worker
END_SECONDS = 5.0  # to wait for the scheduler at the end
REPETITIONS = 1  # of a request whose process ended
MAX_PLACES = 3  # machines that try a request if each of them lacks something
LOGGERS = ("distributed", "distributed.client", "tornado.application")


@dataclass(slots=True)
class DaskPool:
    """The workers of the Dask cluster whose scheduler is at `address`, each with one process per thread; see Pool.

    `command` is run by the interpreter of each worker. If workers declare a resource `memory`, in bytes, requests that
    state their memory reserve that much of it.
    """

    command: Command
    address: str
    on_start: Callable[[], object] = field(default=lambda: None, init=False)
    running: set[int] = field(default_factory=set[int], init=False)

    def replies(self, requests: Sequence[Message]) -> Generator[tuple[int, Message | WorkerError]]:
        """Yield the replies; see Pool. Raises UsageError for an invalid address, and PoolLost.

        Raises PassesError for a cluster that does not answer, has no workers, or has other versions.
        """
        with _connected(self.address) as client:
            run = _Run(self, client, requests)
            try:
                run.submit()
                yield from run.replies()
            except (CancelledError, OSError) as e:
                raise PoolLost(f"lost the Dask scheduler at {self.address}") from e
            finally:
                _call_briefly(run.end)


class _Run:
    """The requests of a pool as Dask tasks: their numbers, the workers that tried them, and processes that ended."""

    def __init__(self, pool: DaskPool, client: Any, requests: Sequence[Message]) -> None:
        self.pool, self.client, self.requests = pool, client, requests
        self.id = f"passes-{uuid4().hex}"
        self.workers = _required_workers(client, pool.address)
        self.tasks = dict[str, tuple[int, Any]]()  # the request number and the future, by key
        self.tried = defaultdict[int, list[str]](list)
        self.ended = dict[int, str]()
        self.done = SimpleQueue[Any]()
        self.serve = _remote("serve_request", self.id, pool.command[1:], installed_versions())

    def submit(self) -> None:
        """Submit all requests, grouped by the memory that they need."""
        self.client.subscribe_topic(self.id, self._note)
        groups = defaultdict[float | None, list[int]](list)
        resources = (worker["resources"] for worker in self.workers.values())
        declared = [found["memory"] for found in resources if "memory" in found]
        for number, request in enumerate(self.requests):
            need = request.get(MEMORY)
            groups[min(need, max(declared)) if need and declared else None].append(number)
        for memory, numbers in groups.items():
            self._submit(numbers, resources=None if memory is None else {"memory": memory})

    def _submit(self, numbers: Sequence[int], **placement: Any) -> None:
        """Submit requests as tasks, with Dask's arguments for their placement."""
        keys = [f"{self.id}-{number}-{uuid4().hex[:8]}" for number in numbers]
        requests = [self.requests[number] for number in numbers]
        options = {"key": keys, "retries": REPETITIONS, "pure": False, **placement}
        for number, task in zip(numbers, self.client.map(self.serve, numbers, requests, **options), strict=True):
            self.tasks[task.key] = number, task
            task.add_done_callback(self.done.put)

    def _note(self, event: tuple[float, Message]) -> None:
        """Record that a request is being served, or that its process ended."""
        message = event[1]
        number = message[NUMBER]
        if ENDED in message:
            self.ended[number] = message[ENDED]
            self.pool.running.discard(number)
        else:
            self.pool.running.add(number)
            self.pool.on_start()

    def replies(self) -> Iterator[tuple[int, Message | WorkerError]]:
        """Yield the replies in completion order; a request whose machine lacks something is moved to other machines."""
        while self.tasks:
            task = self.done.get()
            number, _ = self.tasks.pop(task.key)
            reply = self._reply(number, task)
            self.pool.running.discard(number)
            if reply is not None:
                yield number, reply

    def _reply(self, number: int, task: Any) -> Message | WorkerError | None:
        """The reply of a finished task; None if it is submitted again."""
        from distributed import KilledWorker  # noqa: PLC0415 - as in _connected

        try:
            result = task.result()
        except WorkerError as e:
            return e
        except KilledWorker:
            return WorkerError("each Dask worker that ran it died")
        if SHORTAGE in result:
            self.tried[number].append(result[WORKER])
            others = set(_workers(self.client)) - set(self.tried[number])
            if others and len(self.tried[number]) < MAX_PLACES:
                self._submit([number], workers=sorted(others), allow_other_workers=True)  # in case all of them are gone
                return None
        if FAILED in result:
            return RequestFailed(*result[FAILED])
        if REPLY not in result:
            return WorkerError(f"the Dask worker {result[WORKER]} cannot run it: {result[SHORTAGE]}")
        return result[REPLY] | ({REPEATED: self.ended[number]} if number in self.ended else {})

    def end(self) -> None:
        """Make Dask forget the tasks, and end the processes that serve requests, unless the scheduler is lost."""
        if self.client.status == "running":
            self.client.cancel([task for _, task in self.tasks.values()])
            self.client.run(_remote("end_pool", self.id), on_error="ignore")


@contextmanager
def _connected(address: str) -> Generator[Any]:
    """Connect to the scheduler at an address, without its error logs. Raises UsageError and PassesError."""
    try:
        from distributed import Client, Security  # noqa: PLC0415 - an extra, and heavy
        from distributed.utils import silence_logging_cmgr  # noqa: PLC0415 - as above
    except ImportError as e:
        raise PassesError(f"--on needs {e.name}: pip install 'passwright[cluster]'") from e
    security = Security()  # from Dask's configuration
    with ExitStack() as stack:
        for name in LOGGERS:
            stack.enter_context(silence_logging_cmgr(CRITICAL, name))
        try:
            asyncio.run(_ask(address, security))  # a Client that fails leaves threads and errors behind
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about versions; see _required_workers
                client = Client(address, security=security, timeout=CONNECT_SECONDS, set_as_default=False)
        except OSError as e:
            raise PassesError(f"no Dask scheduler answers at {address}" + f": {e}" * bool(str(e))) from e
        except (ValueError, TypeError) as e:
            raise UsageError(f"{address} is not the address of a Dask scheduler: {e}") from e
        stack.callback(_call_briefly, client.close)
        yield client


async def _ask(address: str, security: Any) -> None:
    """Check that a scheduler answers. Raises OSError, ValueError and TypeError."""
    from distributed import rpc  # noqa: PLC0415 - as in _connected

    async with (
        asyncio.timeout(CONNECT_SECONDS),
        rpc(address, connection_args=security.get_connection_args("client")) as scheduler,
    ):
        try:
            await scheduler.identity(n_workers=0)
        except MemoryError as e:  # another program's answer can look like a message of huge length
            raise OSError("the answer is not from Dask") from e


def _workers(client: Any) -> Mapping[str, Any]:
    """The scheduler's data about each worker, by address."""
    return client.scheduler_info()["workers"]


def _required_workers(client: Any, address: str) -> Mapping[str, Any]:
    """The workers of a scheduler. Raises PassesError if there are none, or if their versions differ from ours."""
    with suppress(TimeoutError):
        client.wait_for_workers(1, timeout=START_SECONDS)
    if not (workers := _workers(client)):
        raise PassesError(f"the Dask scheduler at {address} has no workers")
    needed = installed_versions()
    found = client.get_versions(packages=PACKAGES)["workers"]
    wrong = {w: reason for w, v in found.items() if (reason := version_mismatch(needed, known_versions(v["packages"])))}
    for worker, reason in wrong.items():
        others = f", and {len(wrong) - 1} other workers differ, too" if len(wrong) > 1 else ""
        raise PassesError(f"the Dask worker {worker} has {reason}{others}; install the same versions everywhere")
    return workers


def _remote(name: str, *fixed: object) -> Callable[..., Message]:
    """A function of `dask_worker` with bound arguments, pickled by value: the scheduler may lack this package."""
    module, worker_key, shortage_key = dask_worker.__name__, WORKER, SHORTAGE

    def call(*arguments: object) -> Message:
        from importlib import import_module  # noqa: PLC0415 - runs elsewhere

        from distributed import get_worker  # noqa: PLC0415 - as above

        try:
            function = getattr(import_module(module), name)
        except ImportError as e:
            return {worker_key: get_worker().address, shortage_key: f"no {e.name}"}
        return function(*fixed, *arguments)

    return call


def _call_briefly(function: Callable[[], object]) -> None:
    """Call a function that may fail or hang if the scheduler is gone."""

    def call() -> None:
        with suppress(Exception):
            function()

    thread = Thread(target=call, daemon=True)
    thread.start()
    thread.join(END_SECONDS)
