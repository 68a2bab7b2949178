"""The command of the worker that evaluates constants, with few imports."""

from __future__ import annotations

from ..processes.worker_process import module_command

EVALUATION_WORKER = module_command(f"{__package__}.evaluation_worker")
