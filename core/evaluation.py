"""Computing constants: ops whose inputs are all known, run in as few sessions as possible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .errors import CannotLoad, EvaluationError
from .exporter import node_bytes
from .runtime import OnnxRuntime, Reference
from .tensor import SMALL, Tensor
from .values import Op, Value

SESSION = 2000  # ops; the time onnxruntime takes to set up a session grows faster than its ops
FEEDABLE = frozenset("biufO")  # NumPy kinds that onnxruntime takes as they are


def evaluate(ops: Sequence[Op], wanted: Iterable[Value]) -> dict[Value, Tensor]:
    """The tensors of `wanted`, computed by `ops` (sorted, of one graph) from constants alone.

    One onnxruntime session for 2,000 ops does it if it can; where it has no kernel, the ops are halved until only the
    op in question goes to `onnx.reference`. What cannot be computed is missing from the answer.
    """
    found: dict[Value, Tensor] = {}
    goals = set(wanted)
    for start in range(0, len(ops), SESSION):
        _solve(list(ops[start : start + SESSION]), goals, found)
    return {v: t for v, t in found.items() if v in goals}


def _solve(ops: list[Op], goals: set[Value], found: dict[Value, Tensor]) -> None:
    ops = _computable(ops, found)
    if not ops:
        return
    inside = set(ops)
    outputs = [v for op in ops for v in op.outputs if v in goals or any(user not in inside for user in v.uses)]
    outputs = [v for v in outputs if v.name]
    try:
        found.update(_run(ops, outputs, found))
    except EvaluationError as e:
        if len(ops) > 1:
            half = len(ops) // 2
            _solve(ops[:half], goals, found)
            _solve(ops[half:], goals, found)
        elif isinstance(e, CannotLoad):
            found.update(_by_reference(ops, outputs, found))


def _computable(ops: list[Op], found: dict[Value, Tensor]) -> list[Op]:
    """Those of `ops` that do not depend on one that failed."""
    made: set[Value] = set()
    possible: list[Op] = []
    for op in ops:
        read = (v for v in (*op.inputs, *op.captures) if v is not None)
        if all(v.tensor is not None or v in found or v in made for v in read):
            possible.append(op)
            made.update(op.outputs)
    return possible


def _by_reference(ops: list[Op], outputs: list[Value], found: dict[Value, Tensor]) -> dict[Value, Tensor]:
    try:
        return _run(ops, outputs, found, Reference)
    except EvaluationError:
        return {}


def _run(
    ops: list[Op],
    outputs: list[Value],
    found: dict[Value, Tensor],
    backend: type[OnnxRuntime | Reference] = OnnxRuntime,
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
