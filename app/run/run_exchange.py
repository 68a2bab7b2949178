"""Requests for runs to a worker, and its replies."""

from __future__ import annotations

import base64
import pickle
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ...core.ort.worker_process import Message, module_command
from ..jobs.model_files import ModelJob
from .run_options import RunOptions

if TYPE_CHECKING:  # imports onnx, which a worker does after it started the process that verifies
    from ...core.pass_manager.report import Report
    from ..jobs.finished_jobs import FinishedJob

RUN_WORKER = module_command(f"{__package__}.run_worker")
VERIFY = "verify"
"""The argument of a worker whose runs are verified."""


@dataclass(frozen=True, slots=True)
class RunReply:
    """The outcome of a run: a report, or a failure with its exit code and, if it is unexpected, its `traceback`.

    `conditions` and `result` are the digests of a finished job. With neither report nor failure it was done before.
    """

    report: Report | None = None
    declines: tuple[str, ...] = ()
    failure: str = ""
    code: int = 0
    traceback: str = ""
    conditions: str = ""
    result: str = ""

    @classmethod
    def of(cls, reply: Message) -> RunReply:
        """The outcome in the reply of a worker."""
        return _unpacked(reply["outcome"])

    def message(self) -> Message:
        """The reply of a worker with this outcome."""
        return {"outcome": _packed(self)}


def options_text(options: RunOptions) -> str:
    """The options of a command, without `progress`, for a worker."""
    return _packed({f.name: getattr(options, f.name) for f in fields(options) if f.name != "progress"})


def options_from_text(text: str) -> RunOptions:
    """The options of which `options_text` made a text."""
    return RunOptions(**_unpacked(text))


def _packed(value: object) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()


def _unpacked(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))  # noqa: S301 - from a process of our own


def run_request(job: ModelJob, options: str, *, verbose: bool, keep: bool, finished: FinishedJob | None) -> Message:
    """The request for a run with the options of that text.

    `keep`: the digests of a finished job are wanted. Where all is as it was for the job `finished`, nothing is run.
    """
    known = None if finished is None else [finished.conditions, finished.result]
    output = None if job.output is None else str(job.output)
    return {
        "model": str(job.model),
        "output": output,
        "options": options,
        "verbose": verbose,
        "keep": keep,
        "finished": known,
    }
