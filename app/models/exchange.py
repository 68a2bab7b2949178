"""Requests for jobs to workers, and their replies."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct
from msgspec.structs import replace

from ..report.result_row import ResultRow
from .model_files import ModelJob
from .pool import MEMORY, REPEATED, SECONDS, Message, model_memory

if TYPE_CHECKING:  # imports onnx, which a worker does after it started the process that verifies
    from ..cli.report_output import JsonReport
    from .journal import FinishedJob

REQUEST, REPLY = "request", "reply"
"""Keys of messages, which are objects of JSON: the scheduler of a cluster need not know the classes of this package."""


class JobRequest(Struct, frozen=True):
    """An action for a model with the packed `options` of its class, in the current `folder` of the command.

    `is_kept`: the digests for a journal are wanted, which has `finished`, if that may be kept. `with_report`: so is the
    report; `with_declines`: so are the reasons for which rules declined.
    """

    job: ModelJob
    action: str
    options: str
    folder: str
    is_kept: bool = False
    finished: FinishedJob | None = None
    with_report: bool = False
    with_declines: bool = False

    def message(self, seconds: float | None = None) -> Message:
        """The request for a pool, whose worker has so many seconds."""
        return {REQUEST: packed(self), MEMORY: model_memory(self.job.model), SECONDS: seconds}


class JobReply(Struct, frozen=True):
    """The outcome of a job: columns of its report, or a failure with its exit code and, if unexpected, a `traceback`.

    `conditions` and `result` are the digests of a finished job.
    `warnings` and `declines` are lines for standard error. `end`: the outcome of a worker that did not reply.
    `repeated`: the end of the first worker, where another one replied.
    """

    columns: ResultRow | None = None
    report: JsonReport | None = None
    warnings: tuple[str, ...] = ()
    declines: tuple[str, ...] = ()
    failure: str = ""
    code: int = 0
    traceback: str = ""
    conditions: str = ""
    result: str | None = ""
    end: str = ""
    repeated: str = ""

    @property
    def is_done_before(self) -> bool:
        """Whether all was as it was when the job was done, so that nothing was done."""
        return self.columns is None and not self.failure

    @classmethod
    def of(cls, reply: Message) -> Self:
        """The outcome in the reply of a worker."""
        return replace(unpacked(reply[REPLY]), repeated=reply.get(REPEATED, ""))

    def message(self) -> Message:
        """The reply of a worker with this outcome."""
        return {REPLY: packed(self)}


def job_request(job: ModelJob, action: str, options: object, **more: Any) -> JobRequest:
    """The request for an action in this folder, with its options."""
    return JobRequest(job, action, packed(options), str(Path.cwd()), **more)


def packed(value: object) -> str:
    """A value as text, for a process of this program."""
    return base64.b64encode(pickle.dumps(value)).decode()


def unpacked(text: str) -> Any:
    """The value of a text that `packed` made."""
    return pickle.loads(base64.b64decode(text))  # noqa: S301 - from a process of our own
