"""Probes of onnxruntime in a worker process: `python -m <this module> FOLDER`.

The folder has the model, inputs and expected outputs. A request is a SessionConfig, the reply names each input set
before its run.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ...core.errors import EvaluationError
from ...core.io.split_models import Loadable
from ...core.ort import value_files
from ...core.ort.backends import OnnxRuntime
from ...core.ort.sessions import SessionConfig
from ...core.ort.worker_process import RequestFailed, WorkerExit, WorkerProcess, module_command, serve
from ...core.verify.oracle import Oracle
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.output_comparison import compare_outputs

PROBE_TIMEOUT = 300.0  # seconds for a probe
CASE_FILE = "case.json"
LOG_FILE = "log"  # the standard error of the last worker
WORKER = module_command(f"{__package__}.probe_process")
TRACEBACK_EXIT_CODES = {0, 1}  # of a Python process that ends by itself, or with a traceback


def write_case(oracle: Oracle | OracleProcess, model: Loadable, folder: Path) -> None:
    """Write a case into an empty `folder`; a model in a file stays there.

    Raises UnverifiableError for values that cannot be stored.
    """
    path = folder / "model.onnx"
    if isinstance(model, bytes):
        path.write_bytes(model)
    else:
        path = model.absolute()
    answers = deque(oracle.answers)
    labels = [str(answer.input_set) for answer in answers]
    for i in range(len(answers)):  # the outputs of one answer are in memory
        answer = answers.popleft()
        value_files.write_value(dict(answer.input_set.feeds), folder / f"feeds-{i}")
        value_files.write_value(dict(answer.outputs), folder / f"outputs-{i}")
    random = sorted(oracle.spec.random_outputs)
    case = {"model": str(path), "names": oracle.output_names, "random": random, "inputs": labels}
    (folder / CASE_FILE).write_text(json.dumps(case), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    """A failure in one line, and the input set that caused it, if any."""

    reason: str
    input_set: str | None = None

    def __str__(self) -> str:
        return f"{self.reason}, on {self.input_set}" if self.input_set is not None else self.reason


def probe_process(folder: Path, timeout: float = PROBE_TIMEOUT, command: tuple[str, ...] = WORKER) -> WorkerProcess:
    """A worker for probes of the case in `folder`."""
    return WorkerProcess((*command, str(folder)), timeout, folder / LOG_FILE)


def probe(process: WorkerProcess, config: SessionConfig) -> ProbeFailure | None:
    """The failure of the model under a config. Raises EvaluationError if the worker itself fails."""
    try:
        process.request(asdict(config), retry=True)
    except RequestFailed as e:
        return ProbeFailure(str(e), e.parts.get("input_set"))
    except WorkerExit as e:
        if e.code in TRACEBACK_EXIT_CODES:
            raise EvaluationError(e.describe("the process for onnxruntime")) from e
        return ProbeFailure(e.describe("onnxruntime"), e.parts.get("input_set"))
    return None


def reply(folder: Path, request: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Compare the outputs on all input sets in the worker. Raises EvaluationError for the first failure."""
    case = json.loads((folder / CASE_FILE).read_text(encoding="utf-8"))
    path = Path(case["model"])
    model = path.read_bytes() if path.parent == folder else path  # as it was given: errors name the file
    runtime = OnnxRuntime(model, SessionConfig(**request))
    for i, label in enumerate(case["inputs"]):
        yield {"input_set": label}
        expected: dict[str, Any] = value_files.read_value(folder / f"outputs-{i}")
        results = runtime.run(case["names"], value_files.read_value(folder / f"feeds-{i}"))
        for name, result in zip(case["names"], results, strict=True):
            is_deterministic = name not in case["random"]
            difference = compare_outputs(expected[name], result, exact=False, compare_values=is_deterministic)
            if difference.reason:
                raise EvaluationError(f"{name}: {difference.reason}")


if __name__ == "__main__":
    serve(partial(reply, Path(sys.argv[1])), (EvaluationError,))
