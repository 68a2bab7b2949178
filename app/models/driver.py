"""Execution of one action on many models, in the workers of a pool."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from ...core.errors import UsageError
from ...core.io.output_paths import require_writable_folder
from ...core.io.publishing import finish_publications
from ...core.processes.process_limits import default_memory
from ...core.processes.worker_process import Command, WorkerError, WorkerExit
from ...core.run.report import Report
from ...core.support.supervision import FOLDER, OUTCOME, tell
from ..cli import exit_codes
from ..cli.report_output import full_disk_behind_standard_output
from ..report.document import Document, failure_document
from ..report.result_row import CRASHED, FAILED, LATE, UNVERIFIABLE, WOULD_CHANGE, WRONG, ResultRow
from ..report.terminal import Terminal
from .display import Display
from .document import describe
from .exchange import JobReply, job_request
from .journal import FinishedJob, ResultJournal
from .model_files import ModelJob
from .pool import Message, Pool, PoolLost, ProcessPool, default_processes
from .remote_files import place_of
from .results import ResultFiles
from .rows import DONE_BEFORE, Summary, row_line
from .worker import VERIFY, Action, make_folder

CODES = {WRONG: exit_codes.WRONG, UNVERIFIABLE: exit_codes.UNVERIFIED}
"""The exit codes of outcomes other than success and failure."""
OUTCOMES = {code: outcome for outcome, code in CODES.items()}
NOW = 3  # models named in the progress line


def new_pool(worker: Command, processes: int, *, verify: bool, cluster: str = "") -> Pool:
    """A pool of workers of a command: processes of this machine (0: the default number), or of a cluster."""
    command = (*worker, *[VERIFY] * verify)
    if not cluster:
        return ProcessPool(command, processes or default_processes(), default_memory())
    from .dask_pool import DaskPool  # noqa: PLC0415 - an extra, and heavy

    return DaskPool(command, cluster)


def open_journal(folder: Path, terminal: Terminal) -> ResultJournal:
    """The journal of a results folder, with a warning if lines are lost. Raises ModelError."""
    require_writable_folder(folder)
    journal = ResultJournal(folder)
    if journal.damaged:
        terminal.warning(f"warning: {journal.path} is damaged; models that it does not list are run again")
    return journal


@dataclass(slots=True)
class Driver:
    """Runs an action on many models, prints a line for each, and writes `files` about the results.

    `journal` keeps the rows in the results folder; with `resume`, results that would be the same are kept. `store` is
    another folder for the results, with the same relative paths. `seconds` is the time limit for a model.
    """

    action: Action
    jobs: Sequence[ModelJob]
    display: Display
    files: ResultFiles
    journal: ResultJournal | None = None
    resume: bool = False
    store: Path | None = None
    seconds: float | None = None
    terminal: Terminal = field(init=False)
    _rows: dict[int, ResultRow] = field(default_factory=dict[int, ResultRow], init=False)
    _replies: dict[int, JobReply] = field(default_factory=dict[int, JobReply], init=False)

    def __post_init__(self) -> None:
        self.terminal = self.display.terminal()

    def run(self, pool: Pool, options: Callable[[ModelJob], object], end: str) -> int:
        """Run all jobs, each with its `options`, write the files, and print a table and `end`.

        Returns the highest exit code. Raises errors of the pool, and UsageError if no options are usable.
        """
        if self.journal is not None:
            make_folder(self.journal.folder)
        for folder in {job.output.parent for job in self.jobs if job.output is not None}:
            tell(FOLDER, str(folder.absolute()))
        self._do_all(pool, [self._request(job, options(job)) for job in self.jobs])
        asked = self.summary
        self.files.write(Summary(self.journal.rows) if self.journal is not None else asked, asked)
        if self.action.writes and not any(row["output"] for row in asked.rows) and self.files.paths.table is None:
            end = end if end.startswith("nothing") else "nothing written"
        with full_disk_behind_standard_output():
            self.terminal.show(describe(self.shown, end))
            self.display.outputs.write(self.documents)
        return asked.exit_code

    def _do_all(self, pool: Pool, requests: Sequence[Message]) -> None:
        """Serve all requests. If interrupted or if the pool is lost, remove the workers' stages; say what is done."""
        try:
            with (
                closing(pool.replies(requests)) as replies,
                full_disk_behind_standard_output("results so far are written"),
            ):
                while len(self._rows) < len(self.jobs):
                    with self.terminal.progress() as progress:
                        pool.on_start = lambda: progress(self._progress_text(pool))
                        pool.on_start()
                        number, reply = next(replies)
                    self._add(number, self._reply(number, reply))
        except KeyboardInterrupt:
            self.terminal.last_line(f"interrupted: {self._end_early()}")
            raise
        except PoolLost as e:
            raise PoolLost(f"{e}: {self._end_early()}") from e

    def _request(self, job: ModelJob, options: object) -> Message:
        finished = self.journal.get(job.output) if self.journal is not None and self.resume and job.output else None
        request = job_request(
            self._stored(job),
            self.action.name,
            options,
            is_kept=self.journal is not None,
            finished=finished,
            with_report=self.display.wants_reports,
            with_declines=self.display.verbose,
        )
        return request.message(self.seconds)

    def _stored(self, job: ModelJob) -> ModelJob:
        """The job with the path to which its result is written."""
        if self.store is None or self.journal is None or job.output is None:
            return job
        return replace(job, output=self.store / job.output.relative_to(self.journal.folder))

    def _progress_text(self, pool: Pool) -> str:
        """The number of finished models, and the names of running ones."""
        names = [self.jobs[number].model.name for number in sorted(pool.running.copy())]
        others = f" and {len(names) - NOW} others" if len(names) > NOW else ""
        now = f", now {', '.join(names[:NOW])}{others}" * bool(names)
        return f"running models: {len(self._rows)} of {len(self.jobs)} done{now}"

    def _reply(self, number: int, reply: Message | WorkerError) -> JobReply:
        """The outcome of a job; if its worker ended, the job has failed, and its stage is removed."""
        if not isinstance(reply, WorkerError):
            return JobReply.of(reply)
        job = self.jobs[number]
        remove_stages([job])
        if isinstance(reply, WorkerExit) and reply.code is None and reply.progress is not None:
            code, failure = reply.progress
            return JobReply(failure=failure, code=code)
        reason = reply.describe("the process") if isinstance(reply, WorkerExit) else str(reply)
        end = LATE if isinstance(reply, WorkerExit) and reply.code is None else CRASHED
        return JobReply(failure=f"{place_of(job.model)}: {reason}", code=exit_codes.BAD_INPUT, end=end)

    def _end_early(self) -> str:
        """Remove the workers' stages; return the number of finished models in words."""
        remove_stages(job for number, job in enumerate(self.jobs) if number not in self._rows)
        return self._state

    @property
    def _state(self) -> str:
        """The number of finished models, in words."""
        kept = ", and their results are kept" if self._rows and any(job.output for job in self.jobs) else ""
        again = "; --resume runs the others" if self.journal is not None else ""
        return f"{len(self._rows)} of {len(self.jobs)} models are done{kept}{again}"

    def _add(self, number: int, reply: JobReply) -> None:
        """Add the reply for a job, record its row for later commands, and print a line."""
        job = self.jobs[number]
        if reply.code == exit_codes.USAGE and reply.failure and not self._rows:
            raise UsageError(reply.failure)
        self._replies[number] = reply
        known = self.journal.get(job.output) if self.journal is not None and job.output is not None else None
        if reply.is_done_before and known is not None:
            self._rows[number] = known.row
            return
        row = self._rows[number] = self._row(job, reply)
        if self.journal is not None and job.output is not None:
            self.journal.add(job.output, FinishedJob(reply.conditions, reply.result or "", row))
        tell(OUTCOME, self._state)
        self._show(reply, row)

    def _row(self, job: ModelJob, reply: JobReply) -> ResultRow:
        columns = reply.columns or {"outcome": reply.end or OUTCOMES.get(reply.code, FAILED), "error": reply.failure}
        outcome = str(columns["outcome"])
        output = self._stored(job).output
        is_unoptimized = self.display.is_check and outcome == WOULD_CHANGE
        is_written = reply.columns is not None and output is not None and self.action.writes
        return {
            "model": place_of(job.model),
            "do": self.action.name,
            "exit_code": reply.code or CODES.get(outcome) or exit_codes.WRONG * is_unoptimized,
            "error": None,
            "output": place_of(output) if output is not None and is_written else None,
            "repeated": reply.repeated or None,
            "options": " ".join(job.arguments) or None,
            **columns,
        }

    def _show(self, reply: JobReply, row: ResultRow) -> None:
        model = str(row["model"])
        if reply.failure:
            name = "" if model in reply.failure else f"{model}: "
            self.terminal.warning(f"error: {name}{reply.failure}")
            for line in reply.traceback.splitlines():
                self.terminal.warning(line)
        elif isinstance(reply.report, Report) and self.display.is_detailed:
            self.display.show(self.terminal, reply.report)
            for line in reply.declines:
                self.terminal.warning(line)
        else:
            for line in reply.warnings:
                self.terminal.warning(f"{model}: {line}")
            if row["error"]:
                self.terminal.warning(f"error: {model}: {row['error']}")
            else:
                self.terminal.line(row_line(row))

    @property
    def summary(self) -> Summary:
        """The rows and the reports, in the order of the jobs."""
        reports = (reply.report for _, reply in sorted(self._replies.items()))
        data = [None if report is None else json.loads(report.to_json()) for report in reports]
        return Summary([row for _, row in sorted(self._rows.items())], data)

    @property
    def shown(self) -> Summary:
        """The rows for the terminal, where kept results are shown as such."""
        rows = ((row, self._replies[number].is_done_before) for number, row in sorted(self._rows.items()))
        return Summary([{**row, "outcome": DONE_BEFORE} if is_kept else row for row, is_kept in rows])

    @property
    def documents(self) -> list[Document]:
        """The contents of all formats."""
        return [self._document(str(self.jobs[n].model), reply) for n, reply in sorted(self._replies.items())]

    def _document(self, model: str, reply: JobReply) -> Document:
        if reply.failure:
            return failure_document("passes run", model, reply.failure, reply.code)
        if isinstance(reply.report, Report):
            return self.display.document(reply.report)
        return Document("passes run", model, DONE_BEFORE)


def remove_stages(jobs: Iterable[ModelJob]) -> None:
    """Remove the staging folders that workers left when they were killed."""
    for folder in {os.path.dirname(os.path.realpath(job.output)) for job in jobs if job.output is not None}:  # noqa: PTH120
        finish_publications(Path(folder))
