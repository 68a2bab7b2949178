"""Comparisons in a worker process, which onnxruntime may crash."""

from __future__ import annotations

import pickle
import traceback
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from ..core.errors import PassesError, UnverifiableError
from ..core.ort.worker_process import Message, WorkerExit, WorkerProcess, module_command, serve
from .case import FaultKind
from .model_comparison import ComparisonRequest, Discrepancy, compare_models

TIMEOUT = 60.0  # seconds for a comparison


@dataclass(slots=True)
class ComparisonProcess:
    """Compares models in a worker process; one that crashes, or takes longer than `timeout`, is replaced."""

    timeout: float = TIMEOUT
    _process: WorkerProcess = field(init=False)

    def __post_init__(self) -> None:
        self._process = WorkerProcess(module_command(__spec__.name), self.timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()

    def __call__(self, request: ComparisonRequest) -> Discrepancy | None:
        """Compare two models. A crash on the rewritten model alone is a discrepancy.

        Raises UnverifiableError if the original crashes too, and RequestFailed with the traceback of any other error.
        """
        try:
            return self._request(request)
        except WorkerExit as e:
            message = f"on the rewritten model, {e.describe('onnxruntime')}"
        try:
            self._request(replace(request, after=request.before))
        except WorkerExit as e:
            raise UnverifiableError(f"on the generated model, {e.describe('onnxruntime')}") from e
        return Discrepancy(FaultKind.REFUSED, message)

    def _request(self, request: ComparisonRequest) -> Discrepancy | None:
        result = _decoded(self._process.request(_encoded(request)))
        if isinstance(result, PassesError):
            raise result
        return result


def _encoded(value: object) -> Message:
    return {"pickle": b64encode(pickle.dumps(value)).decode("ascii")}


def _decoded(message: Message) -> Any:
    return pickle.loads(b64decode(message["pickle"]))  # noqa: S301 - from a process of our own


def _reply(message: Message) -> Iterator[Message]:
    try:
        yield _encoded(compare_models(_decoded(message)))
    except PassesError as e:
        yield _encoded(e)


if __name__ == "__main__":
    serve(_reply, describe=lambda e: "".join(traceback.format_exception(e)))
