"""Requests for jobs, and the replies of workers."""

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

if TYPE_CHECKING:  # imports onnx; a worker imports it after starting the process that verifies
    from ..cli.report_output import JsonReport
    from .journal import FinishedJob

REQUEST, REPLY = "request", "reply"
"""Keys of messages, which are JSON objects, so that a cluster's scheduler does not need the classes of this package."""


class JobRequest(Struct, frozen=True):
    """An action for a model, with the packed `options` of its class, in the current `folder` of the command.

    `is_kept`: return the digests for a journal, which contains the `finished` job if it may be kept. `with_report` and
    `with_declines`: return the report, and the reasons why rules declined.
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
        """The request for a pool, with the time limit for its worker in seconds."""
        return {REQUEST: packed(self), MEMORY: model_memory(self.job.model), SECONDS: seconds}


class JobReply(Struct, frozen=True):
    """The outcome of a job: columns of its report, or a failure with its exit code and possibly a `traceback`.

    `conditions` and `result` are the digests of a finished job. `warnings` and `declines` are lines for standard error.
    `end` is the outcome of a worker that did not reply. `repeated` describes the end of the first worker, if another
    one replied.
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
        """Whether nothing was done, because nothing has changed since an earlier run."""
        return self.columns is None and not self.failure

    @classmethod
    def of(cls, reply: Message) -> Self:
        """Unpack the reply of a worker."""
        return replace(unpacked(reply[REPLY]), repeated=reply.get(REPEATED, ""))

    def message(self) -> Message:
        """Pack this outcome as the reply of a worker."""
        return {REPLY: packed(self)}


def job_request(job: ModelJob, action: str, options: object, **more: Any) -> JobRequest:
    """The request for an action in this folder, with its options."""
    return JobRequest(job, action, packed(options), str(Path.cwd()), **more)


def packed(value: object) -> str:
    """Pickle a value as text, for another process of this program."""
    return base64.b64encode(pickle.dumps(value)).decode()


def unpacked(text: str) -> Any:
    """The value of a text made by `packed`."""
    return pickle.loads(base64.b64decode(text))  # noqa: S301 - from a process of our own
