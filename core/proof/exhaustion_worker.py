"""Worker that runs two models on every number of a type: `python -m <this module>`."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import EvaluationError, ModelError
from ..ort.backends import OnnxReference, OnnxRuntime
from ..ort.process_limits import prepare_to_crash
from ..ort.sessions import SessionConfig
from ..ort.worker_process import Message, serve
from ..verify.output_comparison import compare_outputs

Array = np.ndarray[Any, Any]


def reply(request: Message) -> Iterator[Message]:
    """Compare the models of a request on all numbers, each at one place of the input at least, or at every place.

    onnxruntime computes halves with 32 bits between ops. They are therefore rounded after each op, too, where ONNX's
    reference evaluator has both models, each number at one place.
    """
    config = SessionConfig(intra_op_threads=1)
    names, shape = request["outputs"], tuple(request["shape"])
    try:
        pair = [OnnxRuntime(b64decode(m), config) for m in request["models"]]
        pair[0].run(names, {request["name"]: np.zeros(shape, request["dtype"])})
    except (EvaluationError, ModelError) as e:
        yield {"skipped": str(e)}
        return
    shown = difference_of(pair, request, every_place=request["every_place"])
    if not shown and request["dtype"] == "float16":
        try:
            reference = [OnnxReference(b64decode(m)) for m in request["models"]]
            shown = difference_of(reference, request, every_place=False)
        except (EvaluationError, ModelError):  # an operator that it lacks
            shown = {}
    yield shown


def difference_of(pair: Sequence[OnnxRuntime | OnnxReference], request: Message, *, every_place: bool) -> Message:
    """The first numbers on which two models differ in their bits; empty if there are none. Raises EvaluationError."""
    names, shape = request["outputs"], tuple(request["shape"])
    bits = np.dtype(request["dtype"]).itemsize * 8
    for numbers in numbers_of(bits, int(np.prod(shape)), every_place=every_place):
        given = {request["name"]: numbers.view(request["dtype"]).reshape(shape)}
        with np.errstate(all="ignore"):
            wanted, found = (model.run(names, given) for model in pair)
        if all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in zip(wanted, found, strict=True)):
            continue
        differences = (compare_outputs(a, b, exact=True).reason for a, b in zip(wanted, found, strict=True))
        for name, reason in zip(names, differences, strict=True):
            if reason:
                return {
                    "counterexample": numbers.reshape(-1).tolist(),
                    "shape": shape,
                    "difference": f"{name}: {reason}",
                }
    return {}


def numbers_of(bits: int, count: int, *, every_place: bool) -> Iterator[Array]:
    """Arrays of so many numbers, as bits, that hold every number once, or each at every place; one of no numbers."""
    dtype, total = np.dtype(f"uint{bits}"), 1 << bits if count else 1
    step = 1 if every_place else max(count, 1)
    places = np.arange(count, dtype=np.uint64)
    for begin in range(0, total, step):
        yield ((begin + places) % total).astype(dtype)


if __name__ == "__main__":
    prepare_to_crash()
    serve(reply)
