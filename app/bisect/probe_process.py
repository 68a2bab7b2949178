"""What a process of its own is to hold onnxruntime to: a model, inputs and the original's answers, in a folder.

Asking onnxruntime in a process of its own, which it may take down.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...core.errors import EvaluationError
from ...core.ort import value_files
from ...core.ort.sessions import Loadable, Setting
from ...core.ort.worker_process import Process
from ...core.verify.oracle import Oracle

INDEX = "case.json"


@dataclass(frozen=True, slots=True)
class Case:
    """A model, the names of its outputs, those that are `random`, and the draws by the words for them."""

    folder: Path
    model: Loadable
    names: list[str]
    random: list[str]
    draws: list[str]

    def answers(self) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        """Each draw: the words for it, what is fed, what the original gives."""
        for i, label in enumerate(self.draws):
            yield label, value_files.read(self.folder / f"feeds-{i}"), value_files.read(self.folder / f"outputs-{i}")


def write_case(oracle: Oracle, model: Loadable, folder: Path) -> None:
    """Put all of it into an empty `folder`, but not a model that has a file. Raises Unverifiable for odd values."""
    path = folder / "model.onnx"
    if isinstance(model, bytes):
        path.write_bytes(model)
    else:
        path = model.absolute()
    for i, answer in enumerate(oracle.answers):
        value_files.write(answer.draw.feeds, folder / f"feeds-{i}")
        value_files.write(answer.outputs, folder / f"outputs-{i}")
    draws = [str(answer.draw) for answer in oracle.answers]
    index = {"model": str(path), "names": oracle.names, "random": sorted(oracle.random), "draws": draws}
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")


def read_case(folder: Path) -> Case:
    """What `write_case` put there."""
    index: dict[str, Any] = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    path = Path(index["model"])
    model = path.read_bytes() if path.parent == folder else path  # as it came: errors name the file
    return Case(folder, model, index["names"], index["random"], index["draws"])


LIMIT = 300.0  # seconds for a probe
WORKER = f"{__package__}.probe_worker"
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
    _process: Process = field(init=False)

    def __post_init__(self) -> None:
        self._process = Process((*self.command, str(self.folder)), self.limit, self.log)

    @property
    def log(self) -> Path:
        """Of the process that served last."""
        return self.folder / "log"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.end()

    def ask(self, setting: Setting) -> Failure | None:
        """How the model fails under a setting. Raises EvaluationError if the process itself fails.

        A process that has served before may have been damaged by that; if it crashes, a new one is asked.
        """
        is_fresh = self._process.is_fresh
        failure, crashed = self._ask(setting)
        return self._ask(setting)[0] if crashed and not is_fresh else failure

    def _ask(self, setting: Setting) -> tuple[Failure | None, bool]:
        """The failure, and whether it was a crash."""
        heard: dict[str, Any] = {}

        def hear(answer: dict[str, Any]) -> bool:
            heard.update(answer)
            return "failure" in answer

        end = self._process.ask(asdict(setting), hear)
        draw = heard.get("draw")
        if end is None:
            return (Failure(heard["failure"], draw) if heard["failure"] is not None else None), False
        if end.code is None:
            return Failure(f"onnxruntime did not end within {self.limit:g} s", draw), False
        return Failure(self._death(end.code), draw), True

    def _death(self, code: int) -> str:
        if code < 0:
            return f"onnxruntime crashed (signal {-code})"
        if code in {0, TROUBLE}:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            raise EvaluationError(f"the process for onnxruntime ended: {lines[-1] if lines else f'exit code {code}'}")
        return f"onnxruntime crashed (exit code {code})"
