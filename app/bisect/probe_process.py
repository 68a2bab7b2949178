"""Probes of onnxruntime in a worker process, which reads the model, inputs and expected outputs from a folder."""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...core.errors import EvaluationError
from ...core.io.split_models import Loadable, SplitFile, file_of, load_file
from ...core.ort import value_files
from ...core.ort.backends import LoadedModel
from ...core.ort.sessions import SessionConfig
from ...core.processes.custom_operators import runtime_name
from ...core.processes.process_limits import MODEL_MEMORY
from ...core.processes.worker_process import Command, Parent, RequestFailed, WorkerExit, WorkerProcess, module_command
from ...core.verify.oracle import Oracle
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.output_comparison import compare_outputs

PROBE_TIMEOUT = 300.0  # seconds for a probe
CASE_FILE = "case"
LOG_FILE = "log"  # the standard error of the last worker
WORKER = module_command(__name__)
TRACEBACK_EXIT_CODES = {0, 1}  # exit codes of a Python process that ends normally or with a traceback


class ProbeCase(Struct, frozen=True):
    """The model of a case, its output names, its random outputs, and descriptions of the input sets."""

    model: Path | SplitFile
    names: list[str]
    random: list[str]
    inputs: list[str]


def write_case(oracle: Oracle | OracleProcess, model: Loadable, folder: Path) -> None:
    """Write a case into the empty `folder`; a model in a file is not copied.

    Raises UnverifiableError for values that cannot be stored.
    """
    runs = deque(oracle.runs)
    labels = [str(run.input_set) for run in runs]
    for i in range(len(runs)):  # one run at a time, because its outputs are in memory
        run = runs.popleft()
        value_files.write_value(dict(run.input_set.feeds), folder / f"feeds-{i}")
        value_files.write_value(dict(run.outputs), folder / f"outputs-{i}")
    random = sorted(oracle.spec.random_outputs)
    value_files.write_value(
        ProbeCase(file_of(model, folder / "model.onnx"), oracle.output_names, random, labels), folder / CASE_FILE
    )


class ProbeFailure(Struct, frozen=True):
    """A failure in one line, and the input set that caused it, if known."""

    reason: str
    input_set: str | None = None

    def __str__(self) -> str:
        return f"{self.reason}, on {self.input_set}" if self.input_set is not None else self.reason


def probe_process(
    folder: Path, timeout: float = PROBE_TIMEOUT, command: Command = WORKER, memory: int | None = MODEL_MEMORY
) -> WorkerProcess[ProbeWorker]:
    """Start a worker for probes of the case in `folder`, with this memory limit in bytes."""
    return WorkerProcess((*command, str(folder)), timeout, folder / LOG_FILE, memory)


def probe(process: WorkerProcess[ProbeWorker], config: SessionConfig) -> ProbeFailure | None:
    """Return the failure of the model under a config. Raises EvaluationError if the worker itself fails."""
    try:
        return process.call(retry=True).probe(config)
    except WorkerExit as e:
        if e.code in TRACEBACK_EXIT_CODES:
            raise EvaluationError(e.describe("the process for onnxruntime")) from e
        return ProbeFailure(e.describe(runtime_name()), e.progress)
    except RequestFailed as e:
        raise EvaluationError(f"the process for onnxruntime failed: {e}") from e


class ProbeWorker(Struct, frozen=True):
    """Probes of the case in `folder`, run in this process."""

    folder: Path
    parent: Parent

    def probe(self, config: SessionConfig) -> ProbeFailure | None:
        """Compare the outputs on all input sets; report the name of each to the parent before its run."""
        case: ProbeCase = value_files.read_value(self.folder / CASE_FILE)
        label = None
        try:
            runtime = LoadedModel(load_file(case.model), config)
            for i, label in enumerate(case.inputs):
                self.parent.report(label)
                self._compare(i, case, runtime)
        except EvaluationError as e:
            return ProbeFailure(str(e), label)
        return None

    def _compare(self, number: int, case: ProbeCase, runtime: LoadedModel) -> None:
        """Compare the outputs on one input set. Raises EvaluationError."""
        expected: dict[str, Any] = value_files.read_value(self.folder / f"outputs-{number}")
        results = runtime.run(case.names, value_files.read_value(self.folder / f"feeds-{number}"))
        for name, result in zip(case.names, results, strict=True):
            is_deterministic = name not in case.random
            difference = compare_outputs(expected[name], result, exact=False, compare_values=is_deterministic)
            if difference.reason:
                raise EvaluationError(f"{name}: {difference.reason}")


def main() -> None:
    """Serve the parent until it ends."""
    parent = Parent()
    parent.serve(ProbeWorker(Path(sys.argv[1]), parent))
