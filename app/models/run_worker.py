"""Worker process that runs one model after the other, for a command with many."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from .job_exchange import JobReply
from .job_worker import Task, make_folder, serve_jobs
from .pool import Message
from .run_exchange import RunContent, options_from_text


def run_job(request: Message, output: Path | None) -> JobReply:
    """Run a model; the content of the reply is a RunContent. Raises PassesError."""
    from ..optimize.declines import recorded_declines  # noqa: PLC0415 - the worker for verification is started first
    from ..optimize.optimize import optimize_model  # noqa: PLC0415 - as above

    options = options_from_text(request["options"])
    if output is not None and not options.in_place:
        make_folder(output.parent)
        options = replace(options, output=output)
    model = Path(request["model"])
    with recorded_declines() if request["verbose"] else nullcontext() as declines:
        report = optimize_model(model, options).report
    return JobReply(RunContent(report, tuple(declines.lines()) if declines is not None else ()))


def _conditions(model: Path, text: str) -> str:
    from .run_conditions import run_conditions  # noqa: PLC0415 - the worker for verification is started first

    return run_conditions(model, text)


TASK = Task(_conditions, run_job)


def main() -> None:
    """Serve the parent until it ends."""
    serve_jobs(TASK)
