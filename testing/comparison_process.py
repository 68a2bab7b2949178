"""Comparisons in a worker process, which onnxruntime may crash."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from ..core.errors import UnverifiableError
from ..core.processes.worker_process import WorkerExit, WorkerProcess, module_command, serve
from .case import FaultKind
from .model_comparison import ComparisonRequest, Discrepancy, compare_models

TIMEOUT = 60.0  # seconds for a comparison


class ComparisonWorker:
    """Comparisons in this process."""

    def compare(self, request: ComparisonRequest) -> Discrepancy | None:
        """Compare two models."""
        return compare_models(request)


@dataclass(slots=True)
class ComparisonProcess:
    """Compares models in a worker process; one that crashes, or takes longer than `timeout`, is replaced."""

    timeout: float = TIMEOUT
    _process: WorkerProcess[ComparisonWorker] = field(init=False)

    def __post_init__(self) -> None:
        self._process = WorkerProcess(module_command(__name__), self.timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()

    def __call__(self, request: ComparisonRequest) -> Discrepancy | None:
        """Compare two models. A crash on the rewritten model alone is a discrepancy.

        Raises UnverifiableError if the original crashes too, and RequestFailed with the traceback of any other error.
        """
        try:
            return self._process.call().compare(request)
        except WorkerExit as e:
            message = f"on the rewritten model, {e.describe('onnxruntime')}"
        try:
            self._process.call().compare(replace(request, after=request.before))
        except WorkerExit as e:
            raise UnverifiableError(f"on the generated model, {e.describe('onnxruntime')}") from e
        return Discrepancy(FaultKind.REFUSED, message)


def main() -> None:
    """Serve the parent until it ends."""
    serve(ComparisonWorker())
