"""Types and shapes, worked out when someone asks and never twice.

The commonest operators are done here; all others by the inference functions of their ONNX schemas
(`onnx.shape_inference.infer_node_outputs`), which see constants up to 1 KB and no weights.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import checker, helper, shape_inference

from .io.exporter import node_bytes
from .io.importer import typed
from .ir.tensor import SMALL
from .ir.values import Dim, Op, Shape, Value

Facts = tuple[int, Shape | None]

SAME_AS_INPUT = frozenset({
    "Abs", "Acos", "Asin", "Atan", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Dropout", "Elu", "Erf", "Exp", "Floor",
    "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "LogSoftmax", "Mish", "Neg", "Not", "PRelu",
    "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt",
    "Tan", "Tanh", "ThresholdedRelu",
})  # fmt: skip
BROADCAST = frozenset({"Add", "And", "Div", "Mod", "Mul", "Or", "Pow", "Sub", "Xor", "Max", "Min", "Sum", "Mean"})
BROADCAST_TO_BOOL = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
BROADCASTS_SINCE = 8  # the variadic ones were the last to get multidirectional broadcasting


def infer(op: Op) -> None:
    """Let the outputs of `op`, and of all it depends on, learn what can be known. O(ops not yet asked)."""
    now = op.graph.shared.facts
    stack = [op]
    while stack:
        here = stack[-1]
        waiting = [] if here.inferred_at == now else [p for p in _feeders(here) if p.inferred_at != now]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        if here.inferred_at != now:
            here.inferred_at = now
            _learn(here)


def _feeders(op: Op) -> Iterator[Op]:
    """The ops whose answers `op` needs and that still have something to learn."""
    results = (v for sub in op.subgraphs for v in sub.outputs)
    for v in (*op.inputs, *results):
        if v is not None and v.producer is not None and not v.is_settled:
            yield v.producer


def _learn(op: Op) -> None:
    spec = op.schema
    if spec is None:
        return
    if op.subgraphs:
        _from_bodies(op)
        return
    facts = _known_operator(op, spec) if op.domain == "" and op.version >= BROADCASTS_SINCE else None
    if facts is None or facts[1] is None:
        _from_schema(op, spec)
    else:
        op.outputs[0].learn(*facts)


def _known_operator(op: Op, spec: onnx.defs.OpSchema) -> Facts | None:
    """Type and shape of the first output, for the operators done here; None for all others."""
    known = [v.stated for v in op.inputs if v is not None]
    if (
        len(op.outputs) != 1
        or len(known) < spec.min_input
        or not known
        or any(v is not None and v.type is not None for v in op.inputs)
    ):
        return None
    dtype, shape = known[0]
    if op.type in SAME_AS_INPUT:
        return known[0]
    if op.type in BROADCAST:
        return dtype, broadcast([s for _, s in known])
    if op.type in BROADCAST_TO_BOOL:
        return onnx.TensorProto.BOOL, broadcast([s for _, s in known])
    if op.type == "MatMul":
        return dtype, product_shape(shape, known[1][1])
    if op.type == "Conv":
        return dtype, window_shape(op, shape, known[1][1])
    if op.type == "Transpose" and shape is not None:
        perm = list(op.attr("perm") or range(len(shape))[::-1])
        return (dtype, tuple(shape[i] for i in perm)) if sorted(perm) == list(range(len(shape))) else None
    return None


def window_shape(op: Op, x: Shape | None, w: Shape | None) -> Shape | None:
    """The shape of Conv(x, w) (operator Conv, its formula for explicit padding); None where it is not fixed."""
    if x is None or w is None or len(x) != len(w) or len(x) < 3 or op.attr("auto_pad", "NOTSET") != "NOTSET":
        return None
    spatial = len(x) - 2
    ones = [1] * spatial
    strides, dilations = op.attr("strides") or ones, op.attr("dilations") or ones
    pads = op.attr("pads") or [0] * 2 * spatial
    out: list[Dim] = []
    for i, (extent, kernel) in enumerate(zip(x[2:], w[2:], strict=True)):
        if not isinstance(extent, int) or not isinstance(kernel, int):
            return None
        padded = extent + pads[i] + pads[i + spatial]
        out.append((padded - dilations[i] * (kernel - 1) - 1) // strides[i] + 1)
    return (x[0], w[0], *out)


def broadcast(shapes: list[Shape | None]) -> Shape | None:
    """The shape that ONNX's multidirectional broadcasting gives; None where a rank is unknown."""
    out: list[Dim] = []
    for shape in shapes:
        if shape is None:
            return None
        out = [1] * (len(shape) - len(out)) + out
        for i, d in enumerate(reversed(shape), 1):
            out[-i] = _stretched(out[-i], d)
    return tuple(out)


def _stretched(a: Dim, b: Dim) -> Dim:
    if b in {a, 1}:
        return a
    if a == 1 or (isinstance(b, int) and not isinstance(a, int)):
        return b
    return a if isinstance(a, int) else None


def product_shape(a: Shape | None, b: Shape | None) -> Shape | None:
    """The shape of MatMul(a, b), as numpy.matmul defines it."""
    if a is None or b is None or not a or not b:
        return None
    batch = broadcast([a[:-2], b[:-2]])
    return None if batch is None else (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def _from_bodies(op: Op) -> None:
    """If, Loop and Scan: their outputs have the types of what their bodies give back."""
    if op.type == "If" and len(op.subgraphs) == 2:
        for out, a, b in zip(op.outputs, *(sub.outputs for sub in op.subgraphs), strict=False):
            if a.stated[0] == b.stated[0]:
                out.learn(a.stated[0], _agreed(a.stated[1], b.stated[1]))
    elif op.type in {"Loop", "Scan"}:
        results = op.subgraphs[0].outputs[1 if op.type == "Loop" else 0 :]
        for out, v in zip(op.outputs, results, strict=False):
            out.learn(v.stated[0], None)


def _agreed(a: Shape | None, b: Shape | None) -> Shape | None:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def _from_schema(op: Op, spec: onnx.defs.OpSchema) -> None:
    """Ask the operator's own inference function."""
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for v in op.inputs:
        if v is None:
            continue
        proto = type_proto(v)
        if proto is None:
            return
        types[v.name] = proto
        if v.tensor is not None and v.tensor.nbytes <= SMALL and not v.tensor.is_external:
            data[v.name] = v.tensor.to_proto(v.name)
    node = onnx.NodeProto.FromString(node_bytes(op))
    imports = [helper.make_opsetid(d, n) for d, n in op.graph.opsets.items()]
    try:
        found = shape_inference.infer_node_outputs(spec, node, types, data, opset_imports=imports)
    except (shape_inference.InferenceError, checker.ValidationError):
        return  # the op is wrong or its schema cannot tell; onnxruntime has the last word on it
    for v in op.outputs:
        if v.name and v.name in found:
            typed(v, found[v.name])


def type_proto(value: Value) -> onnx.TypeProto | None:
    """What is known of a value as a TypeProto; None where its type is unknown."""
    if value.type is not None:
        return value.type
    dtype, shape = value.stated
    return helper.make_tensor_type_proto(dtype, shape) if dtype else None


def same_extent(a: Dim, b: Dim) -> bool:
    """Whether two dims are known to be equal. Two unnamed ones are not."""
    return a is not None and a == b


def stretches_to(small: Shape, big: Shape) -> bool:
    """Whether broadcasting `small` against `big` is known to give `big`."""
    if len(small) > len(big):
        return False
    return all(s == 1 or same_extent(s, b) for s, b in zip(small[::-1], big[::-1], strict=False))
