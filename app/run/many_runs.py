"""Runs of many models, each in one of several processes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import typer

from ...core.io.output_paths import OutputPaths, require_writable_folder
from ...core.io.publishing import publish_text, remove_abandoned_stages
from ...core.ort.worker_process import WorkerError, WorkerExit
from ...core.pass_manager.report import Report
from ...core.support.folders import OpenFolder
from ...core.support.printable_text import json_text
from ..environment import versions
from ..exit_codes import BAD_INPUT, WRONG, echo_json, full_disk_behind_standard_output
from ..formats.finding import Document, Failure
from ..jobs.finished_jobs import FinishedJob, FinishedJobs
from ..jobs.job_pool import JobPool, default_processes
from ..jobs.model_files import ModelJob
from ..pages.card import Card
from ..terminal import Terminal
from .display import Display
from .many_render import DONE_BEFORE, FAILED, FAILURES, ModelRow, option_hints, outcome_line, show_summary
from .render import hint_lines, warning_lines
from .run_exchange import RUN_WORKER, VERIFY, RunReply, options_text, run_request
from .run_options import RunOptions

MAX_HINTS = 3


@dataclass(frozen=True, slots=True)
class Place:
    """The place of the results: a folder, or none. `resume`: its results that are as they would be now are kept."""

    folder: Path | None = None
    resume: bool = False


def run_many(jobs: Sequence[ModelJob], options: RunOptions, display: Display, place: Place, processes: int) -> int:
    """Run models in as many processes, 0 for the default, and print a line for each and a table.

    Returns the highest exit code of a run. Raises ModelError for places that cannot be written.
    """
    report = OutputPaths.of(report=options.report_to)
    report.require_distinct([path for job in jobs for path in (job.model, job.output) if path is not None])
    finished = None
    if place.folder is not None:
        require_writable_folder(place.folder)
        finished = FinishedJobs(place.folder)
    runs = ManyRuns(jobs, options, display, display.terminal(), finished)
    if finished is not None and finished.damaged:
        runs.terminal.warning(f"warning: {finished.path} is damaged; models of which it says nothing are run again")
    command = (*RUN_WORKER, *[VERIFY] * bool(options.verify))
    pool = JobPool(command, processes or default_processes([job.model for job in jobs]))
    text = options_text(options)
    requests = [
        run_request(
            job,
            text,
            verbose=display.verbose,
            keep=finished is not None,
            finished=finished.get(job.output) if finished is not None and job.output and place.resume else None,
        )
        for job in jobs
    ]
    try:
        with closing(pool.replies(requests)) as replies, full_disk_behind_standard_output("results so far are written"):
            while len(runs.rows) < len(jobs):
                with runs.terminal.progress() as progress:
                    pool.on_start = partial(runs.show_progress, progress, pool.running)
                    pool.on_start()
                    number, reply = next(replies)
                runs.add(number, reply)
    except KeyboardInterrupt:
        runs.end_early()
        raise
    publish_text(report.report, runs.to_json)
    with full_disk_behind_standard_output():
        runs.show_summary()
        display.outputs.write(runs.document, typer.echo)
    return runs.code


@dataclass(slots=True)
class ManyRuns:
    """The outcomes of runs so far, by the number of the job."""

    jobs: Sequence[ModelJob]
    options: RunOptions
    display: Display
    terminal: Terminal
    finished: FinishedJobs | None
    rows: dict[int, ModelRow] = field(default_factory=dict[int, ModelRow], init=False)
    code: int = field(default=0, init=False)
    _hints: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]], init=False)
    _outcomes: dict[int, Report | Failure | Card] = field(
        default_factory=dict[int, "Report | Failure | Card"], init=False
    )
    _documents: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]], init=False)

    def show_progress(self, progress: Callable[[str], None], running: Collection[int]) -> None:
        """Show the number of models that are done, and the names of those that are being run."""
        names = ", ".join(self.jobs[number].model.name for number in sorted(running))
        progress(f"running models: {len(self.rows)} of {len(self.jobs)} done" + f", now {names}" * bool(names))

    def add(self, number: int, reply: dict[str, Any] | WorkerError) -> None:
        """Add the reply of a worker about a job, keep its result for later commands, and print a line."""
        job = self.jobs[number]
        outcome = RunReply.of(reply) if not isinstance(reply, WorkerError) else self._crash(job, reply)
        if outcome.report is None and not outcome.failure:
            assert self.finished is not None
            assert job.output is not None
            known = self.finished.get(job.output)
            assert known is not None
            self.rows[number] = ModelRow.done_before(str(job.model), known.row)
        elif outcome.report is None:
            self.rows[number] = ModelRow(str(job.model), FAILURES.get(outcome.code, FAILED))
            self._show_failure(job, outcome)
        else:
            self._add_run(number, job, outcome.report, outcome)
        self._outcomes[number] = self._outcome(job, outcome)
        code = outcome.code
        if self.display.is_check and outcome.report is not None and outcome.report.has_changes:
            code = WRONG
        self.code = max(self.code, code)
        if self.display.json is not None:
            self._documents[number] = self._document(number, job, outcome, code)

    def _add_run(self, number: int, job: ModelJob, report: Report, outcome: RunReply) -> None:
        row = self.rows[number] = ModelRow.of(str(job.model), report, is_planned=job.output is None)
        if self.finished is not None and job.output is not None and outcome.result:
            self.finished.add(job.output, FinishedJob(outcome.conditions, outcome.result, asdict(row)))
        self._hints += ((str(job.model), hint) for hint in hint_lines(report))
        if self.display.verbose or report.plan is not None:
            self.display.show(self.terminal, report)
        else:
            for line in warning_lines(report):
                self.terminal.warning(f"{job.model}: {line}")
            if not self.display.quiet:
                self.terminal.line(outcome_line(report, row))
        for line in outcome.declines:
            self.terminal.warning(line)

    def _show_failure(self, job: ModelJob, outcome: RunReply) -> None:
        name = "" if str(job.model) in outcome.failure else f"{job.model}: "
        self.terminal.warning(f"error: {name}{outcome.failure}")
        for line in outcome.traceback.splitlines():
            self.terminal.warning(line)

    def _crash(self, job: ModelJob, error: WorkerError) -> RunReply:
        """The failure of a job whose worker ended; what it staged is removed."""
        self._remove_stages([job])
        reason = error.describe("the process") if isinstance(error, WorkerExit) else str(error)
        return RunReply(failure=f"{job.model}: {reason}", code=BAD_INPUT)

    @staticmethod
    def _remove_stages(jobs: Sequence[ModelJob]) -> None:
        """Remove the staging folders that workers left when they were killed."""
        for folder in {os.path.dirname(os.path.realpath(job.output)) for job in jobs if job.output is not None}:  # noqa: PTH120
            with suppress(OSError):
                remove_abandoned_stages(OpenFolder(Path(folder)))

    @staticmethod
    def _outcome(job: ModelJob, outcome: RunReply) -> Report | Failure | Card:
        """The content of other formats about a model."""
        if outcome.failure:
            return Failure("passes run", str(job.model), outcome.failure, outcome.code)
        return outcome.report or Card("passes run", str(job.model), "good", DONE_BEFORE)

    def document(self) -> Document:
        """The content of all formats."""
        return self.display.document([outcome for _, outcome in sorted(self._outcomes.items())])

    def _document(self, number: int, job: ModelJob, outcome: RunReply, code: int) -> dict[str, Any]:
        report = outcome.report
        return {
            "model": str(job.model),
            "outcome": self.rows[number].outcome,
            "exit_code": code,
            "error": outcome.failure or None,
            "output": None if job.output is None or outcome.failure else str(job.output),
            "report": None if report is None else json.loads(report.to_json()),
        }

    def end_early(self) -> None:
        """Remove what workers staged, and print the number of models that are done."""
        self._remove_stages([job for number, job in enumerate(self.jobs) if number not in self.rows])
        kept = ", and their results are kept" if self.rows and any(job.output for job in self.jobs) else ""
        again = "; --resume runs the others" if self.finished is not None else ""
        self.terminal.warning(f"interrupted: {len(self.rows)} of {len(self.jobs)} models are done{kept}{again}")

    def show_summary(self) -> None:
        """Print the table of all models, and the options that would change the results."""
        echo_json(self.display.json, self)
        if not self.display.quiet:
            end = "written in place" if self.options.in_place else self.display.end
            end = f"written to {self.finished.folder}" if self.finished is not None else end
            show_summary(self.terminal, [row for _, row in sorted(self.rows.items())], end)
            self.terminal.lines(option_hints(self._hints, MAX_HINTS))

    def to_json(self) -> str:
        """The reports of all models as JSON text."""
        models = [document for _, document in sorted(self._documents.items())]
        return json_text({"exit_code": self.code, "models": models, "versions": versions()})
