"""Output types of custom operators, inferred by onnxruntime in a worker process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

from ..errors import PassesError
from .custom_operators import CustomOperators, with_custom_operators
from .worker_process import WorkerError, module_command, worker_pool

WORKER = module_command("passwright.core.ort.evaluation_worker")
SECONDS = 120.0  # for the process to start on a busy machine, and to load a node
OutputType = tuple[str, tuple[int | str | None, ...]]
"""The name of a type in onnxruntime's notation, and the known dims; no dims if the rank is unknown."""


def output_types(added: CustomOperators, model: bytes) -> Sequence[OutputType]:
    """The output types of a serialized model; empty if it cannot be loaded."""
    return _output_types(os.getpid(), added, model)


@cache
def _output_types(_pid: int, added: CustomOperators, model: bytes) -> Sequence[OutputType]:
    worker = worker_pool().take(WORKER)
    try:
        with with_custom_operators(added):
            found: Any = worker.call(SECONDS, retry=True).output_types(model)
            return found
    except (PassesError, WorkerError):
        return ()
    finally:
        worker_pool().give_back(worker)
