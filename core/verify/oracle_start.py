"""Start of the worker of an oracle before it is needed, with few imports: `python -m <this module>` is the worker."""

from __future__ import annotations

from ..ort.worker_pool import EVALUATION_WORKER, worker_pool
from ..ort.worker_process import module_command
from ..support.gc_pause import collect_seldom

ORACLE_WORKER = module_command(f"{__package__}.oracle_start")


def start_oracle_worker() -> None:
    """Start a process that imports onnxruntime and all else while this one does other things.

    Until an oracle takes it, it evaluates constants.
    """
    worker_pool().start(ORACLE_WORKER, also=EVALUATION_WORKER)


def main() -> None:
    """Import the worker, and run it."""
    collect_seldom()
    from .oracle_worker import main as run_worker  # noqa: PLC0415 - what takes long

    run_worker()


if __name__ == "__main__":
    main()
