"""Runs of many models, each in one of several processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_text
from ...core.run.report import Report
from ...core.support.printable_text import json_text
from ..cli.exit_codes import WRONG
from ..cli.report_output import echo_json, full_disk_behind_standard_output
from ..optimize.render import hint_lines, warning_lines
from ..optimize.run_options import RunOptions
from ..registry.environment import versions
from ..report.card import Card
from ..report.finding import Document, Failure
from ..report.terminal import Terminal
from .display import Display
from .finished_jobs import FinishedJob, FinishedJobs, open_record
from .job_exchange import VERIFY, JobReply, job_request
from .job_loop import JobLoop, show_failure
from .job_pool import JobPool, default_processes, model_memory
from .many_render import DONE_BEFORE, FAILED, FAILURES, ModelRow, option_hints, outcome_line, show_summary
from .model_files import ModelJob
from .run_columns import run_columns
from .run_exchange import RUN_WORKER, RunContent, options_text

MAX_HINTS = 3


def run_many(
    jobs: Sequence[ModelJob],
    options: RunOptions,
    display: Display,
    folder: Path | None,
    processes: int,
    *,
    resume: bool,
) -> int:
    """Run models in as many processes, 0 for the default, and print a line for each and a table.

    A record in the `folder` of the results, if any, has what is done; with `resume`, results in it that would be the
    same are kept. Returns the highest exit code of a run. Raises ModelError for places that cannot be written.
    """
    report = OutputPaths.of(report=options.report_to)
    report.require_distinct([path for job in jobs for path in (job.model, job.output) if path is not None])
    terminal = display.terminal()
    finished = open_record(folder, terminal) if folder is not None else None
    runs = ManyRuns(jobs, options, display, terminal, finished)
    pool = JobPool((*RUN_WORKER, *[VERIFY] * bool(options.verify)), processes or default_processes())
    text = options_text(options)
    requests = [
        job_request(
            job,
            text,
            keep=finished is not None,
            finished=finished.get(job.output) if finished is not None and job.output and resume else None,
            verbose=display.verbose,
            memory=model_memory(job.model),
        )
        for job in jobs
    ]
    JobLoop(jobs, terminal, runs.add, finished is not None).run(pool, requests)
    publish_text(report.report, runs.to_json)
    with full_disk_behind_standard_output():
        runs.show_summary()
        display.outputs.write(runs.document)
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

    def add(self, number: int, reply: JobReply) -> None:
        """Add the reply about a job, keep its result for later commands, and print a line."""
        job, content = self.jobs[number], reply.content
        report = content.report if isinstance(content, RunContent) else None
        if reply.is_done_before:
            assert self.finished is not None
            assert job.output is not None
            known = self.finished.get(job.output)
            assert known is not None
            self.rows[number] = ModelRow.of_result(str(job.model), DONE_BEFORE, known.row)
        elif report is None:
            self.rows[number] = ModelRow(str(job.model), FAILURES.get(reply.code, FAILED))
            show_failure(self.terminal, job, reply)
        else:
            self._add_run(number, report, reply)
        self._outcomes[number] = self._outcome(job, reply, report)
        code = WRONG if self.display.is_check and report is not None and report.has_changes else reply.code
        self.code = max(self.code, code)
        if self.display.json is not None:
            self._documents[number] = self._document(number, reply, report, code)

    def _add_run(self, number: int, report: Report, reply: JobReply) -> None:
        job = self.jobs[number]
        row = self.rows[number] = ModelRow.of(str(job.model), report, is_planned=job.output is None)
        if self.finished is not None and job.output is not None and reply.result:
            kept = reply.row(job, "run", row.outcome, run_columns(json.loads(report.to_json())))
            self.finished.add(job.output, FinishedJob(reply.conditions, reply.result, kept))
        self._hints += ((str(job.model), hint) for hint in hint_lines(report))
        if self.display.verbose or report.plan is not None:
            self.display.show(self.terminal, report)
        else:
            for line in warning_lines(report):
                self.terminal.warning(f"{job.model}: {line}")
            if not self.display.quiet:
                self.terminal.line(outcome_line(report, row))
        for line in reply.content.declines:
            self.terminal.warning(line)

    @staticmethod
    def _outcome(job: ModelJob, reply: JobReply, report: Report | None) -> Report | Failure | Card:
        """The content of other formats about a model."""
        if reply.failure:
            return Failure("passes run", str(job.model), reply.failure, reply.code)
        return report or Card("passes run", str(job.model), "good", DONE_BEFORE)

    def document(self) -> Document:
        """The content of all formats."""
        return self.display.document([outcome for _, outcome in sorted(self._outcomes.items())])

    def _document(self, number: int, reply: JobReply, report: Report | None, code: int) -> dict[str, Any]:
        job = self.jobs[number]
        return {
            "model": str(job.model),
            "outcome": self.rows[number].outcome,
            "exit_code": code,
            "error": reply.failure or None,
            "output": None if job.output is None or reply.failure else str(job.output),
            "report": None if report is None else json.loads(report.to_json()),
        }

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
