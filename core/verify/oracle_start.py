"""Starts the worker of an oracle before it is needed, with few imports."""

from __future__ import annotations

from ..ort.evaluation_start import EVALUATION_WORKER
from ..processes.worker_process import module_command, worker_pool
from ..support.gc_pause import collect_seldom

ORACLE_WORKER = module_command(__name__)


def start_oracle_worker() -> None:
    """Start a process that imports onnxruntime and everything else while this process does other things.

    It evaluates constants until an oracle uses it.
    """
    worker_pool().start(ORACLE_WORKER, also=EVALUATION_WORKER)


def main() -> None:
    """Import the worker and run it."""
    collect_seldom()
    from .oracle_worker import main as run_worker  # noqa: PLC0415 - what takes long

    run_worker()
