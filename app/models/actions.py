"""Commands that can run over many models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

from msgspec import Struct

from ..optimize.run_options import RunOptions
from .exchange import JobReply, JobRequest, unpacked
from .model_files import ModelJob


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


def perform(action: Action, job: ModelJob, request: JobRequest) -> JobReply:
    """Run an action on a model. Raises the errors of its function."""
    from ...core.run.report import Report  # noqa: PLC0415 - the worker for verification is started first
    from ..optimize.columns import run_columns  # noqa: PLC0415 - as above
    from ..optimize.document import left_out_lines  # noqa: PLC0415 - as above
    from ..optimize.statistics import RunStatistics  # noqa: PLC0415 - as above

    start, options, statistics = perf_counter(), unpacked(request.options), RunStatistics()
    if request.with_declines and isinstance(options, RunOptions):
        options = replace(options, instrumentation=(*options.instrumentation, statistics))
    report = action.function(job, options)
    seconds = round(perf_counter() - start, 6)
    is_run = isinstance(report, Report)
    return JobReply(
        (run_columns(report) if is_run else report.columns) | {"seconds": seconds},
        report if request.with_report else None,
        (*(f"warning: {t}" for t in left_out_lines(report)), *(f"note: {n}" for n in report.notes)) if is_run else (),
        tuple(statistics.decline_lines()),
    )
