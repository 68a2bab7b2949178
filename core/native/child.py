"""Asking onnxruntime in a process of its own, which it may take down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event, Timer
from types import TracebackType
from typing import Any, Self

from ..errors import EvaluationError
from ..runtime import Setting

LIMIT = 300.0  # seconds for a probe
DYING = 10.0  # seconds between its last word and its exit code
WORKER = f"{__package__}.worker"
TROUBLE = 1  # the exit code of a Python process that ends with a traceback


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, on one line, and on which draw if it was on one."""

    reason: str
    draw: str | None = None

    def __str__(self) -> str:
        return f"{self.reason}, on {self.draw}" if self.draw is not None else self.reason


@dataclass(slots=True)
class Child:
    """A process that serves many probes; another is started when it dies. `log` is what it wrote to standard error."""

    folder: Path
    limit: float = LIMIT
    command: tuple[str, ...] = (sys.executable, "-P", "-m", WORKER)
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    @property
    def log(self) -> Path:
        """Of the process that served last."""
        return self.folder / "log"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def ask(self, setting: Setting) -> Failure | None:
        """How the model fails under a setting. Raises EvaluationError if the process itself fails.

        A process that has served before may have been damaged by that; if it crashes, a new one is asked.
        """
        is_fresh = self._process is None
        failure, crashed = self._ask(setting)
        return self._ask(setting)[0] if crashed and not is_fresh else failure

    def _ask(self, setting: Setting) -> tuple[Failure | None, bool]:
        """The failure, and whether it was a crash."""
        process = self._process = self._process or self._started()
        late = Event()
        timer = Timer(self.limit, _kill, (process, late))
        timer.start()
        draw: str | None = None
        try:
            for answer in _conversation(process, json.dumps(asdict(setting))):
                draw = answer.get("draw", draw)
                if "failure" in answer:
                    reason = answer["failure"]
                    return (Failure(reason, draw) if reason is not None else None), False
            with suppress(subprocess.TimeoutExpired):
                process.wait(DYING)
        finally:
            timer.cancel()
            timer.join()
        self._end()
        if late.is_set():
            return Failure(f"onnxruntime did not end within {self.limit:g} s", draw), False
        return Failure(self._death(process.returncode), draw), True

    def _started(self) -> subprocess.Popen[str]:
        """A process that finds the modules that this one finds."""
        path = os.pathsep.join(p for p in sys.path if p)
        with self.log.open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - this interpreter, this package
                [*self.command, str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
                env=os.environ | {"PYTHONPATH": path},
            )

    def _death(self, code: int) -> str:
        if code < 0:
            return f"onnxruntime crashed (signal {-code})"
        if code in {0, TROUBLE}:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            raise EvaluationError(f"the process for onnxruntime ended: {lines[-1] if lines else f'exit code {code}'}")
        return f"onnxruntime crashed (exit code {code})"

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _conversation(process: subprocess.Popen[str], probe: str) -> Iterator[dict[str, Any]]:
    """The lines of an answer; they stop early when the process dies."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(probe + "\n")
        process.stdin.flush()
    except OSError:
        return
    for line in process.stdout:
        if line.endswith("\n"):  # a line cut off by a crash does not
            yield json.loads(line)


def _kill(process: subprocess.Popen[str], late: Event) -> None:
    late.set()
    process.kill()
