"""Worker processes for code that may crash, hang or print: requests and replies as lines of JSON.

A request is an object. Its reply is any number of objects, taken together; the last has the key `failure`: a text, or
null if the request succeeded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from _thread import start_new_thread
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from signal import Signals
from threading import Event, Timer
from types import TracebackType
from typing import Any, Self
from weakref import finalize

Message = dict[str, Any]
EXIT_WAIT = 10.0  # seconds between the last line of a process and its exit code


class WorkerError(Exception):
    """A request without a result; `parts` is the part of the reply that came before."""

    def __init__(self, message: str, parts: Message) -> None:
        super().__init__(message)
        self.parts = parts


class RequestFailed(WorkerError):
    """A request to which the worker replied with a failure."""


class WorkerExit(WorkerError):
    """A process that ended before its reply: its exit code `code`, None if it was killed after `timeout` seconds."""

    def __init__(self, code: int | None, timeout: float, last_line: str, parts: Message) -> None:
        self.code = code
        self.timeout = timeout
        self.last_line = last_line
        super().__init__(self.describe("it"), parts)

    def describe(self, subject: str) -> str:
        """The end of the process in words; `subject` is the name of the program."""
        if self.code is None:
            return f"{subject} did not end within {self.timeout:g} s"
        if self.code < 0:
            with suppress(ValueError):
                return f"{subject} crashed ({Signals(-self.code).name})"
        return f"{subject} ended with exit code {self.code}" + (f": {self.last_line}" if self.last_line else "")


def module_command(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a module as a worker in this interpreter."""
    return (sys.executable, "-P", "-m", module, *arguments)


@dataclass(slots=True, weakref_slot=True)
class WorkerProcess:
    """A process of `command`, which serves requests for at most `timeout` seconds each, and is replaced if it ends.

    Its standard error goes to `log`, if given. It ends with this object, or with the context.
    """

    command: tuple[str, ...]
    timeout: float
    log: Path | None = None
    _process: subprocess.Popen[str] | None = field(default=None, init=False)
    _terminate_process: Callable[[], object] = field(default=lambda: None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.terminate()

    @property
    def pid(self) -> int | None:
        """The id of the running process."""
        return self._process.pid if self._process is not None else None

    def request(self, message: Message, timeout: float | None = None, *, retry: bool = False) -> Message:
        """Send a request; return all parts of the reply. Raises RequestFailed or WorkerExit.

        With `retry`, a crash of a process that served other requests, which may have damaged it, counts only if a new
        process crashes too.
        """
        is_fresh = self._process is None
        seconds = self.timeout if timeout is None else timeout
        try:
            return self._request(message, seconds)
        except WorkerExit as e:
            if not retry or is_fresh or e.code is None:
                raise
        return self._request(message, seconds)

    def _request(self, message: Message, timeout: float) -> Message:
        process = self._process = self._process or self._start()
        reply: Message = {}
        late = Event()

        def kill_late() -> None:
            late.set()
            process.kill()

        timer = Timer(timeout, kill_late)
        timer.start()
        try:
            for part in _reply_parts(process, json.dumps(message)):
                reply |= part
                if "failure" in part:
                    break
            else:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(EXIT_WAIT)
        except BaseException:
            self.terminate()  # later lines would be taken for the reply to the next request
            raise
        finally:
            timer.cancel()
            timer.join()
        if "failure" not in reply:
            self.terminate()
            log = self.log.read_text(encoding="utf-8", errors="replace") if self.log is not None else ""
            last_line = next((line for line in reversed(log.split("\n")) if line.strip()), "")
            raise WorkerExit(None if late.is_set() else process.returncode, timeout, last_line, reply)
        failure = reply.pop("failure")
        if failure is not None:
            raise RequestFailed(failure, reply)
        return reply

    def terminate(self) -> None:
        """End the process, if one is running."""
        self._terminate_process()
        self._process = None

    def _start(self) -> subprocess.Popen[str]:
        """Start a process with the module search path of this one."""
        path = os.pathsep.join(p for p in sys.path if p)
        with Path(self.log or os.devnull).open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - this interpreter, this package
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
                env=os.environ | {"PYTHONPATH": path},
            )
        self._terminate_process = finalize(self, _kill_and_wait, process)
        return process


def serve(
    handler: Callable[[Message], Iterable[Message]],
    failures: tuple[type[BaseException], ...] = (Exception,),
    describe: Callable[[BaseException], str] = str,
) -> None:
    """Reply to the requests on standard input with the parts that `handler` yields, until the input ends.

    An exception of the types `failures` is sent as a failure, formatted by `describe`; others end the process.
    """
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output:
        os.dup2(2, 1)  # printed text is not a reply
        requests = SimpleQueue[str]()

        def read_requests() -> None:
            with os.fdopen(os.dup(0), encoding="utf-8") as lines:
                for line in lines:
                    requests.put(line)
            os._exit(0)  # the parent does not wait for a reply any more

        start_new_thread(read_requests, ())

        def send(message: Message) -> None:
            output.write(json.dumps(message) + "\n")
            output.flush()

        while True:
            try:
                for part in handler(json.loads(requests.get())):
                    send(part)
            except KeyboardInterrupt:
                raise
            except failures as e:
                send({"failure": describe(e)})
            else:
                send({"failure": None})


def _reply_parts(process: subprocess.Popen[str], request: str) -> Iterator[Message]:
    """Send a request and yield the lines of its reply; fewer if the process ends early."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(request + "\n")
        process.stdin.flush()
    except OSError:
        return
    for line in process.stdout:
        if line.endswith("\n"):  # a line cut off by a crash does not
            yield json.loads(line)


def _kill_and_wait(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
