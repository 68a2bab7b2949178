"""Commands that are done to many models."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from time import perf_counter
from typing import Any

from msgspec import Struct

from ...core.processes.watchdog import time_limit
from ..compare.compare_options import CompareOptions
from ..optimize.run_options import RunOptions
from ..quantize.quantize_options import QuantizationOptions
from ..tune.tune_options import TuneOptions
from ..verify.verify_options import VerifyOptions
from .exchange import JobReply, JobRequest, unpacked
from .model_files import ModelJob


def _run(job: ModelJob, options: RunOptions) -> Any:
    from ..optimize.optimize import optimize_model  # noqa: PLC0415 - the worker for verification is started first

    return optimize_model(job.model, replace(options, output=None if options.in_place else job.output)).report


def _quantize(job: ModelJob, options: QuantizationOptions) -> Any:
    from ..quantize.quantize import quantize_model  # noqa: PLC0415 - as above

    return quantize_model(job.model, replace(options, output=job.output)).report


def _tune(job: ModelJob, options: TuneOptions) -> Any:
    from ..tune.tune import tune_model  # noqa: PLC0415 - as above

    return tune_model(job.model, replace(options, output=job.output)).report


def _compare(job: ModelJob, options: CompareOptions) -> Any:
    from ..compare.compare import compare_model  # noqa: PLC0415 - as above
    from ..compare.quantized import compare_quantized  # noqa: PLC0415 - as above

    if options.quantized:
        return compare_quantized(job.model, options.quantization, options.with_tools)
    return compare_model(job.model, options)


def _verify(job: ModelJob, options: VerifyOptions) -> Any:
    from ..verify.verify import verify_models  # noqa: PLC0415 - as above

    assert job.other is not None
    with time_limit(options.time_limit, lambda: f"{job.other}: the comparison"):
        return verify_models(job.model, job.other, options)


class Action(Struct, frozen=True):
    """A function that does something to a job, with a class of options, and returns a report that has `columns`.

    `writes` a model, or needs an `other` one. `timed`: whether it measures times, so that models are taken one at a
    time, or the option that has it do so.
    """

    function: Callable[[ModelJob, Any], Any]
    options: type
    writes: bool = False
    other: bool = False
    timed: bool | str = False

    def is_timed(self, options: Any) -> bool:
        """Whether it measures times with these options."""
        return bool(getattr(options, self.timed)) if isinstance(self.timed, str) else self.timed


ACTIONS = {
    "run": Action(_run, RunOptions, writes=True, timed="check_speed"),
    "quantize": Action(_quantize, QuantizationOptions, writes=True, timed=True),
    "tune": Action(_tune, TuneOptions, writes=True, timed=True),
    "compare": Action(_compare, CompareOptions, timed=True),
    "verify": Action(_verify, VerifyOptions, other=True),
}
DEFAULT = "run"


def perform(job: ModelJob, request: JobRequest) -> JobReply:
    """Do an action to a model. Raises the errors of its function."""
    from ...core.run.report import Report  # noqa: PLC0415 - as above
    from ..optimize.columns import run_columns  # noqa: PLC0415 - as above
    from ..optimize.declines import recorded_declines  # noqa: PLC0415 - as above
    from ..optimize.document import left_out_lines  # noqa: PLC0415 - as above

    start = perf_counter()
    with recorded_declines() if request.with_declines else nullcontext() as declines:
        report = ACTIONS[request.action].function(job, unpacked(request.options))
    seconds = round(perf_counter() - start, 6)
    is_run = isinstance(report, Report)
    return JobReply(
        (run_columns(report) if is_run else report.columns) | {"seconds": seconds},
        report if request.with_report else None,
        (*(f"warning: {t}" for t in left_out_lines(report)), *(f"note: {n}" for n in report.notes)) if is_run else (),
        tuple(declines.lines()) if declines is not None else (),
    )
