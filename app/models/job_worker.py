"""Worker process that does one job after the other, for a command with many models."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGTERM
from time import sleep

from msgspec import Struct
from msgspec.structs import replace

from ...core.errors import ModelError
from ...core.processes.process_limits import limit_memory
from ...core.processes.worker_process import Parent
from ...core.verify.oracle_start import start_oracle_worker
from ..cli.exit_codes import BAD_INPUT, expected_failure, is_shortage
from ..cli.signals import GRACE_PERIOD, exit_on_bus_error, unwind_on_sigterm
from .job_exchange import VERIFY, JobReply
from .output_locations import is_remote, place_of
from .pool import SHORTAGE, Message


class Task(Struct, frozen=True):
    """The work of a worker: `perform` does the job of a request, whose result is at that path, None for none.

    `conditions`: a digest of all on which the result depends, of a model and the text of options. Both raise
    PassesError.
    """

    conditions: Callable[[Path, str], str]
    perform: Callable[[Message, Path | None], JobReply]

    def reply_to(self, request: Message) -> Message:
        """Do a job; the reply is that of `JobReply.of`."""
        shortage: Message = {}
        try:
            reply = self._reply(request)
        except Exception as e:  # noqa: BLE001 - a mistake of this program in one job must not end the others
            code, message = expected_failure(e) or (BAD_INPUT, f"{type(e).__name__}: {e}")
            text = "" if expected_failure(e) else "".join(traceback.format_exception(e))
            reply = JobReply(failure=message, code=code, traceback=text)
            shortage = {SHORTAGE: message} if is_shortage(e) else {}
        return reply.message() | shortage

    def _reply(self, request: Message) -> JobReply:
        from .remote_files import job_files  # noqa: PLC0415 - the worker for verification is started first

        _enter(request["folder"], (request["model"], request["output"] or ""))
        with job_files(request["model"], request["output"]) as files:
            conditions = self.conditions(files.model, request["options"]) if request["keep"] else ""
            finished = request["finished"]
            if finished and finished[0] == conditions and finished[1] == _digest_of_result(files.result()):
                return JobReply()
            reply = self.perform(files.local(request), files.output)
            reply = replace(reply, failure=files.renamed(reply.failure), content=files.renamed(reply.content))
            files.publish()
            if not reply.failure and files.output is not None and conditions:
                reply = replace(reply, conditions=conditions, result=_digest_of_result(files.output))
        return reply


def _enter(folder: str, places: Sequence[str]) -> None:
    """Go to the folder of the command, which may be on another machine. Raises ModelError if `places` need it."""
    try:
        os.chdir(folder)
    except OSError as e:
        if any(place and not is_remote(place) and not Path(place_of(place)).is_absolute() for place in places):
            raise ModelError(f"{places[0]}: {folder} is not a folder of this machine; give absolute paths") from e


def _digest_of_result(result: Path | None) -> str | None:
    """The digest of a result; "" if there is none, None if it is damaged."""
    from ..optimize.content_digests import model_digest  # noqa: PLC0415 - the worker for verification is started first

    with suppress(ModelError):
        return model_digest(result) if result is not None and os.path.lexists(result) else ""
    return None


def make_folder(folder: Path) -> None:
    """Make a folder, and those around it, unless it is there. Raises ModelError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ModelError(f"cannot make the folder {folder}: {e.strerror}") from e


class JobWorker(Struct, frozen=True):
    """The worker of a task in this process."""

    task: Task

    def reply_to(self, request: Message) -> Message:
        """Do a job, after which its objects, such as graphs and their open files, are freed."""
        reply = self.task.reply_to(request)
        gc.collect()
        if not gc.get_freeze_count():
            gc.freeze()  # what is alive after the first job, as modules are, is traversed no more
        return reply


def serve_jobs(task: Task) -> None:
    """Reply to requests for jobs until the input ends."""
    if VERIFY in sys.argv:
        start_oracle_worker()
    limit_memory(None)
    exit_on_bus_error()
    with unwind_on_sigterm():
        Parent().serve(JobWorker(task), clean_up=_unwind)


def _unwind() -> None:
    """Let the job end, and remove its files, where the parent was killed."""
    os.kill(os.getpid(), SIGTERM)
    sleep(GRACE_PERIOD)
