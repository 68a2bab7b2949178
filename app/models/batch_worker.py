"""Worker process that does a command to one model after the other, as the command itself would."""

from __future__ import annotations

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from time import perf_counter
from typing import Any

import typer

from ...core.processes.worker_process import module_command
from ..cli.standard_streams import STANDARD_OUTPUT
from .action_command import action_command
from .job_exchange import JobReply
from .job_worker import Task, make_folder, serve_jobs
from .pool import Message

BATCH_WORKER = module_command(__name__)


def do_action(request: Message, output: Path | None) -> JobReply:
    """Call the function of a command; the content of the reply are the columns of its report.

    Raises the errors of the command.
    """
    from .actions import ACTIONS  # noqa: PLC0415 - the worker for verification is started first

    name, given = json.loads(request["options"])
    action, command = ACTIONS[name], action_command(name)
    takes_several = any(p.nargs == -1 for p in command.params if p.name == action.model)
    given[action.model] = [request["model"]] if takes_several else request["model"]
    if output is not None:
        make_folder(output.parent)
    if action.output:
        given[action.output] = output
    start = perf_counter()
    code, text = _printed_report(command, given | {"json": STANDARD_OUTPUT})
    columns = action.columns(json.loads(text)) | {"seconds": round(perf_counter() - start, 6)}
    if request["report"] is not None:
        publish_report(Path(request["report"]), text)
    return JobReply(columns, code=code)


def _printed_report(command: Any, given: dict[str, Any]) -> tuple[int, str]:
    """The exit code of a command, and the report that it prints. Raises its error if it prints none."""
    code, cause = 0, None
    with redirect_stdout(StringIO()) as printed, redirect_stderr(StringIO()):
        try:
            command.callback(**given)
        except typer.Exit as e:
            code, cause = e.exit_code, e.__cause__
    if isinstance(cause, Exception):
        raise cause
    return code, printed.getvalue()


def publish_report(place: Path, text: str) -> None:
    """Write the report of a model. Raises ModelError."""
    from ...core.io.output_paths import OutputFile  # noqa: PLC0415 - as above
    from ...core.io.publishing import publish_text  # noqa: PLC0415 - as above

    publish_text(OutputFile.at(place), lambda: text.rstrip("\n"))


def _conditions(model: Path, text: str) -> str:
    from .batch_conditions import action_conditions  # noqa: PLC0415 - as above

    return action_conditions(model, text)


TASK = Task(_conditions, do_action)


def main() -> None:
    """Serve the parent until it ends."""
    serve_jobs(TASK)
