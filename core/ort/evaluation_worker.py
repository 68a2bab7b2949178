"""Worker that runs models of constants."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from ..errors import OUT_OF_MEMORY, MemoryExhausted
from ..processes.custom_operator_types import OutputType
from ..processes.process_limits import limit_memory, prepare_to_crash
from ..processes.worker_process import Parent
from .sessions import SessionConfig

IDLE_SECONDS = 60.0
Array = np.ndarray[Any, Any]


class MappedArray(Struct, frozen=True):
    """An array in a file, which the worker maps into memory."""

    path: Path
    offset: int  # in bytes
    dtype: str
    shape: tuple[int, ...]

    def array(self) -> Array:
        """The mapped array."""
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)


class EvaluationLimits(Struct, frozen=True):
    """Limits of a run: the `memory` in bytes that its process may allocate in addition to its inputs, and `seconds`.

    Only Linux limits memory. The process has about 300 MB before any run.
    """

    memory: int = 2 << 30
    seconds: float = 20.0


@dataclass(slots=True)
class EvaluationWorker:
    """Evaluation in this process, for its parent."""

    parent: Parent

    def evaluate(
        self,
        model: bytes,
        outputs: Sequence[str],
        feeds: Mapping[str, Array | MappedArray],
        limits: EvaluationLimits,
        *,
        by_reference: bool,
    ) -> list[Array | None]:
        """Run a model once, in onnxruntime or `onnx.reference`; None for outputs that are not dense tensors.

        Raises ModelLoadError and EvaluationError, and MemoryExhausted if memory runs out.
        """
        from .backends import is_lack_of_memory  # noqa: PLC0415 - imports onnx, for which nothing has to wait

        limit_memory(limits.memory + sum(a.nbytes for a in feeds.values() if isinstance(a, np.ndarray)))
        self.parent.expect_within(limits.seconds)
        try:
            return _results(model, outputs, feeds, by_reference=by_reference)
        except Exception as e:
            if is_lack_of_memory(e):
                raise MemoryExhausted(str(e) or f"the evaluation {OUT_OF_MEMORY}") from e
            raise
        finally:
            limit_memory(None)

    def output_types(self, model: bytes) -> list[OutputType]:
        """The output types of a model, as inferred by onnxruntime. Raises ModelLoadError."""
        from .backends import LoadedModel  # noqa: PLC0415 - as above

        return [(o.type, tuple(o.shape)) for o in LoadedModel(model, SessionConfig(intra_op_threads=1)).outputs]


def _results(
    model: bytes, outputs: Sequence[str], feeds: Mapping[str, Array | MappedArray], *, by_reference: bool
) -> list[Array | None]:
    from .backends import LoadedModel, OnnxReference  # noqa: PLC0415 - as above

    # Starting a pool of threads takes longer than computing small ops.
    config = SessionConfig(intra_op_threads=0 if feeds else 1)
    session = OnnxReference(model) if by_reference else LoadedModel(model, config)
    arrays = {name: a.array() if isinstance(a, MappedArray) else a for name, a in feeds.items()}
    results = session.run(outputs, arrays)
    return [None if isinstance(r, list | dict) or r is None else np.asarray(r) for r in results]


def main() -> None:
    """Serve the parent until it ends."""
    prepare_to_crash()
    importlib.import_module("onnxruntime")
    parent = Parent()
    parent.serve(EvaluationWorker(parent), idle_limit=lambda: IDLE_SECONDS)
