"""Worker that compares two models on every number of a type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..errors import EvaluationError, ModelError
from ..ort.backends import LoadedModel, OnnxReference
from ..ort.sessions import SessionConfig
from ..processes.process_limits import prepare_to_crash
from ..processes.worker_process import serve
from ..verify.output_comparison import compare_outputs

Array = np.ndarray[Any, Any]


class NumbersRequest(Struct, frozen=True):
    """Two serialized models, and their input with `dtype` and `shape` that takes all numbers.

    Each number is at one position of the input at least, or at `every_place`.
    """

    models: tuple[bytes, bytes]
    name: str
    outputs: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    every_place: bool


class NumbersDifference(Struct, frozen=True):
    """The input with the first numbers on which two models differ, and a description of the difference."""

    counterexample: Array
    reason: str


class ExhaustionWorker:
    """Comparisons in this process."""

    def compare(self, request: NumbersRequest) -> NumbersDifference | None:
        """The difference of two models, or None. Raises EvaluationError and ModelError.

        onnxruntime keeps 32 bits between float16 ops. Results are therefore also compared with rounding after each op,
        if ONNX's reference evaluator supports both models, with each number at one position.
        """
        config = SessionConfig(intra_op_threads=1)
        pair = [LoadedModel(m, config) for m in request.models]
        pair[0].run(request.outputs, {request.name: np.zeros(request.shape, request.dtype)})
        shown = difference_of(pair, request)
        if shown is None and request.dtype == "float16":
            with suppress(EvaluationError, ModelError):  # it lacks an operator
                reference = [OnnxReference(m) for m in request.models]
                shown = difference_of(reference, replace(request, every_place=False))
        return shown


def difference_of(pair: Sequence[LoadedModel | OnnxReference], request: NumbersRequest) -> NumbersDifference | None:
    """The first difference between the bits of two models. Raises EvaluationError."""
    names, bits = request.outputs, np.dtype(request.dtype).itemsize * 8
    for numbers in numbers_of(bits, int(np.prod(request.shape)), every_place=request.every_place):
        given = {request.name: numbers.view(request.dtype).reshape(request.shape)}
        with np.errstate(all="ignore"):
            wanted, found = (model.run(names, given) for model in pair)
        if all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in zip(wanted, found, strict=True)):
            continue
        differences = (compare_outputs(a, b, exact=True).reason for a, b in zip(wanted, found, strict=True))
        for name, reason in zip(names, differences, strict=True):
            if reason:
                return NumbersDifference(given[request.name], f"{name}: {reason}")
    return None


def numbers_of(bits: int, count: int, *, every_place: bool) -> Iterator[Array]:
    """Yield arrays of `count` numbers, as bits, with every number once, or at every position; an empty one for 0."""
    dtype, total = np.dtype(f"uint{bits}"), 1 << bits if count else 1
    step = 1 if every_place else max(count, 1)
    places = np.arange(count, dtype=np.uint64)
    for begin in range(0, total, step):
        yield ((begin + places) % total).astype(dtype)


def main() -> None:
    """Serve the parent until it ends."""
    prepare_to_crash()
    serve(ExhaustionWorker())
