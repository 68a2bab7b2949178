"""Comparisons in a process of their own, which onnxruntime may crash."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Any, Self

from ..core.errors import PassesError, UnverifiableError
from .case import FaultKind
from .model_comparison import ComparisonRequest, Discrepancy, compare_models

TIMEOUT = 60.0  # seconds for a comparison
CRASHES, HANGS = "crashes", "does not end"


class _ProcessLost(Exception):
    """The process crashed or was killed."""


@dataclass(slots=True)
class ComparisonProcess:
    """Compares models in a child process; one that crashes, or takes longer than `timeout`, is replaced."""

    timeout: float = TIMEOUT
    _process: SpawnProcess | None = field(default=None, init=False)
    _connection: Any = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def __call__(self, request: ComparisonRequest) -> Discrepancy | None:
        """Compare two models. A crash on the rewritten model alone is a discrepancy.

        Raises UnverifiableError if the original crashes too.
        """
        try:
            return self._request(request)
        except _ProcessLost as lost:
            how = str(lost)
        try:
            self._request(replace(request, after=request.before))
        except _ProcessLost as lost:
            raise UnverifiableError(f"onnxruntime {lost} on the generated model") from lost
        return Discrepancy(FaultKind.REFUSED, f"onnxruntime {how} on the rewritten model")

    def _request(self, request: ComparisonRequest) -> Discrepancy | None:
        if self._process is None:
            self._start()
        try:
            self._connection.send(request)
            in_time = self._connection.poll(self.timeout)
            answer = self._connection.recv() if in_time else None
        except (EOFError, OSError) as e:
            self._stop()
            raise _ProcessLost(CRASHES) from e
        if not in_time:
            self._stop()
            raise _ProcessLost(HANGS)
        if isinstance(answer, PassesError):
            raise answer
        return answer

    def _start(self) -> None:
        self._connection, other = Pipe()
        self._process = get_context("spawn").Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            self._connection.close()
            process.kill()
            process.join()


def _serve(connection: Connection[Any, Any]) -> None:
    """Answer requests until the connection is closed."""
    while True:
        try:
            question: ComparisonRequest = connection.recv()
        except EOFError:
            return
        try:
            connection.send(compare_models(question))
        except PassesError as e:
            connection.send(e)
