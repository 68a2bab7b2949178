"""Processes of a Dask worker that serve the requests of pools, so that a crash does not end the worker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from math import inf
from threading import Lock, Timer

from ...core.processes.worker_process import RequestFailed, WorkerExit, WorkerProcess
from ...core.support.scratch_folder import ScratchFolder
from ..cli.exit_codes import is_shortage
from .pool import END_WAIT, SHORTAGE, Message, RequestServer, reply_in_time

PROCESSES_LOCK = Lock()
IDLE_SECONDS = 60.0  # a process without requests then ends, because its command may be gone
PACKAGES = ("passwright", "onnx", "onnxruntime", "distributed")
NUMBER, ENDED, REPLY, FAILED, WORKER = "number", "ended", "reply", "failed", "worker"
"""Keys of events and of results."""


def serve_request(
    pool_id: str, command: Sequence[str], versions: Mapping[str, str], number: int, request: Message
) -> Message:
    """Serve a request in a Dask task, using a process of the `command`, which is given without its interpreter.

    The result has the REPLY, or the error in FAILED. With SHORTAGE, such as versions other than those `needed`, the
    request should move to another machine. Events with the pool's id as topic report the start, and the end of a
    process, for which WorkerExit is raised.
    """
    from distributed import get_worker  # noqa: PLC0415 - installed if this runs

    worker = get_worker()
    result: Message = {WORKER: worker.address}
    if reason := version_mismatch(versions, installed_versions()):
        return result | {SHORTAGE: reason}
    worker.log_event(pool_id, {NUMBER: number})
    try:
        with _processes(pool_id).one(command) as process:
            reply = reply_in_time(process, request)
    except WorkerExit as e:
        worker.log_event(pool_id, {NUMBER: number, ENDED: e.describe("the process")})
        raise
    except RequestFailed as e:
        return result | {FAILED: [str(e), e.traceback]}
    except Exception as e:
        if not is_shortage(e):
            raise
        return result | {SHORTAGE: str(e)}
    return result | {REPLY: reply} | ({SHORTAGE: reply[SHORTAGE]} if SHORTAGE in reply else {})


def end_pool(pool_id: str) -> None:
    """End the processes of a pool, killing those that do not clean up in time."""
    _processes(pool_id).end()


def installed_versions() -> dict[str, str]:
    """The versions of Python and of the packages that must be equal on all machines."""
    from distributed.versions import get_package_info  # noqa: PLC0415 - as above

    return known_versions(get_package_info(PACKAGES))


def known_versions(found: Mapping[str, str | None]) -> dict[str, str]:
    """The versions that must be equal, from those that Dask reports; "" for a missing package."""
    python = ".".join((found.get("python") or "").split(".")[:2])
    return {"python": python, **{name: found.get(name) or "" for name in PACKAGES}}


def version_mismatch(needed: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Describe the difference between versions; "" if there is none."""
    wrong = ((name, found[name], version) for name, version in needed.items() if found[name] != version)
    return ", ".join(f"{name} {other}, not {version}" if other else f"no {name}" for name, other, version in wrong)


def _processes(pool_id: str) -> _Processes:
    """The processes of a pool, shared by all threads."""
    with PROCESSES_LOCK:
        return _new_processes(pool_id)


@cache
def _new_processes(_pool_id: str) -> _Processes:
    return _Processes()


class _Processes:
    """The processes of one pool in a Dask worker, both those that serve a request and idle ones."""

    def __init__(self) -> None:
        self._folder = ScratchFolder()  # of their logs
        self._busy = list[WorkerProcess[RequestServer]]()
        self._idle = list[WorkerProcess[RequestServer]]()
        self._started = 0
        self._is_ended = False
        self._lock = Lock()
        self._timer = Timer(inf, lambda: None)

    @contextmanager
    def one(self, command: Sequence[str]) -> Generator[WorkerProcess[RequestServer]]:
        """A process for one request, reused if possible. Raises RequestFailed after the end."""
        with self._lock:
            if self._is_ended:
                raise RequestFailed("the command was ended")
            self._timer.cancel()
            if self._idle:
                process = self._idle.pop()
            else:
                self._started += 1
                log = self._folder.path / f"{self._started}.log"
                process = WorkerProcess[RequestServer]((sys.executable, *command), inf, log, None)
            self._busy.append(process)
        try:
            yield process
        finally:
            with self._lock:
                self._busy = [other for other in self._busy if other is not process]
                self._idle.append(process)
                self._timer = _call_later(0.0 if self._is_ended else IDLE_SECONDS, self._end_idle)

    def _end_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.ask_to_end()
        for process in idle:
            process.wait(END_WAIT)
        with self._lock:
            if self._is_ended and not self._busy:
                self._folder.remove()

    def end(self) -> None:
        """Make all processes clean up and end, without waiting; those that take too long are killed."""
        with self._lock:
            self._is_ended = True
            self._timer.cancel()
            busy = self._busy
        for process in busy:
            process.ask_to_end()
        _call_later(0.0, self._end_idle)
        _call_later(END_WAIT, lambda: [process.kill() for process in busy])


def _call_later(seconds: float, function: Callable[[], object]) -> Timer:
    """Call a function after a delay in seconds, in a thread."""
    timer = Timer(seconds, function)
    timer.daemon = True
    timer.start()
    return timer
