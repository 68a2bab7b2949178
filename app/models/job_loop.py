"""Loop over the replies of a pool, with progress, and the removal of files that ended workers left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.io.publishing import finish_publications
from ...core.processes.worker_process import WorkerError, WorkerExit
from ..cli.exit_codes import BAD_INPUT
from ..cli.report_output import full_disk_behind_standard_output
from .job_exchange import JobReply
from .model_files import ModelJob
from .output_locations import place_of
from .pool import Message, Pool, PoolLost

if TYPE_CHECKING:
    from ..report.terminal import Terminal

CRASHED, LATE = "crashed", "timed out"
NOW = 3  # models that progress names


@dataclass(slots=True)
class JobLoop:
    """Jobs that a pool serves. `add` is called with the number of each job and its reply, in the order of their ends.

    `done` are the numbers of the jobs that were added. `is_kept`: the folder of the results has a record of them.
    """

    jobs: Sequence[ModelJob]
    terminal: Terminal
    add: Callable[[int, JobReply], object]
    is_kept: bool
    done: set[int] = field(default_factory=set[int], init=False)

    def run(self, pool: Pool, requests: Sequence[Message]) -> None:
        """Do all jobs. Interrupted, remove the stages of workers, and print the number of models that are done.

        Raises PoolLost with that number, and other errors of the pool.
        """
        try:
            with (
                closing(pool.replies(requests)) as replies,
                full_disk_behind_standard_output("results so far are written"),
            ):
                while len(self.done) < len(requests):
                    with self.terminal.progress() as progress:
                        pool.on_start = lambda: progress(self._progress_text(pool))
                        pool.on_start()
                        number, reply = next(replies)
                    self.add(number, self._job_reply(self.jobs[number], reply))
                    self.done.add(number)
        except KeyboardInterrupt:
            self.terminal.warning(f"interrupted: {self._end_early()}")
            raise
        except PoolLost as e:
            raise PoolLost(f"{e}: {self._end_early()}") from e

    def _progress_text(self, pool: Pool) -> str:
        """The number of models that are done, and the names of those that are being run."""
        names = [self.jobs[number].model.name for number in sorted(pool.running.copy())]
        others = f" and {len(names) - NOW} others" if len(names) > NOW else ""
        now = f", now {', '.join(names[:NOW])}{others}" * bool(names)
        return f"running models: {len(self.done)} of {len(self.jobs)} done{now}"

    @staticmethod
    def _job_reply(job: ModelJob, reply: dict[str, Any] | WorkerError) -> JobReply:
        """The outcome of a job; that of one whose worker ended is a failure, and its stage is removed."""
        if not isinstance(reply, WorkerError):
            return JobReply.of(reply)
        remove_stages([job])
        reason = reply.describe("the process") if isinstance(reply, WorkerExit) else str(reply)
        end = LATE if isinstance(reply, WorkerExit) and reply.code is None else CRASHED
        return JobReply(failure=f"{place_of(job.model)}: {reason}", code=BAD_INPUT, end=end)

    def _end_early(self) -> str:
        """Remove the stages of workers; the number of models that are done, in words."""
        remove_stages(job for number, job in enumerate(self.jobs) if number not in self.done)
        kept = ", and their results are kept" if self.done and any(job.output for job in self.jobs) else ""
        again = "; --resume runs the others" if self.is_kept else ""
        return f"{len(self.done)} of {len(self.jobs)} models are done{kept}{again}"


def show_failure(terminal: Terminal, job: ModelJob, reply: JobReply) -> None:
    """Print the failure of a job."""
    model = place_of(job.model)
    name = "" if model in reply.failure else f"{model}: "
    terminal.warning(f"error: {name}{reply.failure}")
    for line in reply.traceback.splitlines():
        terminal.warning(line)


def remove_stages(jobs: Iterable[ModelJob]) -> None:
    """Remove the staging folders that workers left when they were killed."""
    for folder in {os.path.dirname(os.path.realpath(job.output)) for job in jobs if job.output is not None}:  # noqa: PTH120
        finish_publications(Path(folder))
