"""Batches: one command done to many models, in processes of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ...core.errors import UsageError
from ...core.io.output_paths import require_writable_folder
from ...core.processes.process_limits import default_memory
from ..cli.exit_codes import USAGE
from ..cli.options import require
from ..cli.report_output import full_disk_behind_standard_output
from ..cli.standard_streams import STANDARD_OUTPUT
from ..report.terminal import Terminal
from .batch_render import left_out_lines, row_line
from .batch_settings import ActionOptions, BatchConditions, OutputLocations
from .batch_worker import BATCH_WORKER
from .finished_jobs import FinishedJob, FinishedJobs, open_record
from .job_exchange import VERIFY, JobReply, job_request
from .job_loop import JobLoop, show_failure
from .job_pool import JobPool, default_processes, model_memory
from .job_worker import make_folder
from .many_render import DONE_BEFORE, FAILED, FAILURES, ModelRow, show_summary
from .model_files import ModelJob
from .output_locations import place_of
from .pool import Pool
from .result_row import ResultRow
from .sources import BatchJob
from .summary import Summary
from .summary_files import summary_paths, write_summary

REPORT_SUFFIX = ".json"  # behind the name of the result


def run_batch(
    jobs: Sequence[BatchJob],
    options: ActionOptions,
    places: OutputLocations,
    conditions: BatchConditions,
    *,
    quiet: bool,
) -> int:
    """Do a command to many models, and print a line for each and a table; return the highest exit code.

    Raises ModelError for places that cannot be written, and UsageError for options that are unusable.
    """
    terminal = Terminal(quiet=quiet or places.json == STANDARD_OUTPUT)
    require_writable_folder(places.folder)
    make_folder(places.folder)
    models = [path for job in jobs for path in (job.job.model, job.job.output)]
    paths = summary_paths(places, models)
    batch = Batch(jobs, options, open_record(places.folder, terminal), terminal, conditions.store, quiet)
    is_timed = options.action.is_timed(options.values())
    if is_timed and (conditions.processes or 1) > 1:
        terminal.warning("warning: models that are measured at the same time slow each other down")
    batch.run(new_pool(options, conditions, is_timed=is_timed), conditions)
    rows = [row for _, row in sorted(batch.rows.items())]
    write_summary(Summary(batch.record.rows), places, paths, Summary(rows))
    with full_disk_behind_standard_output():
        show_summary(terminal, batch.shown_rows, f"written to {places.folder}")
    return batch.code


def new_pool(options: ActionOptions, conditions: BatchConditions, *, is_timed: bool) -> Pool:
    """The workers: processes of this machine, or those of a cluster. Raises UsageError for options that do not fit."""
    command = (*BATCH_WORKER, *[VERIFY] * (not options.values().get("no_verify")))
    if conditions.cluster:
        given = {"--jobs": conditions.processes, "--max-memory": conditions.memory}
        refused = next((name for name, value in given.items() if value is not None), "")
        require(not refused, f"{refused} is for this machine: a cluster is given by --on")
        from .dask_pool import DaskPool  # noqa: PLC0415 - an extra, and heavy

        return DaskPool(command, conditions.cluster)
    processes = conditions.processes or (1 if is_timed else default_processes())
    return JobPool(command, processes, default_memory() if conditions.memory is None else conditions.memory)


@dataclass(slots=True)
class Batch:
    """The jobs of a batch, and the rows about those that ended, by number. `record` keeps them in the folder."""

    jobs: Sequence[BatchJob]
    options: ActionOptions
    record: FinishedJobs
    terminal: Terminal
    store: Path | None = None
    quiet: bool = False
    code: int = field(default=0, init=False)
    rows: dict[int, ResultRow] = field(default_factory=dict[int, ResultRow], init=False)
    shown: dict[int, ModelRow] = field(default_factory=dict[int, ModelRow], init=False)

    def run(self, pool: Pool, conditions: BatchConditions) -> None:
        """Do all jobs, and print a line for each.

        Raises UsageError if the options turn out to be unusable before any job is done.
        """
        requests = [self._request(job, conditions) for job in self.jobs]
        loop = JobLoop([job.job for job in self.jobs], self.terminal, self.add, is_kept=True)
        loop.run(pool, requests)

    def _request(self, job: BatchJob, conditions: BatchConditions) -> dict[str, Any]:
        output = job.job.output
        assert output is not None
        stored = self._stored(job.job)
        return job_request(
            stored,
            self.options.text(job),
            keep=True,
            finished=self.record.get(output) if conditions.resume else None,
            report=f"{stored.output}{REPORT_SUFFIX}" if conditions.keep_reports else None,
            memory=model_memory(job.job.model),
            seconds=conditions.seconds,
        )

    def add(self, number: int, reply: JobReply) -> None:
        """Add the reply about a job, keep its row, and print a line."""
        job = self.jobs[number].job
        assert job.output is not None
        if reply.code == USAGE and reply.failure and not self.rows:
            raise UsageError(reply.failure)
        if reply.is_done_before:
            known = self.record.get(job.output)
            assert known is not None
            row, shown = dict(known.row), DONE_BEFORE
        else:
            row = self._row(number, reply)
            shown = str(row["outcome"])
            self.record.add(job.output, FinishedJob(reply.conditions, reply.result or "", row))
            self._show(number, reply, row)
        self.rows[number] = row
        self.shown[number] = ModelRow.of_result(place_of(job.model), shown, row)
        self.code = max(self.code, int(row["exit_code"] or 0))

    def _stored(self, job: ModelJob) -> ModelJob:
        """A job with the place that its result is written to, which is known by that in the folder of the record."""
        if self.store is None or job.output is None:
            return job
        return replace(job, output=self.store / job.output.relative_to(self.record.folder))

    def _row(self, number: int, reply: JobReply) -> ResultRow:
        batch_job = self.jobs[number]
        outcome = reply.end or FAILURES.get(reply.code, FAILED)
        columns: ResultRow = reply.content or {}
        row = reply.row(self._stored(batch_job.job), self.options.name, outcome, columns)
        row["options"] = " ".join(batch_job.arguments) or None
        if not self.options.action.output:
            row["output"] = None
        return row

    def _show(self, number: int, reply: JobReply, row: ResultRow) -> None:
        if reply.failure:
            show_failure(self.terminal, self.jobs[number].job, reply)
            return
        for line in left_out_lines(row):
            self.terminal.warning(line)
        if row.get("error"):
            self.terminal.warning(f"error: {row['model']}: {row['error']}")
        elif not self.quiet:
            self.terminal.line(row_line(row))

    @property
    def shown_rows(self) -> list[ModelRow]:
        """The rows for the terminal, in the order of the jobs."""
        return [row for _, row in sorted(self.shown.items())]
