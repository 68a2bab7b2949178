"""Calls of the native code of onnx, which may crash, hang or take all memory: in a worker process of its own.

Each function has the meaning of one of onnx. Workers of this project, whose end their parent reports, call it directly:
see `call_directly`. Answers are kept, so that a call which ended the worker is not made again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from pickle import dumps
from threading import Lock
from typing import Any

import onnx
from onnx import defs

from ..errors import MemoryExhausted
from .onnx_worker import Answer, OnnxCode, OnnxWorker
from .worker_process import RequestFailed, WorkerExit, WorkerProcess, module_command

ONNX_WORKER = module_command(f"{__package__}.onnx_worker")
START_SECONDS = 120.0  # for the process to start, on a busy machine
CALL_SECONDS, SECONDS_PER_BYTE, MAX_CALL_SECONDS = 20.0, 1e-5, 600.0
"""Limits of a call: so many seconds, more for each byte of its arguments, and at most so many."""
MAX_ANSWERS, MAX_KEPT_BYTES = 1 << 12, 1 << 12
"""Limits of the answers that are kept: their number, and the bytes of the result of each."""


class OnnxError(Exception):
    """onnx refuses a call."""


class OnnxAborted(OnnxError):
    """A call that ended its process, did not end, or lacked memory."""


def infer_node_outputs(
    spec: defs.OpSchema, node: onnx.NodeProto, types: Mapping[str, bytes], data: Mapping[str, bytes],
    opsets: Mapping[str, int],
) -> dict[str, onnx.TypeProto]:  # fmt: skip
    """The types of the outputs of a node, from serialized types and constants of its inputs. Raises OnnxError."""
    arguments = (_identity(spec), node.SerializeToString(), dict(types), dict(data), dict(opsets))
    found: dict[str, bytes] = _call("infer_node_outputs", arguments, "inference")
    return {name: onnx.TypeProto.FromString(proto) for name, proto in found.items()}


def function_body(spec: defs.OpSchema, version: int, node: onnx.NodeProto, types: Sequence[bytes]) -> bytes:
    """The serialized function that defines an operator for a node with inputs of these types, which may be empty.

    Raises OnnxError.
    """
    arguments = (_identity(spec), version, node.SerializeToString(), list(types))
    return _call("function_body", arguments, "function body")


def infer_shapes(model: onnx.ModelProto, *, data_prop: bool = False) -> onnx.ModelProto:
    """The model with the types of its values that onnx infers; the model itself if onnx fails."""
    try:
        return onnx.ModelProto.FromString(_call("infer_shapes", (_serialized(model), data_prop), "inference"))
    except OnnxError:
        return model


def convert_version(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """The model at another opset. Raises OnnxError."""
    return onnx.ModelProto.FromString(_call("convert_version", (_serialized(model), version), "converter"))


def check_file(path: Path) -> None:
    """Raise OnnxError with the objection of onnx's checker to a model in a file, if there is one."""
    _call("check_file", (os.fspath(path),), "checker", path.stat().st_size)


def _identity(spec: defs.OpSchema) -> tuple[str, str, int]:
    return spec.name, spec.domain, spec.since_version


def _serialized(model: onnx.ModelProto) -> bytes:
    try:
        return model.SerializeToString()
    except ValueError as e:  # more than 2 GB
        raise OnnxError(str(e)) from e


def _call(name: str, arguments: tuple[Any, ...], subject: str, size: int | None = None) -> Any:
    """The result of a function, whose arguments have the pickled size unless another one is given."""
    succeeded, found = _process(os.getpid()).answer(name, arguments, f"onnx's {subject}", size)
    if succeeded is None:
        raise OnnxAborted(found)
    if not succeeded:
        raise OnnxError(found)
    return found


def call_directly() -> None:
    """Let this process, a worker whose crash its parent reports, call onnx itself."""
    _process(os.getpid()).code = OnnxCode()


@dataclass(slots=True)
class _OnnxProcess:
    """The worker, or the `code` in this process, and the answers so far. Any thread may use it."""

    code: OnnxCode | None = None
    _worker: WorkerProcess[OnnxWorker] = field(
        default_factory=lambda: WorkerProcess(ONNX_WORKER, START_SECONDS, memory=None)
    )
    _answers: dict[bytes, Answer | tuple[None, str]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def answer(
        self, name: str, arguments: tuple[Any, ...], subject: str, size: int | None
    ) -> Answer | tuple[None, str]:
        """The answer of a function; None and a reason for a call that aborted."""
        if self.code is not None:
            return self.code.answer(name, arguments)
        request = dumps((name, arguments))
        key = blake2b(request, digest_size=16).digest() if size is None else b""  # files change
        if (known := self._answers.get(key)) is not None:
            return known
        with self._lock:
            found = self._ask(name, arguments, subject, len(request) if size is None else size)
        if key and len(dumps(found)) <= MAX_KEPT_BYTES:
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            self._answers[key] = found
        return found

    def _ask(self, name: str, arguments: tuple[Any, ...], subject: str, size: int) -> Answer | tuple[None, str]:
        seconds = min(CALL_SECONDS + SECONDS_PER_BYTE * size, MAX_CALL_SECONDS)
        worker = self._worker.call(START_SECONDS + seconds)
        try:
            return worker.answer(name, arguments, size, seconds)
        except WorkerExit as e:
            return None, e.describe(subject)
        except MemoryExhausted as e:
            return None, f"{subject} {e}"
        except RequestFailed as e:
            return None, f"{subject} failed: {e}"


@cache
def _process(_pid: int) -> _OnnxProcess:
    """The worker of a process; after a fork, the new one has its own."""
    return _OnnxProcess()
