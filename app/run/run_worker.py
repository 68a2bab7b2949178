"""Worker process that runs one model after the other, for a command with many."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from signal import SIGTERM
from time import sleep

from ...core.errors import ModelError
from ...core.ort.process_limits import limit_memory
from ...core.ort.worker_process import Message, serve
from ...core.verify.oracle_start import start_oracle_worker
from ..exit_codes import BAD_INPUT, GRACE_PERIOD, exit_on_bus_error, expected_failure, unwind_on_sigterm
from .run_exchange import VERIFY, RunReply, options_from_text


def reply_to(request: Message) -> Iterator[Message]:
    """Run a model; the reply is that of `RunReply.of`."""
    try:
        outcome = _outcome(request)
    except Exception as e:  # noqa: BLE001 - a mistake of this program in one run must not end the others
        code, message = expected_failure(e) or (BAD_INPUT, f"{type(e).__name__}: {e}")
        text = "" if expected_failure(e) else "".join(traceback.format_exception(e))
        outcome = RunReply(failure=message, code=code, traceback=text)
    yield outcome.message()


def _outcome(request: Message) -> RunReply:
    from .declines import recorded_declines  # noqa: PLC0415 - the worker for verification is started first
    from .optimize import run_pipeline  # noqa: PLC0415 - as above
    from .run_conditions import run_conditions  # noqa: PLC0415 - as above

    model, text = Path(request["model"]), request["options"]
    output = None if request["output"] is None else Path(request["output"])
    conditions = run_conditions(model, text) if request["keep"] else ""
    finished = request["finished"]
    if finished and output is not None and finished == [conditions, _digest_if_any(output)]:
        return RunReply()
    options = options_from_text(text)
    if output is not None and not options.in_place:
        _make_folder(output.parent)
        options = replace(options, output=output)
    with recorded_declines() if request["verbose"] else nullcontext() as declines:
        report = run_pipeline(model, options).report
    lines = tuple(declines.lines()) if declines is not None else ()
    result = _digest_if_any(output) if output is not None and conditions else None
    return RunReply(report, lines, conditions=conditions, result=result or "")


def _digest_if_any(result: Path) -> str | None:
    """The digest of a result; None if it is missing or damaged."""
    from ..jobs.finished_jobs import model_digest  # noqa: PLC0415 - as above

    with suppress(ModelError):
        return model_digest(result)
    return None


def _make_folder(folder: Path) -> None:
    """Make a folder, and those around it, unless it is there. Raises ModelError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ModelError(f"cannot make the folder {folder}: {e.strerror}") from e


def main() -> None:
    """Reply to requests until the input ends."""
    if VERIFY in sys.argv:
        start_oracle_worker()
    limit_memory(None)
    exit_on_bus_error()
    with unwind_on_sigterm():
        serve(reply_to, clean_up=_unwind)


def _unwind() -> None:
    """Let the run end, and remove its files, where the parent was killed."""
    os.kill(os.getpid(), SIGTERM)
    sleep(GRACE_PERIOD)


if __name__ == "__main__":
    main()
