"""Start of the worker of an oracle before it is needed, with few imports."""

from __future__ import annotations

from ..ort.worker_pool import EVALUATION_WORKER, worker_pool
from ..ort.worker_process import module_command

ORACLE_WORKER = module_command(f"{__package__}.oracle_worker")


def start_oracle_worker() -> None:
    """Start a process that imports onnxruntime and all else while this one does other things.

    Until an oracle takes it, it evaluates constants.
    """
    worker_pool().start(ORACLE_WORKER, also=EVALUATION_WORKER)
