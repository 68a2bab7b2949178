"""Questions answered in a process of their own, which onnxruntime may take down."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Any, Self

from ..core.errors import PassesError, Unverifiable
from .fault import Kind
from .model_comparison import Finding, Question, answered

LIMIT = 60.0  # seconds for a question
CRASHES, HANGS = "crashes", "does not end"


class _Lost(Exception):
    """The process crashed, or had to be ended."""


@dataclass(slots=True)
class Isolated:
    """Answers questions one after another; a process that dies, or takes longer than `limit`, is replaced."""

    limit: float = LIMIT
    _process: SpawnProcess | None = field(default=None, init=False)
    _line: Any = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def __call__(self, question: Question) -> Finding | None:
        """Answer a question. That a rule's model takes onnxruntime down, which the one before did not, is a finding."""
        try:
            return self._asked(question)
        except _Lost as lost:
            how = str(lost)
        try:
            self._asked(replace(question, after=question.before))
        except _Lost as lost:
            raise Unverifiable(f"onnxruntime {lost} on the model as it was made") from lost
        return Finding(Kind.REFUSED, f"onnxruntime {how} on what the rule made")

    def _asked(self, question: Question) -> Finding | None:
        if self._process is None:
            self._start()
        try:
            self._line.send(question)
            in_time = self._line.poll(self.limit)
            answer = self._line.recv() if in_time else None
        except (EOFError, OSError) as e:
            self._end()
            raise _Lost(CRASHES) from e
        if not in_time:
            self._end()
            raise _Lost(HANGS)
        if isinstance(answer, PassesError):
            raise answer
        return answer

    def _start(self) -> None:
        self._line, other = Pipe()
        self._process = get_context("spawn").Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            self._line.close()
            process.kill()
            process.join()


def _serve(line: Connection[Any, Any]) -> None:
    """Answer what comes, until nothing does."""
    while True:
        try:
            question: Question = line.recv()
        except EOFError:
            return
        try:
            line.send(answered(question))
        except PassesError as e:
            line.send(e)
