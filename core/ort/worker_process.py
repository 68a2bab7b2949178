"""Worker processes for code that may crash, hang or print: requests and replies as lines of JSON.

A request is an object. Its reply is any number of objects, taken together; the last has the key `failure`: a text, or
null if the request succeeded. After an object with the key `next_within`, the next one must come within so many
seconds; null takes this back.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from _thread import start_new_thread
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from signal import SIG_IGN, SIGINT, Signals, signal
from time import monotonic
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet, finalize

from ..support.watchdog import call_after, require_time, time_limit_end
from .process_limits import IDLE_THREADS

Message = dict[str, Any]
NEXT_WITHIN = "next_within"
EXIT_WAIT = 10.0  # seconds between the last line of a process and its exit code


class WorkerError(Exception):
    """A request without a result; `parts` is the part of the reply that came before."""

    def __init__(self, message: str, parts: Message) -> None:
        super().__init__(message)
        self.parts = parts

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), (str(self), self.parts)


class RequestFailed(WorkerError):
    """A request to which the worker replied with a failure."""


class WorkerExit(WorkerError):
    """A process that ended before its reply: its exit code `code`, None if it was killed after `timeout` seconds."""

    def __init__(self, code: int | None, timeout: float, last_line: str, parts: Message) -> None:
        self.code = code
        self.timeout = timeout
        self.last_line = last_line
        super().__init__(self.describe("it"), parts)

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), (self.code, self.timeout, self.last_line, self.parts)

    def describe(self, subject: str) -> str:
        """The end of the process in words; `subject` is the name of the program."""
        if self.code is None:
            return f"{subject} did not end within {round(self.timeout, 2):g} s"
        if self.code < 0:
            with suppress(ValueError):
                name = Signals(-self.code).name
                return f"{subject} crashed ({name})" + (", perhaps for lack of memory" if name == "SIGKILL" else "")
        return f"{subject} ended with exit code {self.code}" + (f": {self.last_line}" if self.last_line else "")


def module_command(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a module as a worker in this interpreter."""
    return (sys.executable, "-P", "-m", module, *arguments)


@dataclass(slots=True, weakref_slot=True)
class WorkerProcess:
    """A process of `command`, which serves requests for at most `timeout` seconds each, and is replaced if it ends.

    Its standard error goes to `log`, if given. It ends with this object, or with the context. After a fork, the new
    process gets a worker of its own.
    """

    command: tuple[str, ...]
    timeout: float
    log: Path | None = None
    _process: subprocess.Popen[str] | None = field(default=None, init=False)
    _owner: int = field(default=0, init=False)
    _is_busy: bool = field(default=False, init=False)
    _is_unused: bool = field(default=True, init=False)
    _request: str | None = field(default=None, init=False)  # that was sent once
    _terminate_process: Callable[[], object] = field(default=lambda: None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.terminate()

    @property
    def pid(self) -> int | None:
        """The id of the running process."""
        process = self._running()
        return process.pid if process is not None else None

    def request(self, message: Message, timeout: float | None = None, *, retry: bool = False) -> Message:
        """Send a request; return all parts of the reply. Raises RequestFailed or WorkerExit.

        With `retry`, a crash of a process that served other requests, which may have damaged it, counts only if a new
        process crashes too.
        """
        is_fresh = self._running() is None
        self.begin(message)
        try:
            return self.reply(timeout)
        except WorkerExit as e:
            if not retry or is_fresh or e.code is None:
                raise
        self.begin(message)
        return self.reply(timeout)

    @property
    def is_busy(self) -> bool:
        """Whether its last request has no reply yet."""
        return self._is_busy

    @property
    def is_unused(self) -> bool:
        """Whether its process had no request so far, or is not running yet."""
        return self._running() is None or self._is_unused

    @property
    def is_alive(self) -> bool:
        """Whether its process is running."""
        process = self._running()
        return process is not None and process.poll() is None

    def start(self) -> None:
        """Start the process, unless it is running; one that ended because it was idle is replaced.

        One that crashed between requests is not: what it had loaded is gone, which the next request reports.
        """
        process = self._running()
        if process is not None and not self._is_busy and process.poll() == 0:
            self.terminate()
        if self._running() is None:
            self._process, self._owner = self._start(), os.getpid()
            self._is_busy, self._is_unused = False, True

    def begin(self, message: Message) -> None:
        """Send a request, for `reply` to wait for; the reply to an earlier one is discarded."""
        if self._is_busy and self._running() is not None:
            with suppress(WorkerError):
                self.reply()
        self._request = json.dumps(message) + "\n"
        self._send(self._request)

    def reply(self, timeout: float | None = None) -> Message:
        """Wait for all parts of the reply to the request that was sent. Raises RequestFailed or WorkerExit."""
        process = self._running()
        assert process is not None
        reply: Message = {}
        seconds = self.timeout if timeout is None else timeout
        try:
            is_late = self._collect(process, reply, seconds)
        except BaseException:
            self.terminate()  # later lines would be taken for the reply to the next request
            raise
        self._is_busy = False
        seconds = reply.pop(NEXT_WITHIN, None) or seconds
        if "failure" not in reply:
            self.terminate()
            again, self._request = self._request, None
            if again is not None and not reply and not is_late and process.returncode == 0:
                self._send(again)  # that process was ending because it was idle
                return self.reply(timeout)
            log = self.log.read_text(encoding="utf-8", errors="replace") if self.log is not None else ""
            last_line = next((line for line in reversed(log.split("\n")) if line.strip()), "")
            raise WorkerExit(None if is_late else process.returncode, seconds, last_line, reply)
        failure = reply.pop("failure")
        if failure is not None:
            raise RequestFailed(failure, reply)
        return reply

    def _send(self, request: str) -> None:
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        self._is_busy, self._is_unused = True, False
        with suppress(OSError):  # it has ended, which `reply` finds
            self._process.stdin.write(request)
            self._process.stdin.flush()

    def _collect(self, process: subprocess.Popen[str], reply: Message, timeout: float) -> bool:
        """Add the parts to `reply` up to the last one or the end of the process; return whether it was too late."""
        assert process.stdout is not None
        whole, deadline = monotonic() + timeout, None
        while "failure" not in reply:
            until = min(whole if deadline is None else deadline, time_limit_end())
            with call_after(max(0.0, until - monotonic()), process.kill) as late:
                line = process.stdout.readline()
            if not line.endswith("\n"):  # the end, or a line cut off by a crash
                with suppress(subprocess.TimeoutExpired):
                    process.wait(EXIT_WAIT)
                if late.is_set():
                    require_time()
                return late.is_set()
            part = json.loads(line)
            reply |= part
            if NEXT_WITHIN in part:
                deadline = monotonic() + part[NEXT_WITHIN] if part[NEXT_WITHIN] is not None else None
        return False

    def ask_to_end(self) -> None:
        """Send SIGTERM to the process, if one is running; any thread may."""
        self._request = None
        if (process := self._running()) is not None:
            process.terminate()

    def kill(self) -> None:
        """Kill the process, if one is running, whose reply another thread awaits."""
        if (process := self._running()) is not None:
            process.kill()

    def wait(self, seconds: float) -> None:
        """Wait for the end of the process, which has no request, and kill it after so many seconds."""
        if (process := self._running()) is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            self.terminate()

    def terminate(self) -> None:
        """End the process, if one is running."""
        self._terminate_process()
        self._process = None

    def _running(self) -> subprocess.Popen[str] | None:
        """The process, unless there is none, or it belongs to the process of which this one is a fork."""
        return self._process if self._owner == os.getpid() else None

    def _start(self) -> subprocess.Popen[str]:
        """Start a process with the module search path of this one, but the standard library first.

        A script may have a file such as random.py beside it, which nothing here imported so far.
        """
        library = Path(os.__file__).parent
        is_other = {p: Path(p) not in {library, library / "lib-dynload"} for p in sys.path if p}
        path = os.pathsep.join(sorted(is_other, key=lambda p: is_other[p]))
        with Path(self.log or os.devnull).open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - this interpreter, this package
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
                env={**IDLE_THREADS, **os.environ, "PYTHONPATH": path},
            )
        self._terminate_process = finalize(self, _kill_and_wait, process, os.getpid())
        _processes_to_leave_to_parent().add(process)
        return process


def serve(
    handler: Callable[[Message], Iterable[Message]],
    failures: tuple[type[BaseException], ...] = (Exception,),
    describe: Callable[[BaseException], str] = str,
    idle_limit: Callable[[], float | None] = lambda: None,
    clean_up: Callable[[], object] = lambda: None,
) -> None:
    """Reply to the requests on standard input with the parts that `handler` yields, until the input ends.

    An exception of the types `failures` is sent as a failure, formatted by `describe`; others end the process. It ends
    without a request for `idle_limit()` seconds. If the parent ends first, `clean_up` is called. Ctrl-C is left to the
    parent.
    """
    signal(SIGINT, SIG_IGN)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output:
        os.dup2(2, 1)  # printed text is not a reply
        requests = SimpleQueue[str]()

        def read_requests() -> None:
            with os.fdopen(os.dup(0), encoding="utf-8") as lines:
                for line in lines:
                    requests.put(line)
            try:
                clean_up()
            finally:
                os._exit(0)  # the parent does not wait for a reply any more

        start_new_thread(read_requests, ())

        def send(message: Message) -> None:
            output.write(json.dumps(message) + "\n")
            output.flush()

        while True:
            try:
                request = json.loads(requests.get(timeout=idle_limit()))
            except Empty:
                return
            try:
                for part in handler(request):
                    send(part)
            except KeyboardInterrupt:
                raise
            except failures as e:
                send({"failure": describe(e)})
            else:
                send({"failure": None})


def _kill_and_wait(process: subprocess.Popen[str], owner: int) -> None:
    if os.getpid() == owner:
        process.kill()
        process.communicate()


@cache
def _processes_to_leave_to_parent() -> WeakSet[subprocess.Popen[str]]:
    """The processes that this one started; a fork of it neither writes to them nor keeps their pipes open."""
    processes: WeakSet[subprocess.Popen[str]] = WeakSet()

    def detach() -> None:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for process in processes:
            for pipe in filter(None, (process.stdin, process.stdout)):
                if not pipe.closed:
                    os.dup2(nowhere, pipe.fileno())
        processes.clear()
        os.close(nowhere)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=detach)
    return processes
