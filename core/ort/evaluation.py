"""Evaluation of ops whose inputs are all constant, in as few sessions as possible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ..errors import EvaluationError, ModelLoadError
from ..ir.op import Op
from ..ir.tensor import SMALL_TENSOR_BYTES, Tensor
from ..ir.values import Value
from ..serialization.exporter import node_bytes
from .backends import OnnxReference, OnnxRuntime
from .sessions import SessionConfig

MAX_SESSION_OPS = 2000  # ops; the time onnxruntime takes to set up a session grows faster than its ops
FEEDABLE_KINDS = frozenset("biufO")  # NumPy kinds that onnxruntime takes as they are


def evaluate(ops: Sequence[Op], wanted: Iterable[Value]) -> dict[Value, Tensor]:
    """The tensors of `wanted`, computed by `ops` (sorted, of one graph) from constants alone.

    One onnxruntime session runs up to 2,000 ops; without a kernel for one of them, the ops are halved until that op
    alone is run by `onnx.reference`. Tensors that cannot be computed are omitted; those that their ops read are added.
    """
    work = _Evaluation(set(wanted))
    for start in range(0, len(ops), MAX_SESSION_OPS):
        work.evaluate(list(ops[start : start + MAX_SESSION_OPS]))
    unsolved = set(ops) - work.evaluated
    return {v: t for v, t in work.tensors.items() if v in work.goals or not unsolved.isdisjoint(v.consumers)}


KernelSignature = tuple[str, str, tuple[int, ...]]


@dataclass(slots=True)
class _Evaluation:
    goals: set[Value]
    tensors: dict[Value, Tensor] = field(default_factory=dict[Value, Tensor])
    evaluated: set[Op] = field(default_factory=set[Op])
    unsupported: set[KernelSignature] = field(default_factory=set[KernelSignature])  # without onnxruntime kernel

    def evaluate(self, ops: list[Op]) -> None:
        """Compute `ops`, in halves if they cannot be computed together; unsupported ones are alone."""
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
            self.tensors.update(_run_session(ops, outputs, self.tensors, by_reference=by_reference))
            self.evaluated.update(ops)
        except EvaluationError as e:
            if lone is None:
                self.evaluate(ops[: len(ops) // 2])
                self.evaluate(ops[len(ops) // 2 :])
            elif not by_reference and isinstance(e, ModelLoadError):
                self.unsupported.add(kernel_signature(lone))
                self._attempt(ops)

    def _computable(self, ops: list[Op]) -> list[Op]:
        """Those of `ops` that do not depend on a failed one."""
        made: set[Value] = set()
        possible: list[Op] = []
        for op in ops:
            read = (v for v in (*op.inputs, *op.captures) if v is not None)
            if all(v.tensor is not None or v in self.tensors or v in made for v in read):
                possible.append(op)
                made.update(op.outputs)
        return possible


def kernel_signature(op: Op) -> KernelSignature:
    """The properties that decide whether a backend has a kernel."""
    return op.type, op.domain, tuple(v.recorded_type[0] for v in op.inputs if v is not None)


def _run_session(
    ops: list[Op],
    outputs: list[Value],
    found: dict[Value, Tensor],
    *,
    by_reference: bool,
) -> dict[Value, Tensor]:
    """Compute `outputs` in one session. Raises EvaluationError."""
    graph = onnx.GraphProto(name="constants")
    feeds: dict[str, Any] = {}
    made = {v for op in ops for v in op.outputs}
    for v in dict.fromkeys(v for op in ops for v in (*op.inputs, *op.captures) if v is not None):
        tensor = v.tensor or found.get(v)
        if tensor is None or v in made:
            continue
        if tensor.nbytes > SMALL_TENSOR_BYTES and tensor.array.dtype.kind in FEEDABLE_KINDS:
            feeds[v.name] = tensor.array
            graph.input.append(helper.make_tensor_value_info(v.name, tensor.dtype, tensor.dims))
        else:
            graph.initializer.append(tensor.to_proto(v.name))
    for op in ops:
        graph.node.add().MergeFromString(node_bytes(op))
    graph.output.extend(onnx.ValueInfoProto(name=v.name) for v in outputs)
    imports = [helper.make_opsetid(d, n) for d, n in ops[0].graph.opsets.items()]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    data = model.SerializeToString()
    # A pool of threads takes longer to start than small ops to compute.
    config = SessionConfig(intra_op_threads=0 if feeds else 1)
    session = OnnxReference(data) if by_reference else OnnxRuntime(data, config)
    results = session.run([v.name for v in outputs], feeds)
    return {
        v: Tensor.from_array(np.asarray(r)) for v, r in zip(outputs, results, strict=True) if _is_expected_tensor(v, r)
    }


def _is_expected_tensor(value: Value, result: Any) -> bool:
    """Whether a result is a dense tensor of the known type of the value."""
    if isinstance(result, list | dict) or result is None:
        return False
    array: np.ndarray[Any, Any] = np.asarray(result)
    return value.known_dtype in {0, helper.np_dtype_to_tensor_dtype(array.dtype)}
