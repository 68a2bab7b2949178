"""Probes of onnxruntime in a worker process, with their model, inputs and expected outputs in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...core.errors import EvaluationError
from ...core.ort import value_files
from ...core.ort.sessions import Loadable, SessionConfig
from ...core.ort.worker_process import RequestFailed, WorkerExit, WorkerProcess, module_command
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
TRACEBACK_EXIT_CODES = {0, 1}  # of a Python process that ends by itself, or with a traceback


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    """What went wrong, on one line, and on which draw if it was on one."""

    reason: str
    input_set: str | None = None

    def __str__(self) -> str:
        return f"{self.reason}, on {self.input_set}" if self.input_set is not None else self.reason


def probe_log(folder: Path) -> Path:
    """The standard error of the process that served last."""
    return folder / "log"


def probe_process(
    folder: Path, timeout: float = PROBE_TIMEOUT, command: tuple[str, ...] = module_command(WORKER)
) -> WorkerProcess:
    """A process that serves probes of the case in `folder`."""
    return WorkerProcess((*command, str(folder)), timeout, probe_log(folder))


def probe(process: WorkerProcess, config: SessionConfig) -> ProbeFailure | None:
    """How the model fails under a config. Raises EvaluationError if the process itself fails."""
    try:
        process.request(asdict(config), retry=True)
    except RequestFailed as e:
        return ProbeFailure(str(e), e.parts.get("draw"))
    except WorkerExit as e:
        if e.code in TRACEBACK_EXIT_CODES:
            raise EvaluationError(e.describe("the process for onnxruntime")) from e
        return ProbeFailure(e.describe("onnxruntime"), e.parts.get("draw"))
    return None
