"""A process of its own for what may crash, hang or print: it answers questions, a line of JSON each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from signal import Signals
from threading import Event, Timer
from typing import Any
from weakref import finalize

EXIT_WAIT = 10.0  # seconds between its last word and its exit code


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a process ended before it had answered: its exit code; None if it took too long and was ended."""

    code: int | None

    def __str__(self) -> str:
        if self.code is None:
            return "it did not end in time"
        if self.code < 0:
            with suppress(ValueError):
                return f"the process died of {Signals(-self.code).name}"
        return f"the process ended with exit code {self.code}"


@dataclass(slots=True, weakref_slot=True)
class WorkerProcess:
    """`command` serves many questions, for at most `timeout` seconds each; it is started anew when it has died.

    What it writes to standard error goes to `log`, or nowhere. It ends with this object at the latest.
    """

    command: tuple[str, ...]
    timeout: float
    log: Path | None = None
    _process: subprocess.Popen[str] | None = field(default=None, init=False)
    _terminate_process: Callable[[], object] = field(default=lambda: None, init=False)

    @property
    def is_fresh(self) -> bool:
        """Whether the next question is the first that the process is asked."""
        return self._process is None

    @property
    def pid(self) -> int | None:
        """The number of the process that is running."""
        return self._process.pid if self._process is not None else None

    def stream(self, request: dict[str, Any], on_reply: Callable[[dict[str, Any]], bool]) -> ProcessExit | None:
        """Put a question. `on_reply` is given each answer, and says whether it was the last; None if that one came."""
        process = self._process = self._process or self._start()
        late = Event()
        timer = Timer(self.timeout, _kill_late, (process, late))
        timer.start()
        try:
            for answer in _replies(process, json.dumps(request)):
                if on_reply(answer):
                    return None
            with suppress(subprocess.TimeoutExpired):
                process.wait(EXIT_WAIT)
        except BaseException:
            self.terminate()  # what it says from now on would be taken for an answer to the next question
            raise
        finally:
            timer.cancel()
            timer.join()
        self.terminate()
        return ProcessExit(None if late.is_set() else process.returncode)

    def request(self, message: dict[str, Any]) -> tuple[ProcessExit | None, dict[str, Any]]:
        """Put a question that has one answer: how the process ended if that did not come, and the answer."""
        said: dict[str, Any] = {}

        def hear(answer: dict[str, Any]) -> bool:
            said.update(answer)
            return True

        return self.stream(message, hear), said

    def terminate(self) -> None:
        """End the process, if one is running."""
        self._terminate_process()
        self._process = None

    def _start(self) -> subprocess.Popen[str]:
        """A process that finds the modules that this one finds."""
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


def serve(reply: Callable[[dict[str, Any]], Iterator[dict[str, Any]]]) -> None:
    """Be the other end: answer what comes on standard input. When that ends, so does this process, come what may."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # what anything prints is no answer
        questions = SimpleQueue[str]()
        start_new_thread(_read_requests, (questions,))
        while True:
            for answer in reply(json.loads(questions.get())):
                answers.write(json.dumps(answer) + "\n")
                answers.flush()


def _read_requests(questions: SimpleQueue[str]) -> None:
    """Pass on what is asked; nobody waits for an answer any more when the one who asks is gone."""
    with os.fdopen(os.dup(0), encoding="utf-8") as asked:
        for line in asked:
            questions.put(line)
    os._exit(0)


def _replies(process: subprocess.Popen[str], request: str) -> Iterator[dict[str, Any]]:
    """The lines of an answer; they stop early when the process dies."""
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


def _kill_late(process: subprocess.Popen[str], late: Event) -> None:
    late.set()
    process.kill()


def _kill_and_wait(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
