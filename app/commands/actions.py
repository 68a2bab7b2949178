"""Commands that `passes batch` can run on models, and the worker process that runs them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.processes.watchdog import time_limit
from ...core.processes.worker_process import module_command
from ..compare.compare_options import CompareCommandOptions
from ..models.model_files import ModelJob
from ..models.worker import Action, serve_jobs
from ..optimize.run_options import RunOptions
from ..quantize.quantize_options import QuantizationOptions
from ..tune.tune_options import TuneOptions
from ..verify.verify_options import VerifyOptions

WORKER = module_command(__name__)


def _run(job: ModelJob, options: RunOptions) -> Any:
    from ..optimize.optimize import optimize_model  # noqa: PLC0415 - the worker for verification is started first

    return optimize_model(job.model, replace(options, output=None if options.in_place else job.output)).report


def _quantize(job: ModelJob, options: QuantizationOptions) -> Any:
    from ..quantize.quantize import quantize_model  # noqa: PLC0415 - as above

    return quantize_model(job.model, replace(options, output=job.output)).report


def _tune(job: ModelJob, options: TuneOptions) -> Any:
    from ..tune.tune import tune_model  # noqa: PLC0415 - as above

    return tune_model(job.model, replace(options, output=job.output)).report


def _compare(job: ModelJob, options: CompareCommandOptions) -> Any:
    from ..compare.compare import compare_model  # noqa: PLC0415 - as above
    from ..compare.quantized import compare_quantized  # noqa: PLC0415 - as above

    if options.quantized:
        return compare_quantized(job.model, options.quantization, options.tools)
    return compare_model(job.model, options)


def _verify(job: ModelJob, options: VerifyOptions) -> Any:
    from ..verify.verify import verify_models  # noqa: PLC0415 - as above

    with time_limit(options.time_limit, lambda: f"{job.other or job.model}: the comparison"):
        return verify_models(job.model, job.other, options)


ACTIONS = {
    "run": Action("run", _run, RunOptions, writes=True, timed="check_speed"),
    "quantize": Action("quantize", _quantize, QuantizationOptions, writes=True, timed=True),
    "tune": Action("tune", _tune, TuneOptions, writes=True, timed=True),
    "compare": Action("compare", _compare, CompareCommandOptions, timed=True),
    "verify": Action("verify", _verify, VerifyOptions, other=True),
}
DEFAULT = "run"


def main() -> None:
    """Serve jobs in a process of a pool."""
    serve_jobs(ACTIONS)
