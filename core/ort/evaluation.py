"""Computing constants: ops whose inputs are all known, run in as few sessions as possible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ..errors import CannotLoad, EvaluationError
from ..ir.op import Op
from ..ir.tensor import SMALL, Tensor
from ..ir.values import Value
from ..serialization.exporter import node_bytes
from .backends import OnnxRuntime, Reference

SESSION = 2000  # ops; the time onnxruntime takes to set up a session grows faster than its ops
FEEDABLE = frozenset("biufO")  # NumPy kinds that onnxruntime takes as they are


def evaluate(ops: Sequence[Op], wanted: Iterable[Value]) -> dict[Value, Tensor]:
    """The tensors of `wanted`, computed by `ops` (sorted, of one graph) from constants alone.

    One onnxruntime session for 2,000 ops does it if it can; where it has no kernel, the ops are halved until only the
    op in question goes to `onnx.reference`. What cannot be computed is missing from the answer; what then has to be
    kept for the op that failed is in it.
    """
    work = _Evaluation(set(wanted))
    for start in range(0, len(ops), SESSION):
        work.solve(list(ops[start : start + SESSION]))
    unsolved = set(ops) - work.solved
    return {v: t for v, t in work.found.items() if v in work.goals or not unsolved.isdisjoint(v.uses)}


Kind = tuple[str, str, tuple[int, ...]]


@dataclass(slots=True)
class _Evaluation:
    goals: set[Value]
    found: dict[Value, Tensor] = field(default_factory=dict[Value, Tensor])
    solved: set[Op] = field(default_factory=set[Op])
    refused: set[Kind] = field(default_factory=set[Kind])  # what onnxruntime is known to lack a kernel for

    def solve(self, ops: list[Op]) -> None:
        """Compute `ops`, in halves if they cannot be computed together."""
        for group in self._groups(self._computable(ops)):
            inside = set(group)
            outputs = [v for op in group for v in op.outputs if v in self.goals or any(u not in inside for u in v.uses)]
            self._attempt(group, [v for v in outputs if v.name])

    def _attempt(self, ops: list[Op], outputs: list[Value]) -> None:
        lone = ops[0] if len(ops) == 1 else None
        backend = Reference if lone is not None and kind(lone) in self.refused else OnnxRuntime
        try:
            self.found.update(_run(ops, outputs, self.found, backend))
            self.solved.update(ops)
        except EvaluationError as e:
            if lone is None:
                self.solve(ops[: len(ops) // 2])
                self.solve(ops[len(ops) // 2 :])
            elif backend is OnnxRuntime and isinstance(e, CannotLoad):
                self.refused.add(kind(lone))
                self._attempt(ops, outputs)

    def _groups(self, ops: list[Op]) -> Iterator[list[Op]]:
        """Runs of ops for one session each; ops of a kind that was refused stand alone."""
        run: list[Op] = []
        for op in ops:
            if not self.refused or kind(op) not in self.refused:
                run.append(op)
                continue
            if run:
                yield run
            yield [op]
            run = []
        if run:
            yield run

    def _computable(self, ops: list[Op]) -> list[Op]:
        """Those of `ops` that do not depend on one that failed."""
        made: set[Value] = set()
        possible: list[Op] = []
        for op in ops:
            read = (v for v in (*op.inputs, *op.captures) if v is not None)
            if all(v.tensor is not None or v in self.found or v in made for v in read):
                possible.append(op)
                made.update(op.outputs)
        return possible


def kind(op: Op) -> Kind:
    """What decides whether a backend has a kernel."""
    return op.type, op.domain, tuple(v.stated[0] for v in op.inputs if v is not None)


def _run(
    ops: list[Op],
    outputs: list[Value],
    found: dict[Value, Tensor],
    backend: type[OnnxRuntime | Reference],
) -> dict[Value, Tensor]:
    """One session. Raises EvaluationError."""
    graph = onnx.GraphProto(name="constants")
    feeds: dict[str, Any] = {}
    made = {v for op in ops for v in op.outputs}
    for v in dict.fromkeys(v for op in ops for v in (*op.inputs, *op.captures) if v is not None):
        tensor = v.tensor or found.get(v)
        if tensor is None or v in made:
            continue
        if tensor.nbytes > SMALL and tensor.array.dtype.kind in FEEDABLE:
            feeds[v.name] = tensor.array
            graph.input.append(helper.make_tensor_value_info(v.name, tensor.dtype, tensor.dims))
        else:
            graph.initializer.append(tensor.to_proto(v.name))
    for op in ops:
        graph.node.add().MergeFromString(node_bytes(op))
    graph.output.extend(onnx.ValueInfoProto(name=v.name) for v in outputs)
    imports = [helper.make_opsetid(d, n) for d, n in ops[0].graph.opsets.items()]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    results = backend(model.SerializeToString()).run([v.name for v in outputs], feeds)
    return {v: Tensor.from_array(np.asarray(r)) for v, r in zip(outputs, results, strict=True) if _is_tensor(v, r)}


def _is_tensor(value: Value, result: Any) -> bool:
    """Whether a result is a dense tensor of the type that the value is known to have."""
    if isinstance(result, list | dict) or result is None:
        return False
    array: np.ndarray[Any, Any] = np.asarray(result)
    return value.known_dtype in {0, helper.np_dtype_to_tensor_dtype(array.dtype)}
