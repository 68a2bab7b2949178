"""Runs of models of constants in a worker process, where a crash, a hang or a lack of memory ends nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import onnx
from onnx import numpy_helper

from ..errors import EvaluationError, ModelLoadError
from ..ir.tensor import MappedFile, Tensor
from ..support.scratch_folder import ScratchFolder
from .evaluation_worker import EVALUATE, FEEDS, LOADING, MEMORY, MODEL, RESULTS, RUNNING
from .worker_folder import private_folder
from .worker_pool import EVALUATION_WORKER, worker_pool
from .worker_process import Message, RequestFailed, WorkerExit, WorkerProcess

START_SECONDS = 120.0  # for the process to start, on a busy machine
ALIGNMENT = 64  # bytes, of arrays in a file


@dataclass(frozen=True, slots=True)
class EvaluationLimits:
    """Limits of a run: the `memory` in bytes that its process may allocate, mapped files excluded, and `seconds`.

    Only Linux limits memory. The process has about 300 MB before any run.
    """

    memory: int = 2 << 30
    seconds: float = 20.0


class EvaluationAborted(EvaluationError):
    """A run that ended its process, did not end, or lacked memory."""


@dataclass(slots=True)
class EvaluationProcess:
    """Runs models in a worker that is taken from the pool when needed. Use it as a context manager."""

    limits: EvaluationLimits
    _worker: WorkerProcess | None = field(default=None, init=False)
    _scratch: ScratchFolder | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._worker is not None:
            worker_pool().give_back(self._worker)
        if self._scratch is not None:
            self._scratch.remove()

    def run(
        self, model: bytes, outputs: Sequence[str], feeds: Mapping[str, Tensor], *, by_reference: bool
    ) -> list[np.ndarray[Any, Any] | None]:
        """Run a model once, in onnxruntime or in `onnx.reference`; None for outputs that are no dense tensors.

        Raises ModelLoadError, EvaluationError, and EvaluationAborted if the process does not survive it.
        """
        if self._scratch is None:
            self._scratch = private_folder()
        if self._worker is None:
            self._worker = worker_pool().take(EVALUATION_WORKER)
        folder = self._scratch.path
        (folder / MODEL).write_bytes(model)
        request: Message = {
            "do": EVALUATE,
            "folder": str(folder),
            "feeds": _write_feeds(feeds, folder / FEEDS),
            "outputs": list(outputs),
            "by_reference": by_reference,
            "memory": self.limits.memory,
            "seconds": self.limits.seconds,
        }
        name = "onnx.reference" if by_reference else "onnxruntime"
        try:
            reply = self._worker.request(request, START_SECONDS + self.limits.seconds, retry=True)
        except WorkerExit as e:
            raise EvaluationAborted(e.describe(name)) from e
        except RequestFailed as e:
            raise EvaluationError(str(e)) from e
        if "error" in reply:
            kinds = {LOADING: ModelLoadError, MEMORY: EvaluationAborted, RUNNING: EvaluationError}
            raise kinds[reply["error"]](reply["reason"])
        return [None if place is None else _read(folder / RESULTS, place) for place in reply["results"]]


def _write_feeds(feeds: Mapping[str, Tensor], path: Path) -> dict[str, Message]:
    """The places of arrays: in the file that they are mapped from, otherwise in a new one."""
    places: dict[str, Message] = {}
    with path.open("wb") as f:
        for name, tensor in feeds.items():
            mapped = tensor.mapped
            if mapped is not None and mapped.is_raw and isinstance(mapped.file, MappedFile):
                source, offset = mapped.file.path.absolute(), mapped.begin
            else:
                source, offset = path, _append(f, tensor.array)
            dtype = tensor.array.dtype.str
            places[name] = {"path": str(source), "offset": offset, "dtype": dtype, "shape": tensor.dims}
    return places


def _append(f: BinaryIO, array: np.ndarray[Any, Any]) -> int:
    f.seek(-f.tell() % ALIGNMENT, os.SEEK_CUR)
    offset = f.tell()
    np.ascontiguousarray(array).tofile(f)
    return offset


def _read(path: Path, place: Message) -> np.ndarray[Any, Any]:
    with path.open("rb") as f:
        f.seek(place["offset"])
        if "dtype" in place:
            dtype = np.dtype(place["dtype"])
            count = (place["end"] - place["offset"]) // dtype.itemsize
            return np.fromfile(f, dtype, count).reshape(place["shape"])
        return numpy_helper.to_array(onnx.TensorProto.FromString(f.read(place["end"] - place["offset"])))
