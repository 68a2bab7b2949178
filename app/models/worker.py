"""Worker process that runs actions, commands for many models, on one model at a time."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace as replace_options
from pathlib import Path
from signal import SIGTERM
from threading import Lock
from time import monotonic, perf_counter, sleep
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...core.errors import ModelError
from ...core.processes.process_limits import limit_memory
from ...core.processes.worker_process import Parent
from ...core.support import gc_pause
from ...core.support.supervision import PROGRESS, TIME, Limit, supervise_by
from ...core.verify.oracle_start import start_oracle_worker
from ..cli.exit_codes import BAD_INPUT, expected_failure, is_shortage
from ..cli.signals import exit_on_bus_error, unwind_on_sigterm
from ..optimize.run_options import RunOptions
from .exchange import REQUEST, JobReply, JobRequest, unpacked
from .model_files import ModelJob
from .pool import SHORTAGE, Message
from .remote_files import is_remote, job_files, place_of

GRACE_PERIOD = 10.0  # seconds to clean up after the end of the parent
VERIFY = "verify"
"""The argument of a worker whose jobs verify models."""


class Action(Struct, frozen=True):
    """A command by name: its function runs a job with options of its class, and returns a report.

    It `writes` a model, or needs an `other` one. `timed` says whether it measures times, so that models run one at a
    time; if it is a string, it is the option that enables this.
    """

    name: str
    function: Callable[[ModelJob, Any], Any]
    options: type
    writes: bool = False
    other: bool = False
    timed: bool | str = False

    def is_timed(self, options: Any) -> bool:
        """Whether it measures times with these options."""
        return bool(getattr(options, self.timed)) if isinstance(self.timed, str) else self.timed


class JobWorker(Struct, frozen=True):
    """The worker of a pool, with all actions by name."""

    actions: Mapping[str, Action]

    def reply_to(self, request: Message) -> Message:
        """Run a job, then free its objects, such as graphs and their open files."""
        reply = reply_to(unpacked(request[REQUEST]), self.actions)
        gc.collect()
        gc_pause.freeze_once()
        return reply


def reply_to(request: JobRequest, known: Mapping[str, Action]) -> Message:
    """Run a job; the reply is the message of a `JobReply`."""
    try:
        return _reply(request, known[request.action]).message()
    except Exception as e:  # noqa: BLE001 - a bug in one job must not end the others
        code, message = expected_failure(e) or (BAD_INPUT, f"{type(e).__name__}: {e}")
        text = "" if expected_failure(e) else "".join(traceback.format_exception(e))
        reply = JobReply(failure=message, code=code, traceback=text)
        return reply.message() | ({SHORTAGE: message} if is_shortage(e) else {})


def _reply(request: JobRequest, action: Action) -> JobReply:
    from .conditions import conditions_of, result_digest  # noqa: PLC0415 - the worker for verification is started first

    _enter(request)
    with job_files(request.job.model, request.job.output) as files:
        job = replace(request.job, model=files.model, output=files.output)
        conditions = conditions_of(job, request.action, request.options) if request.is_kept else ""
        known = request.finished
        if known is not None and (known.conditions, known.result) == (conditions, result_digest(files.result())):
            return JobReply()
        if job.output is not None:
            make_folder(job.output.parent)
        reply = perform(action, job, request)
        files.publish()
        columns = {name: files.renamed(cell) for name, cell in (reply.columns or {}).items()}
        result = result_digest(job.output) if conditions else ""
        return replace(reply, columns=columns, conditions=conditions, result=result)


def perform(action: Action, job: ModelJob, request: JobRequest) -> JobReply:
    """Run an action on a model. Raises the errors of its function."""
    from ...core.run.report import Report  # noqa: PLC0415 - the worker for verification is started first
    from ..optimize.document import left_out_lines, run_columns  # noqa: PLC0415 - as above
    from ..optimize.statistics import RunStatistics  # noqa: PLC0415 - as above

    start, options, statistics = perf_counter(), unpacked(request.options), RunStatistics()
    if request.with_declines and isinstance(options, RunOptions):
        options = replace_options(options, instrumentation=(*options.instrumentation, statistics))
    report = action.function(job, options)
    seconds = round(perf_counter() - start, 6)
    is_run = isinstance(report, Report)
    return JobReply(
        (run_columns(report) if is_run else report.columns) | {"seconds": seconds},
        report if request.with_report else None,
        (*(f"warning: {t}" for t in left_out_lines(report)), *(f"note: {n}" for n in report.notes)) if is_run else (),
        tuple(statistics.decline_lines()),
    )


def _enter(request: JobRequest) -> None:
    """Change to the command's folder. Raises ModelError if it is not on this machine and relative paths need it."""
    places = [str(place) for place in (request.job.model, request.job.output) if place is not None]
    try:
        os.chdir(request.folder)
    except OSError as e:
        if any(not is_remote(place) and not Path(place_of(place)).is_absolute() for place in places):
            text = f"{places[0]}: {request.folder} is not a folder of this machine; give absolute paths"
            raise ModelError(text) from e


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, unless it exists. Raises ModelError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ModelError(f"cannot create the folder {folder}: {e.strerror}") from e


def serve_jobs(known: Mapping[str, Action]) -> None:
    """Reply to requests for jobs until the input ends."""
    if VERIFY in sys.argv:
        start_oracle_worker()
    limit_memory(None)
    exit_on_bus_error()
    parent = Parent()
    supervise_by(_LimitsOfJob(parent).take)
    with unwind_on_sigterm():
        parent.serve(JobWorker(known), clean_up=_unwind)


class _LimitsOfJob:
    """The limits of a job. The parent always knows the next one, at which it kills this process."""

    def __init__(self, parent: Parent) -> None:
        self._parent, self._lock = parent, Lock()
        self._limits = dict[str, Limit]()

    def take(self, fact: str, value: str | Limit | None) -> None:
        """Record a fact; announce a limit with its exit code and message."""
        if fact not in {TIME, PROGRESS}:
            return
        with self._lock:
            self._limits.pop(fact, None)
            if isinstance(value, tuple):
                self._limits[fact] = value
            at, *failure = min(self._limits.values(), default=(None,))
            self._parent.report(failure or None)
            self._parent.expect_within(None if at is None else at - monotonic())


def _unwind() -> None:
    """Make the job end and remove its files if the parent was killed."""
    os.kill(os.getpid(), SIGTERM)
    sleep(GRACE_PERIOD)
