"""Commands that are done to many models."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from time import perf_counter
from typing import Any

import typer
from msgspec import Struct

from ..cli.entry import COMMANDS, load_command
from ..cli.report_output import collected_report
from .exchange import JobReply, JobRequest, unpacked
from .model_files import ModelJob


class Action(Struct, frozen=True):
    """A command with its parameters for the model, the file of the result and a second model, "" for none.

    `timed`: whether it measures times, so that models are taken one at a time, or the name of the parameter that has it
    do so.
    """

    model: str
    output: str = ""
    other: str = ""
    timed: bool | str = False

    def is_timed(self, values: Mapping[str, Any]) -> bool:
        """Whether it measures times, with these values of its parameters."""
        return bool(values.get(self.timed)) if isinstance(self.timed, str) else self.timed


ACTIONS = {
    "run": Action("files", output="output", timed="check_speed"),
    "quantize": Action("model", output="output", timed=True),
    "tune": Action("model", output="output", timed=True),
    "compare": Action("model", timed=True),
    "verify": Action("original", other="other"),
}
DEFAULT = "run"


@cache
def action_command(name: str) -> Any:
    """The command of that name."""
    return load_command(name, COMMANDS[name])


def perform(job: ModelJob, request: JobRequest) -> JobReply:
    """Do an action to a model, as its command would. Raises the errors of the command."""
    from ...core.run.report import Report  # noqa: PLC0415 - the worker for verification is started first
    from ..optimize.columns import run_columns  # noqa: PLC0415 - as above
    from ..optimize.declines import recorded_declines  # noqa: PLC0415 - as above
    from ..optimize.render import warning_lines  # noqa: PLC0415 - as above

    action, command, given = ACTIONS[request.action], action_command(request.action), unpacked(request.options)
    takes_several = any(p.nargs == -1 for p in command.params if p.name == action.model)
    given[action.model] = [job.model] if takes_several else job.model
    if action.output:
        given[action.output] = None if given.get("in_place") else job.output
    if action.other:
        given[action.other] = job.other
    start = perf_counter()
    with recorded_declines() if request.with_declines else nullcontext() as declines:
        report = _report(command, given)
    seconds = round(perf_counter() - start, 6)
    is_run = isinstance(report, Report)
    return JobReply(
        (run_columns(report) if is_run else report.columns) | {"seconds": seconds},
        report if request.with_report else None,
        tuple(warning_lines(report)) if is_run else (),
        tuple(declines.lines()) if declines is not None else (),
    )


def _report(command: Any, given: Mapping[str, Any]) -> Any:
    """The report of a command, which prints none. Raises the error of the command."""
    cause = None
    with collected_report() as reports, typer.Context(command):
        try:
            command.callback(**given)
        except typer.Exit as e:
            cause = e.__cause__
    if isinstance(cause, Exception):
        raise cause
    (report,) = reports
    return report
