"""Requests for jobs to a worker, and its replies."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, structs

from .model_files import ModelJob
from .output_locations import place_of
from .pool import REPEATED, Message
from .result_row import ResultRow

if TYPE_CHECKING:  # imports onnx, which a worker does after it started the process that verifies
    from .finished_jobs import FinishedJob

VERIFY = "verify"
"""The argument of a worker whose jobs verify models."""


class JobReply(Struct, frozen=True):
    """The outcome of a job: its content, or a failure with its exit code and, if it is unexpected, its `traceback`.

    `conditions` and `result` are the digests of a finished job. With neither content nor failure it was done before.
    `end`: that of a worker which did not reply. `repeated`: the end of the first worker, where another one replied.
    """

    content: Any = None
    failure: str = ""
    code: int = 0
    traceback: str = ""
    conditions: str = ""
    result: str | None = ""
    end: str = ""
    repeated: str = ""

    @classmethod
    def of(cls, reply: Message) -> Self:
        """The outcome in the reply of a worker."""
        return structs.replace(unpacked(reply["outcome"]), repeated=reply.get(REPEATED, ""))

    @property
    def is_done_before(self) -> bool:
        """Whether all was as it was when the job was done, so that nothing was run."""
        return self.content is None and not self.failure

    def row(self, job: ModelJob, command: str, outcome: str, columns: Mapping[str, Any]) -> ResultRow:
        """The row about the job, with the `columns` of its report."""
        return {
            "model": place_of(job.model),
            "do": command,
            "outcome": outcome,
            "exit_code": self.code,
            "error": self.failure or None,
            "output": None if self.failure or job.output is None else place_of(job.output),
            "repeated": self.repeated or None,
            **columns,
        }

    def message(self) -> Message:
        """The reply of a worker with this outcome."""
        return {"outcome": packed(self)}


def packed(value: object) -> str:
    """A value as text, for a process of this program."""
    return base64.b64encode(pickle.dumps(value)).decode()


def unpacked(text: str) -> Any:
    """The value of a text that `packed` made."""
    return pickle.loads(base64.b64decode(text))  # noqa: S301 - from a process of our own


def job_request(job: ModelJob, options: str, *, keep: bool, finished: FinishedJob | None, **more: Any) -> Message:
    """The request for a job with the options of that text, and `more` for its worker or its pool.

    `keep`: the digests of a finished job are wanted. Where all is as it was for the job `finished`, nothing is run.
    """
    known = None if finished is None else [finished.conditions, finished.result]
    output = None if job.output is None else str(job.output)
    common = {"model": str(job.model), "output": output, "folder": str(Path.cwd()), "options": options, "keep": keep}
    return {**common, "finished": known, **more}
