"""Calls of onnx's native code, which may crash, hang or exhaust memory, in a separate worker process.

Each function corresponds to one of onnx. Workers of this project, whose end their parent reports, call it directly; see
`call_directly`. Answers are cached, so that a call that ended the worker is not repeated.
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
START_SECONDS = 120.0  # for the process to start on a busy machine
CALL_SECONDS, SECONDS_PER_BYTE, MAX_CALL_SECONDS = 20.0, 1e-5, 600.0
"""Time limits of a call: base seconds, seconds per byte of its arguments, and maximum seconds."""
MAX_ANSWERS, MAX_KEPT_BYTES = 1 << 12, 1 << 12
"""Limits of cached answers: their number, and the bytes of each result."""


class OnnxError(Exception):
    """onnx rejects a call."""


class OnnxAborted(OnnxError):
    """A call crashed its process, did not end, or ran out of memory."""


def infer_node_outputs(
    spec: defs.OpSchema, node: onnx.NodeProto, types: Mapping[str, bytes], data: Mapping[str, bytes],
    opsets: Mapping[str, int],
) -> dict[str, onnx.TypeProto]:  # fmt: skip
    """The types of a node's outputs, from serialized types and constants of its inputs. Raises OnnxError."""
    arguments = (_identity(spec), node.SerializeToString(), dict(types), dict(data), dict(opsets))
    found: dict[str, bytes] = _call("infer_node_outputs", arguments, "inference")
    return {name: onnx.TypeProto.FromString(proto) for name, proto in found.items()}


def function_body(spec: defs.OpSchema, version: int, node: onnx.NodeProto, types: Sequence[bytes]) -> bytes:
    """The serialized function that defines an operator for a node with these input types; may be empty.

    Raises OnnxError.
    """
    arguments = (_identity(spec), version, node.SerializeToString(), list(types))
    return _call("function_body", arguments, "function body")


def infer_shapes(model: onnx.ModelProto, *, data_prop: bool = False) -> onnx.ModelProto:
    """The model with the types of values that onnx infers; the model itself if onnx fails."""
    try:
        return onnx.ModelProto.FromString(_call("infer_shapes", (_serialized(model), data_prop), "inference"))
    except OnnxError:
        return model


def convert_version(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """Convert the model to another opset. Raises OnnxError."""
    return onnx.ModelProto.FromString(_call("convert_version", (_serialized(model), version), "converter"))


def check_file(path: Path) -> None:
    """Raise OnnxError with the error of onnx's checker for a model file, if there is one."""
    _call("check_file", (os.fspath(path),), "checker", path.stat().st_size)


def _identity(spec: defs.OpSchema) -> tuple[str, str, int]:
    return spec.name, spec.domain, spec.since_version


def _serialized(model: onnx.ModelProto) -> bytes:
    try:
        return model.SerializeToString()
    except ValueError as e:  # over 2 GB
        raise OnnxError(str(e)) from e


def _call(name: str, arguments: tuple[Any, ...], subject: str, size: int | None = None) -> Any:
    """Call a function; `size` replaces the pickled size of its arguments if given."""
    succeeded, found = _process(os.getpid()).answer(name, arguments, f"onnx's {subject}", size)
    if succeeded is None:
        raise OnnxAborted(found)
    if not succeeded:
        raise OnnxError(found)
    return found


def call_directly() -> None:
    """Make this process, a worker whose crash its parent reports, call onnx directly."""
    _process(os.getpid()).code = OnnxCode()


@dataclass(slots=True)
class _OnnxProcess:
    """The worker, or the `code` in this process, and the cached answers. Thread-safe."""

    code: OnnxCode | None = None
    _worker: WorkerProcess[OnnxWorker] = field(
        default_factory=lambda: WorkerProcess(ONNX_WORKER, START_SECONDS, memory=None)
    )
    _answers: dict[bytes, Answer | tuple[None, str]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def answer(
        self, name: str, arguments: tuple[Any, ...], subject: str, size: int | None
    ) -> Answer | tuple[None, str]:
        """The answer of a function; None and the reason if the call was aborted."""
        if self.code is not None:
            return self.code.answer(name, arguments)
        request = dumps((name, arguments))
        key = blake2b(request, digest_size=16).digest() if size is None else b""  # files may change
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
    """The worker of a process; after a fork, the child has its own."""
    return _OnnxProcess()
