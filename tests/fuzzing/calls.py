"""Calls of `optimize` on mutated or hostile models in one process, many in the time of one command."""

import os
import resource
import warnings
from pathlib import Path
from random import Random

import onnx
from passwright.core import PassesError
from passwright.core.errors import FailureKind

from passwright import optimize

from .harness import ADDRESS_SPACE
from .hostile_cases import LATE
from .hostile_models import MODEL, hostile_files
from .mutations import as_model, mutate_model


def spare_the_machine() -> None:
    """Limit the address space of this process."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


def mutated_model(number: int, models: tuple[onnx.ModelProto, ...]) -> onnx.ModelProto | None:
    """The mutated model of a number; None if protobuf does not read it."""
    rng = Random(number)
    base = onnx.ModelProto()
    base.CopyFrom(rng.choice(models))
    return as_model(mutate_model(base, rng, rng.sample(models, 3)))


def hostile_file(number: int, folder: Path) -> Path:
    """The hostile model of a number, written to a folder in place of earlier ones."""
    for name, data in hostile_files(number).items():
        (folder / name).write_bytes(data)
    return folder / MODEL


def call_failures(model: onnx.ModelProto | Path, time_limit: float) -> list[str]:
    """Exceptions of other types than PassesError for a model, exceptions of passes, and an end that is late.

    It is late by the CPU time of this process and those that ended, as the machine may be busy.
    """
    started = sum(os.times()[:4])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, about overflows
        try:
            left_out = optimize(model, verify=False, time_limit=time_limit).report.rejected
        except PassesError:
            left_out = ()
        except Exception as e:  # noqa: BLE001 - any other type is a failure
            return [f"{type(e).__name__}: {e}"]
    seconds = sum(os.times()[:4]) - started
    late = [f"ended after {seconds:.1f} CPU s"] if seconds > time_limit + LATE else []
    return [*late, *(f"{q.by}: {q.message}" for q in left_out if q.failure_kind == FailureKind.RAISED)]
