"""Evaluation of ops with constant inputs, in as few sessions as possible, in a worker process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import groupby
from types import MappingProxyType
from typing import Self

import numpy as np
import onnx
from onnx import helper

from ..errors import EvaluationError, MemoryExhausted, ModelLoadError
from ..ir.op import Op
from ..ir.tensor import SMALL_TENSOR_BYTES, MappedFile, Tensor, first_line
from ..ir.values import Value
from ..processes.custom_operators import runtime_name
from ..processes.worker_process import RequestFailed, WorkerExit, WorkerProcess, worker_pool
from ..serialization.exporter import node_bytes
from .evaluation_start import EVALUATION_WORKER
from .evaluation_worker import Array, EvaluationLimits, EvaluationWorker, MappedArray

START_SECONDS = 120.0  # for the process to start on a busy machine
MAX_SESSION_OPS = 2000  # the setup time of a session grows faster than its number of ops
FEEDABLE_KINDS = frozenset("biuf")  # NumPy kinds that onnxruntime accepts directly
MAX_ABORTED_RUNS = 4  # of single ops; all later ops are skipped
NOT_BY_REFERENCE = frozenset({"RegexFullMatch"})  # Python's regular expressions may take exponential time
DEFAULT_LIMITS = EvaluationLimits()
NO_TENSORS: Mapping[Value, Tensor] = MappingProxyType({})
OnFailure = Callable[[Op, str], object]
"""Called with each op that crashed, did not end or ran out of memory, and the reason."""


class EvaluationAborted(EvaluationError):
    """A run crashed its process, did not end, or ran out of memory."""


@dataclass(slots=True)
class EvaluationProcess:
    """Runs models in a worker, which is taken from the pool when needed. Use as a context manager."""

    limits: EvaluationLimits
    _worker: WorkerProcess[EvaluationWorker] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._worker is not None:
            worker_pool().give_back(self._worker)

    def run(
        self, model: bytes, outputs: Sequence[str], feeds: Mapping[str, Tensor], *, by_reference: bool
    ) -> list[Array | None]:
        """Run a model once, in onnxruntime or `onnx.reference`; None for outputs that are not dense tensors.

        Raises ModelLoadError, EvaluationError, and EvaluationAborted if the process does not survive it.
        """
        if self._worker is None:
            self._worker = worker_pool().take(EVALUATION_WORKER)
        arrays = {name: _array_to_send(tensor) for name, tensor in feeds.items()}
        worker = self._worker.call(START_SECONDS + self.limits.seconds, retry=True)
        try:
            return worker.evaluate(model, outputs, arrays, self.limits, by_reference=by_reference)
        except WorkerExit as e:
            raise EvaluationAborted(e.describe("onnx.reference" if by_reference else runtime_name())) from e
        except (MemoryExhausted, RequestFailed) as e:
            raise EvaluationAborted(str(e)) from e


def _array_to_send(tensor: Tensor) -> Array | MappedArray:
    """The array of a tensor; if it is mapped from a file, the worker reads that file."""
    mapped = tensor.mapped
    if mapped is not None and mapped.is_raw and isinstance(mapped.file, MappedFile):
        return MappedArray(mapped.file.path.absolute(), mapped.begin, tensor.array.dtype.str, tensor.dims)
    return np.asarray(tensor.array)


def evaluate(
    ops: Sequence[Op],
    wanted: Iterable[Value],
    known: Mapping[Value, Tensor] = NO_TENSORS,
    *,
    limits: EvaluationLimits = DEFAULT_LIMITS,
    on_failure: OnFailure = lambda _op, _reason: None,
) -> dict[Value, Tensor]:
    """Compute the tensors `wanted` by `ops` (sorted, of one graph) from constants and `known` tensors only.

    One onnxruntime session runs up to 2,000 ops in a worker process. If a kernel is missing, the ops are halved until
    `onnx.reference` runs the single op without kernel. If the process crashes, does not end or runs out of memory
    within the `limits`, the ops are run one by one, and that op is skipped. Tensors that cannot be computed are
    omitted; tensors that their ops read are added.

    Examples:
        >>> ops, x = graph.sorted_ops(), graph.inputs[0]
        >>> found = evaluate(ops, graph.outputs, {x: Tensor.from_array(np.full((1, 4), -2, np.float32))})
        >>> found[graph.outputs[0]].array
        array([[3., 4., 5., 6.]], dtype=float32)
    """
    with EvaluationProcess(limits) as process:
        work = _Evaluation(set(wanted), process, on_failure, dict(known))
        for start in range(0, len(ops), MAX_SESSION_OPS):
            work.evaluate(list(ops[start : start + MAX_SESSION_OPS]))
    unsolved = set(ops) - work.evaluated
    return {v: t for v, t in work.tensors.items() if v in work.goals or not unsolved.isdisjoint(v.consumers)}


KernelSignature = tuple[str, str, tuple[int, ...]]


@dataclass(slots=True)
class _Evaluation:
    goals: set[Value]
    process: EvaluationProcess
    on_failure: OnFailure
    tensors: dict[Value, Tensor]
    evaluated: set[Op] = field(default_factory=set[Op])
    unsupported: set[KernelSignature] = field(default_factory=set[KernelSignature])  # without onnxruntime kernel
    aborted_runs: int = 0

    def evaluate(self, ops: list[Op]) -> None:
        """Compute `ops`, in halves if they cannot be computed together; an unsupported op is run alone."""
        for is_alone, group in groupby(self._computable(ops), lambda op: kernel_signature(op) in self.unsupported):
            for together in [[op] for op in group] if is_alone else [list(group)]:
                self._attempt(together)

    def _attempt(self, ops: list[Op]) -> None:
        """Compute `ops` in one session."""
        inside, made = set(ops), [v for op in ops for v in op.outputs if v.name]
        outputs = [v for v in made if v in self.goals or any(user not in inside for user in v.consumers)]
        lone = ops[0] if len(ops) == 1 else None
        by_reference = lone is not None and kernel_signature(lone) in self.unsupported
        try:
            self.tensors.update(_run_session(self.process, ops, outputs, self.tensors, by_reference=by_reference))
            self.evaluated.update(ops)
        except EvaluationAborted as e:
            if lone is None:
                self._evaluate_one_by_one(ops)
            else:
                self.aborted_runs += 1
                _known_failures(os.getpid())[_identity(lone)] = str(e)
                self.on_failure(lone, str(e))
        except EvaluationError as e:
            if lone is None:
                self.evaluate(ops[: len(ops) // 2])
                self.evaluate(ops[len(ops) // 2 :])
            elif not by_reference and isinstance(e, ModelLoadError) and lone.type not in NOT_BY_REFERENCE:
                self.unsupported.add(kernel_signature(lone))
                self._attempt(ops)

    def _evaluate_one_by_one(self, ops: list[Op]) -> None:
        """Compute each op in a separate session up to the one that aborts, then the others together."""
        before = self.aborted_runs
        for i, op in enumerate(ops):
            if self._computable([op]):
                self._attempt([op])
            if self.aborted_runs > before:
                self.evaluate(ops[i + 1 :])
                return

    def _computable(self, ops: list[Op]) -> list[Op]:
        """The `ops` that do not depend on a failed one, and have not aborted before."""
        if self.aborted_runs >= MAX_ABORTED_RUNS:
            return []
        failures = _known_failures(os.getpid())
        made: set[Value] = set()
        possible: list[Op] = []
        for op in ops:
            read = (v for v in (*op.inputs, *op.captures) if v is not None)
            if not all(v.tensor is not None or v in self.tensors or v in made for v in read):
                continue
            reason = failures.get(_identity(op)) if failures else None
            if reason is not None:
                self.on_failure(op, reason)
                continue
            possible.append(op)
            made.update(op.outputs)
        return possible


@cache
def _known_failures(_pid: int) -> dict[bytes, str]:
    """The ops that aborted in this process, with the reason, so that replays of a run do not try them again."""
    return {}


def _identity(op: Op) -> bytes:
    """A digest of an op, its input types and the size of its model."""
    found = blake2b(node_bytes(op), digest_size=16)
    types = [None if v is None else v.recorded_type for v in op.inputs]
    found.update(f"{types} {op.graph.context.weight_bytes}".encode())
    return found.digest()


def kernel_signature(op: Op) -> KernelSignature:
    """The properties that determine whether a backend has a kernel."""
    return op.type, op.domain, tuple(v.recorded_type[0] for v in op.inputs if v is not None)


def _run_session(
    process: EvaluationProcess,
    ops: list[Op],
    outputs: list[Value],
    found: Mapping[Value, Tensor],
    *,
    by_reference: bool,
) -> dict[Value, Tensor]:
    """Compute `outputs` in one session. Raises EvaluationError."""
    graph = onnx.GraphProto(name="constants")
    feeds: dict[str, Tensor] = {}
    made = {v for op in ops for v in op.outputs}
    for v in dict.fromkeys(v for op in ops for v in (*op.inputs, *op.captures) if v is not None):
        tensor = v.tensor or found.get(v)
        if tensor is None or v in made:
            continue
        if tensor.nbytes > SMALL_TENSOR_BYTES and tensor.array.dtype.kind in FEEDABLE_KINDS:
            feeds[v.name] = tensor
            graph.input.append(helper.make_tensor_value_info(v.name, tensor.dtype, tensor.dims))
        else:
            graph.initializer.append(tensor.to_proto(v.name))
    for op in ops:
        graph.node.add().MergeFromString(node_bytes(op))
    graph.output.extend(onnx.ValueInfoProto(name=v.name) for v in outputs)
    imports = [helper.make_opsetid(d, n) for d, n in ops[0].graph.opsets.items()]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    try:
        data = model.SerializeToString()
    except ValueError as e:  # over 2 GB
        raise EvaluationError(f"its constants cannot be written: {first_line(e)}") from e
    results = process.run(data, [v.name for v in outputs], feeds, by_reference=by_reference)
    return {
        v: Tensor.from_array(r)
        for v, r in zip(outputs, results, strict=True)
        if r is not None and v.known_dtype in {0, helper.np_dtype_to_tensor_dtype(r.dtype)}
    }
