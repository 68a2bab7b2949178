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
from ...core.ort.sessions import Loadable, SessionConfig
from ...core.ort.worker_process import WorkerProcess
from ...core.verify.oracle import Oracle

CASE_INDEX = "case.json"


@dataclass(frozen=True, slots=True)
class ComparisonCase:
    """A model, the names of its outputs, those that are `random_outputs`, and the draws by the words for them."""

    folder: Path
    model: Loadable
    output_names: list[str]
    random_outputs: list[str]
    input_labels: list[str]

    def answers(self) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        """Each draw: the words for it, what is fed, what the original gives."""
        for i, label in enumerate(self.input_labels):
            yield (
                label,
                value_files.read_value(self.folder / f"feeds-{i}"),
                value_files.read_value(self.folder / f"outputs-{i}"),
            )


def write_case(oracle: Oracle, model: Loadable, folder: Path) -> None:
    """Put all of it into an empty `folder`, but not a model that has a file.

    Raises UnverifiableError for odd values.
    """
    path = folder / "model.onnx"
    if isinstance(model, bytes):
        path.write_bytes(model)
    else:
        path = model.absolute()
    for i, answer in enumerate(oracle.answers):
        value_files.write_value(answer.input_set.feeds, folder / f"feeds-{i}")
        value_files.write_value(answer.outputs, folder / f"outputs-{i}")
    draws = [str(answer.input_set) for answer in oracle.answers]
    index = {"model": str(path), "names": oracle.output_names, "random": sorted(oracle.random_outputs), "draws": draws}
    (folder / CASE_INDEX).write_text(json.dumps(index), encoding="utf-8")


def read_case(folder: Path) -> ComparisonCase:
    """What `write_case` put there."""
    index: dict[str, Any] = json.loads((folder / CASE_INDEX).read_text(encoding="utf-8"))
    path = Path(index["model"])
    model = path.read_bytes() if path.parent == folder else path  # as it came: errors name the file
    return ComparisonCase(folder, model, index["names"], index["random"], index["draws"])


PROBE_TIMEOUT = 300.0  # seconds for a probe
WORKER = f"{__package__}.probe_worker"
TRACEBACK_EXIT_CODE = 1  # the exit code of a Python process that ends with a traceback


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    """What went wrong, on one line, and on which draw if it was on one."""

    reason: str
    input_set: str | None = None

    def __str__(self) -> str:
        return f"{self.reason}, on {self.input_set}" if self.input_set is not None else self.reason


@dataclass(slots=True)
class ProbeProcess:
    """A process that serves many probes; another is started when it dies. `log` is what it wrote to standard error."""

    folder: Path
    timeout: float = PROBE_TIMEOUT
    command: tuple[str, ...] = (sys.executable, "-P", "-m", WORKER)
    _process: WorkerProcess = field(init=False)

    def __post_init__(self) -> None:
        self._process = WorkerProcess((*self.command, str(self.folder)), self.timeout, self.log)

    @property
    def log(self) -> Path:
        """Of the process that served last."""
        return self.folder / "log"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()

    def probe(self, config: SessionConfig) -> ProbeFailure | None:
        """How the model fails under a setting. Raises EvaluationError if the process itself fails.

        A process that has served before may have been damaged by that; if it crashes, a new one is asked.
        """
        is_fresh = self._process.is_fresh
        failure, crashed = self._probe(config)
        return self._probe(config)[0] if crashed and not is_fresh else failure

    def _probe(self, config: SessionConfig) -> tuple[ProbeFailure | None, bool]:
        """The failure, and whether it was a crash."""
        heard: dict[str, Any] = {}

        def hear(answer: dict[str, Any]) -> bool:
            heard.update(answer)
            return "failure" in answer

        end = self._process.stream(asdict(config), hear)
        draw = heard.get("draw")
        if end is None:
            return (ProbeFailure(heard["failure"], draw) if heard["failure"] is not None else None), False
        if end.code is None:
            return ProbeFailure(f"onnxruntime did not end within {self.timeout:g} s", draw), False
        return ProbeFailure(self._crash_message(end.code), draw), True

    def _crash_message(self, code: int) -> str:
        if code < 0:
            return f"onnxruntime crashed (signal {-code})"
        if code in {0, TRACEBACK_EXIT_CODE}:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            raise EvaluationError(f"the process for onnxruntime ended: {lines[-1] if lines else f'exit code {code}'}")
        return f"onnxruntime crashed (exit code {code})"
