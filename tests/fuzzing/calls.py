"""Calls of `optimize` on mutated models in one process, many in the time of one command."""

from __future__ import annotations

import resource
import warnings
from random import Random

import onnx
from passwright.core import PassesError
from passwright.core.errors import FailureKind

from passwright import optimize

from .harness import ADDRESS_SPACE
from .mutations import as_model, mutate_model

TIME_LIMIT = 30.0  # seconds of a call


def spare_the_machine() -> None:
    """Limit the address space of this process."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


def call_failures(number: int, models: tuple[onnx.ModelProto, ...]) -> list[str]:
    """Exceptions of other types than PassesError for the model of a number, and exceptions of passes."""
    rng = Random(number)
    base = onnx.ModelProto()
    base.CopyFrom(rng.choice(models))
    model = as_model(mutate_model(base, rng, rng.sample(models, 3)))
    if model is None:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, about overflows
        try:
            left_out = optimize(model, verify=False, time_limit=TIME_LIMIT).report.rejected
        except PassesError:
            return []
        except Exception as e:  # noqa: BLE001 - any other type is a failure
            return [f"{type(e).__name__}: {e}"]
    return [f"{q.by}: {q.message}" for q in left_out if q.failure_kind == FailureKind.RAISED]
