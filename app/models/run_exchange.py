"""Options and reports of runs, as they are exchanged with a worker."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from msgspec import Struct

from ...core.processes.worker_process import module_command
from ..optimize.run_options import RunOptions
from .job_exchange import packed, unpacked

if TYPE_CHECKING:  # imports onnx, which a worker does after it started the process that verifies
    from ...core.run.report import Report

RUN_WORKER = module_command(f"{__package__}.run_worker")


class RunContent(Struct, frozen=True):
    """The content of the reply about a run: its report, and lines about rules that declined."""

    report: Report
    declines: tuple[str, ...] = ()


def options_text(options: RunOptions) -> str:
    """The options of a command, without `progress`, for a worker."""
    return packed({f.name: getattr(options, f.name) for f in fields(options) if f.name != "progress"})


def options_from_text(text: str) -> RunOptions:
    """The options of which `options_text` made a text."""
    return RunOptions(**unpacked(text))
